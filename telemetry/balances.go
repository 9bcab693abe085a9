package telemetry

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

var bucketRemaining = prometheus.NewDesc("llm_bucket_remaining",
	"What could be taken from a limit at once, in its own unit; negative after overuse. The tenant is that of a limit that it owns.",
	[]string{"limit", "tenant"}, nil)

var limitMargin = prometheus.NewDesc("llm_limit_margin_ratio",
	"How much of a limit is used, from 0 to 1: a refusal that the ledger did not expect lowers it, and quiet time raises it again.",
	[]string{"limit", "tenant"}, nil)

const (
	snapshotAge     = time.Second
	snapshotTimeout = 500 * time.Millisecond
	// maxKinds bounds the kinds of jobs whose limits are shown.
	maxKinds = 1000
)

// kind is what the limits of a job depend on.
type kind struct {
	model, tenant string
	class         job.Priority
}

// balances reads what is left of the limits that jobs were charged to.
type balances struct {
	ledger ledger.Snapshotter
	limits func(model, tenant string, p job.Priority) []*ledger.Limit
	called func(op string, took time.Duration, err error)

	mu      sync.RWMutex
	kinds   map[kind]struct{}
	models  []string
	last    []prometheus.Metric
	read    time.Time // when last was read, or could not be
	reading bool
}

// newBalances returns nil, which shows nothing, when there is nothing to read.
func newBalances(cfg Config, called func(string, time.Duration, error)) *balances {
	s, ok := cfg.Ledger.(ledger.Snapshotter)
	if !ok || cfg.Limits == nil {
		return nil
	}
	return &balances{ledger: s, limits: cfg.Limits, called: called, models: cfg.Models, kinds: make(map[kind]struct{})}
}

// seen remembers the limits of a granted job. Its model is one that the plan knows.
func (b *balances) seen(s *job.Spec) {
	if b == nil {
		return
	}
	k := kind{s.Model, s.Tenant, s.Priority}
	b.mu.RLock()
	_, known := b.kinds[k]
	known = known || len(b.kinds) >= maxKinds
	b.mu.RUnlock()
	if known {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kinds) < maxKinds {
		b.kinds[kind{strings.Clone(k.model), strings.Clone(k.tenant), k.class}] = struct{}{}
	}
}

func (b *balances) collect(ch chan<- prometheus.Metric) {
	if b == nil {
		return
	}
	for _, m := range b.current() {
		ch <- m
	}
}

// current returns the balances, read anew if they are old and nobody else is
// reading them.
func (b *balances) current() []prometheus.Metric {
	b.mu.Lock()
	if b.reading || !b.read.IsZero() && time.Since(b.read) < snapshotAge {
		defer b.mu.Unlock()
		return b.last
	}
	b.reading = true
	shown := b.shownLocked()
	b.mu.Unlock()

	fresh := b.snapshot(shown)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.read, b.reading = fresh, time.Now(), false
	return fresh
}

// series is one time series of the gauge.
type series struct{ limit, tenant string }

// shownLocked returns the limits to read, one for each series.
func (b *balances) shownLocked() map[series]*ledger.Limit {
	shown := make(map[series]*ledger.Limit)
	for _, model := range b.models {
		for _, l := range b.limits(model, "", job.Unset) {
			if !l.Own {
				shown[seriesOf(l, "")] = l
			}
		}
	}
	for k := range b.kinds {
		for _, l := range b.limits(k.model, k.tenant, k.class) {
			shown[seriesOf(l, k.tenant)] = l
		}
	}
	return shown
}

// seriesOf leaves the tenant out of the name of a limit that it owns: it has a
// label of its own.
func seriesOf(l *ledger.Limit, tenant string) series {
	if !l.Own {
		return series{limit: valid(l.Key)}
	}
	return series{valid(strings.Replace(l.Key, " tenant="+strconv.Quote(tenant), "", 1)), valid(tenant)}
}

func (b *balances) snapshot(shown map[series]*ledger.Limit) []prometheus.Metric {
	names := make([]series, 0, len(shown))
	limits := make([]*ledger.Limit, 0, len(shown))
	for s, l := range shown {
		names, limits = append(names, s), append(limits, l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), snapshotTimeout)
	defer cancel()
	start := time.Now()
	got, err := b.ledger.Snapshot(ctx, limits)
	b.called("snapshot", time.Since(start), err)
	if err != nil {
		return nil
	}
	out := make([]prometheus.Metric, 0, 2*len(got))
	for i, balance := range got {
		gauge := func(d *prometheus.Desc, v float64) {
			out = append(out, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, names[i].limit, names[i].tenant))
		}
		gauge(bucketRemaining, float64(balance.Available))
		gauge(limitMargin, float64(balance.Margin)/ledger.FullMargin)
	}
	return out
}
