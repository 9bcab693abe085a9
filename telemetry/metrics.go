package telemetry

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Config says what there is to see. The zero Config is usable.
type Config struct {
	// Ledger is where llm_bucket_remaining is read. nil, or a ledger that is no
	// ledger.Snapshotter, leaves it out.
	Ledger ledger.Ledger
	// Limits says which limits a job is charged to, as provider.Plan's method
	// does. nil leaves out llm_bucket_remaining.
	Limits func(model, tenant string, p job.Priority) []*ledger.Limit
	// Models are shown from the start with the limits that no tenant owns; all
	// others when the first of their jobs was granted.
	Models []string
	// Factors and Lengths are what estimators have learnt; nil leaves it out.
	Factors *learn.Factors
	Lengths *learn.Lengths
	// MaxTenants is how many tenants have a label of their own. 0 means 50.
	MaxTenants int
}

// Metrics is a dispatcher.Observer and a prometheus.Collector. Make it with New.
type Metrics struct {
	factors  *learn.Factors // may be nil
	lengths  *learn.Lengths // may be nil
	tenants  *tenants
	balances *balances
	stats    atomic.Pointer[func() dispatcher.Stats]

	queueWait        *prometheus.HistogramVec // class, tenant
	drift            prometheus.Histogram
	estimates        *prometheus.CounterVec // method
	tenantRejections *prometheus.CounterVec // tenant
	requests         *prometheus.CounterVec // class, outcome
	tokens           *prometheus.CounterVec // direction
	charged          prometheus.Counter
	shed             *prometheus.CounterVec   // reason
	ledgerCalls      *prometheus.HistogramVec // op
	ledgerErrors     *prometheus.CounterVec   // op
	refusals         *prometheus.CounterVec   // status
}

var (
	queueDepth = prometheus.NewDesc("paceline_queue_depth", "Jobs that wait, by class.", []string{"class"}, nil)
	inflight   = prometheus.NewDesc("paceline_inflight_requests", "Jobs that hold a worker: calls to the provider, and a few that ask for their budget.", nil, nil)
	settling   = prometheus.NewDesc("paceline_settlements_pending", "Settlements that have not reached the ledger yet.", nil, nil)

	ofModel   = []string{"provider", "model"}
	factor    = prometheus.NewDesc("llm_estimate_factor", "Input tokens that the provider counts, for each that is counted here.", ofModel, nil)
	factorP95 = prometheus.NewDesc("llm_estimate_factor_p95", "The same, as 95 % of the calls stay below it.", ofModel, nil)
	quantile  = prometheus.NewDesc("llm_output_quantile_tokens", "Output tokens that calls are expected to stay within.", ofModel, nil)
	missed    = prometheus.NewDesc("llm_output_missed_ratio", "Part of the latest outputs that were longer than expected.", ofModel, nil)
)

// New returns metrics that are all zero.
func New(cfg Config) *Metrics {
	if cfg.MaxTenants <= 0 {
		cfg.MaxTenants = 50
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		factors: cfg.Factors, lengths: cfg.Lengths,
		tenants: newTenants(cfg.MaxTenants),
		queueWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "llm_queue_wait_seconds",
			Help:    "Time from submission to the grant, of each attempt that was granted.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60},
		}, []string{"class", "tenant"}),
		drift: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llm_estimate_drift_tokens",
			Help:    "Tokens reserved minus tokens used, of calls that succeeded. Negative is an estimate that was too low.",
			Buckets: []float64{-16384, -4096, -1024, -256, -64, -16, 0, 16, 64, 256, 1024, 4096, 16384},
		}),
		estimates:        counter("llm_estimates_total", "Jobs that ended, by how their input was estimated.", "method"),
		tenantRejections: counter("llm_tenant_rejections_total", "Jobs shed, by tenant.", "tenant"),
		requests:         counter("paceline_requests_total", "Jobs that ended, by class and outcome: ok, error or shed.", "class", "outcome"),
		tokens:           counter("paceline_tokens_total", "Tokens used, as the provider reported them.", "direction"),
		charged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "paceline_quota_tokens_total",
			Help: "Tokens that calls counted against the provider's limits in the end, by its rules.",
		}),
		shed: counter("paceline_shed_total", "Jobs shed, by reason.", "reason"),
		ledgerCalls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "paceline_ledger_call_seconds",
			Help:    "Duration of the calls of a ledger that may block.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5},
		}, []string{"op"}),
		ledgerErrors: counter("paceline_ledger_errors_total", "Calls of the ledger that failed.", "op"),
		refusals:     counter("paceline_provider_refusals_total", "Attempts that the provider answered with an error, by status.", "status"),
	}
	m.balances = newBalances(cfg, m.LedgerCalled)
	return m
}

// Watch says where the state of the queue is read: a dispatcher's Stats.
func (m *Metrics) Watch(stats func() dispatcher.Stats) { m.stats.Store(&stats) }

// ProviderRefused counts an attempt that the provider answered with an HTTP status
// other than success.
func (m *Metrics) ProviderRefused(status int) {
	m.refusals.WithLabelValues(strconv.Itoa(status)).Inc()
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.queueWait, m.drift, m.estimates, m.tenantRejections, m.requests, m.tokens, m.charged, m.shed, m.ledgerCalls, m.ledgerErrors, m.refusals,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	ch <- queueDepth
	ch <- inflight
	ch <- settling
	ch <- bucketRemaining
	ch <- limitMargin
	ch <- factor
	ch <- factorP95
	ch <- quantile
	ch <- missed
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.balances.collect(ch)
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if m.factors != nil {
		for k, s := range labelled(m.factors.Models()) {
			gauge(factor, s.Mean, k.Provider, k.Model)
			gauge(factorP95, s.P95, k.Provider, k.Model)
		}
	}
	if m.lengths != nil {
		for k, l := range labelled(m.lengths.Models()) {
			gauge(quantile, float64(l.Quantile), k.Provider, k.Model)
			gauge(missed, l.Missed, k.Provider, k.Model)
		}
	}
	stats := m.stats.Load()
	if stats == nil {
		return
	}
	s := (*stats)()
	for class, n := range s.Waiting {
		gauge(queueDepth, float64(n), className(class))
	}
	gauge(inflight, float64(s.Running))
	gauge(settling, float64(s.Settling))
}

// labelled makes names from outside fit to be labels. Of those that are alike then one is
// shown: Prometheus would refuse all.
func labelled[V any](models map[learn.Key]V) map[learn.Key]V {
	out := make(map[learn.Key]V, len(models))
	for k, v := range models {
		out[learn.Key{Provider: strings.ToValidUTF8(k.Provider, "\uFFFD"), Model: strings.ToValidUTF8(k.Model, "\uFFFD")}] = v
	}
	return out
}

// classNames are made once: a label is needed for every job.
var classNames = func() (names [job.Classes]string) {
	for c := range names {
		p, _ := job.PriorityOf(c)
		names[c] = p.String()
	}
	return names
}()

func className(class int) string { return classNames[class] }
