package telemetry

import (
	"errors"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
)

var _ dispatcher.Observer = (*Metrics)(nil)

// Started implements dispatcher.Observer.
func (m *Metrics) Started(s *job.Spec, wait time.Duration) {
	tenant, own := m.tenants.label(s.Tenant)
	m.queueWait.WithLabelValues(className(s.Priority.Class()), tenant).Observe(wait.Seconds())
	if own {
		m.balances.seen(s)
	}
}

// Finished implements dispatcher.Observer.
func (m *Metrics) Finished(s *job.Spec, r *job.Result) {
	if errors.Is(r.Err, dispatcher.ErrShed) {
		return // Shed counts it
	}
	outcome := "ok"
	if r.Err != nil {
		outcome = "error"
	}
	m.requests.WithLabelValues(className(s.Priority.Class()), outcome).Inc()
	if r.Estimate.Method != "" {
		m.estimates.WithLabelValues(r.Estimate.Method).Inc()
	}
	m.charged.Add(float64(max(r.Charged, 0)))
	if r.Usage.Known != job.Metered {
		return
	}
	m.tokens.WithLabelValues("input").Add(float64(max(r.Usage.Input, 0)))
	m.tokens.WithLabelValues("output").Add(float64(max(r.Usage.Output, 0)))
	if r.Err == nil {
		m.drift.Observe(float64(r.Reserved - r.Usage.Input - r.Usage.Output))
	}
}

// Shed implements dispatcher.Observer.
func (m *Metrics) Shed(s *job.Spec, e *dispatcher.ShedError) {
	tenant, _ := m.tenants.label(s.Tenant)
	m.tenantRejections.WithLabelValues(tenant).Inc()
	m.shed.WithLabelValues(e.Reason.String()).Inc()
	m.requests.WithLabelValues(className(s.Priority.Class()), "shed").Inc()
}

// LedgerCalled implements dispatcher.Observer.
func (m *Metrics) LedgerCalled(op string, took time.Duration, err error) {
	m.ledgerCalls.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		m.ledgerErrors.WithLabelValues(op).Inc()
	}
}
