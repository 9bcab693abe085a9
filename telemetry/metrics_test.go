package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/telemetry"
)

// A dispatcher's whole life, seen through the metrics.
func TestDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, err := provider.NewPlan(provider.PlanConfig{Models: []string{"m"}, Rules: []provider.Rule{
			{Limit: ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute, Burst: 60_000}, Models: []string{"m"}},
			{Limit: ledger.Limit{Key: "tenant", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, Burst: 1000}, Each: provider.EachTenant},
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := ledger.NewMemory()
		m := telemetry.New(telemetry.Config{Ledger: l, Limits: plan.Limits, Models: []string{"m"}})
		check(t, scrape(t, m), map[string]float64{`llm_bucket_remaining{limit="tpm model=\"m\"",tenant=""}`: 60_000})

		d, err := dispatcher.New(dispatcher.Config{Ledger: l, Plan: plan, Observer: m, MaxTenantQueue: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.Watch(d.Stats)
		go func() { _ = d.Run(t.Context()) }()

		spec := func(tenant string, p job.Priority, tokens int64) job.Spec {
			return job.Spec{Model: "m", Tenant: tenant, Priority: p, Estimate: job.Estimate{Input: tokens, Declared: true}}
		}
		do := func(s job.Spec, u job.Usage, err error) error {
			_, err = dispatcher.Do(t.Context(), d, s, func(context.Context) (int, job.Usage, error) { return 0, u, err })
			return err
		}
		if err := do(spec("acme", job.Paid, 600), job.Used(100, 50), nil); err != nil {
			t.Fatal(err)
		}
		if err := do(spec("acme", job.Paid, 100), job.Used(300, 0), nil); err != nil {
			t.Fatal(err)
		}
		if err := do(spec("acme", job.Unset, 550), job.Usage{}, errors.New("broke")); err == nil {
			t.Fatal("no error")
		}
		// acme has used 1,000 of 1,000 by now, so the next one waits, and the one
		// after it finds the tenant's queue full.
		waiting, err := d.Submit(t.Context(), spec("acme", job.Free, 500), func(context.Context) (any, job.Usage, error) { return nil, job.Used(500, 0), nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := do(spec("acme", job.Free, 500), job.Usage{}, nil); !errors.Is(err, dispatcher.ErrShed) {
			t.Fatalf("not shed: %v", err)
		}
		running := make(chan struct{})
		busy, err := d.Submit(t.Context(), spec("globex", job.Background, 10), func(context.Context) (any, job.Usage, error) { <-running; return nil, job.Used(10, 0), nil })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // the balances shown are at most a second old
		got := scrape(t, m)
		check(t, got, map[string]float64{
			`paceline_queue_depth{class="free"}`:                               1,
			`paceline_queue_depth{class="paid"}`:                               0,
			`paceline_inflight_requests`:                                       1,
			`paceline_settlements_pending`:                                     0,
			`paceline_shed_total{reason="tenant_queue_full"}`:                  1,
			`llm_tenant_rejections_total{tenant="acme"}`:                       1,
			`paceline_requests_total{class="paid",outcome="ok"}`:               2,
			`paceline_requests_total{class="free",outcome="error"}`:            1,
			`paceline_requests_total{class="free",outcome="shed"}`:             1,
			`paceline_tokens_total{direction="input"}`:                         400,
			`paceline_tokens_total{direction="output"}`:                        50,
			`paceline_quota_tokens_total`:                                      1000,
			`llm_estimate_drift_tokens_bucket{le="-256"}`:                      0,
			`llm_estimate_drift_tokens_bucket{le="-64"}`:                       1, // 100 − 300
			`llm_estimate_drift_tokens_bucket{le="256"}`:                       1,
			`llm_estimate_drift_tokens_bucket{le="1024"}`:                      2, // 600 − 150
			`llm_estimate_drift_tokens_sum`:                                    250,
			`llm_queue_wait_seconds_count{class="paid",tenant="acme"}`:         2,
			`llm_queue_wait_seconds_count{class="background",tenant="globex"}`: 1,
			`llm_bucket_remaining{limit="tenant",tenant="globex"}`:             990,
			`llm_bucket_remaining{limit="tpm model=\"m\"",tenant=""}`:          60_000 - 1000 - 10,
		})
		if v := got[`llm_bucket_remaining{limit="tenant",tenant="acme"}`]; v > 20 {
			t.Errorf("acme has %v left", v)
		}
		close(running)
		<-busy.Result()
		<-waiting.Result()
		if err := d.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, scrape(t, m), map[string]float64{`paceline_inflight_requests`: 0, `paceline_queue_depth{class="free"}`: 0})
	})
}

// Tenants are invented by callers: their number must not be that of the series.
func TestTenantsAreBounded(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	shed := &dispatcher.ShedError{Reason: dispatcher.TenantQueueFull}
	for i := range 1000 {
		s := &job.Spec{Tenant: fmt.Sprint("t", i), Priority: job.Free}
		m.Started(s, time.Second)
		m.Shed(s, shed)
	}
	got := scrape(t, m)
	labels := 0
	for name := range got {
		if strings.HasPrefix(name, "llm_tenant_rejections_total") {
			labels++
		}
	}
	if labels != 51 {
		t.Errorf("%d tenants have a series, want 50 and the others", labels)
	}
	check(t, got, map[string]float64{
		`llm_tenant_rejections_total{tenant="t0"}`:                  1,
		`llm_tenant_rejections_total{tenant="t49"}`:                 1,
		`llm_tenant_rejections_total{tenant="other"}`:               950,
		`llm_queue_wait_seconds_count{class="free",tenant="other"}`: 950,
	})
}

// A tenant's name may be any bytes, and a label may not.
func TestTenantsOfAnyBytes(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	for _, tenant := range []string{"\xff\xfe", "a\nb\"}", "", strings.Repeat("x", 5000)} {
		s := &job.Spec{Tenant: tenant}
		m.Started(s, 0)
		m.Finished(s, &job.Result{})
		m.Shed(s, &dispatcher.ShedError{})
	}
	check(t, scrape(t, m), map[string]float64{"llm_tenant_rejections_total{tenant=\"\uFFFD\"}": 1, `llm_tenant_rejections_total{tenant=""}`: 1})
}

func TestLedgerAndProvider(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	m.LedgerCalled("reserve", 3*time.Millisecond, nil)
	m.LedgerCalled("reserve", 250*time.Millisecond, context.DeadlineExceeded)
	m.ProviderRefused(429)
	check(t, scrape(t, m), map[string]float64{
		`paceline_ledger_call_seconds_count{op="reserve"}`:             2,
		`paceline_ledger_call_seconds_bucket{op="reserve",le="0.005"}`: 1,
		`paceline_ledger_errors_total{op="reserve"}`:                   1,
		`paceline_provider_refusals_total{status="429"}`:               1,
	})
}

// What estimators learnt, of models seen often enough, and how jobs were estimated.
func TestWhatWasLearnt(t *testing.T) {
	lengths, err := learn.NewLengths(learn.LengthsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f := learn.NewFactors(0)
	for i := range int64(100) {
		f.Observe(learn.Key{Provider: "p", Model: "m\xff", Route: fmt.Sprint(i)}, 1000, 2000)
		lengths.Observe(learn.Key{Provider: "p", Model: "m\xff", Route: fmt.Sprint(i)}, 4096, 200, false)
		f.Observe(learn.Key{Provider: "p", Model: "m\xfe"}, 1000, 2000) // the same as a label
		lengths.Observe(learn.Key{Provider: "p", Model: "m\xfe"}, 4096, 200, false)
	}
	f.Observe(learn.Key{Provider: "p", Model: "rare"}, 1000, 2000)
	lengths.Observe(learn.Key{Provider: "p", Model: "rare"}, 4096, 200, false)
	m := telemetry.New(telemetry.Config{Factors: f, Lengths: lengths})
	m.Finished(&job.Spec{Priority: job.Paid}, &job.Result{Estimate: job.Estimate{Method: "sampled"}})
	m.Finished(&job.Spec{Priority: job.Paid}, &job.Result{})
	got := scrape(t, m)
	check(t, got, map[string]float64{`llm_estimates_total{method="sampled"}`: 1, `llm_output_missed_ratio{model="m�",provider="p"}`: 0})
	for name, bounds := range map[string][2]float64{
		`llm_estimate_factor{model="m�",provider="p"}`:        {1.999, 2.001},
		`llm_estimate_factor_p95{model="m�",provider="p"}`:    {2, 2.1},
		`llm_output_quantile_tokens{model="m�",provider="p"}`: {200, 210},
	} {
		if v, ok := got[name]; !ok || v < bounds[0] || v > bounds[1] {
			t.Errorf("%s is %v, %v, want %v", name, v, ok, bounds)
		}
	}
	for name := range got {
		if strings.Contains(name, "rare") {
			t.Errorf("%s says what nobody knows", name)
		}
	}
}
