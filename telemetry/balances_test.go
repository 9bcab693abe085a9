package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/telemetry"
)

// snapshotter is a ledger of which only balances are asked.
type snapshotter struct {
	ledger.Ledger
	calls atomic.Int64
	read  func(ctx context.Context, limits []*ledger.Limit) ([]ledger.Balance, error)
}

func (s *snapshotter) Snapshot(ctx context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
	s.calls.Add(1)
	return s.read(ctx, limits)
}

func oneLimit(string, string, job.Priority) []*ledger.Limit {
	return []*ledger.Limit{{Key: "tpm", Unit: ledger.Tokens, Amount: 100, Window: time.Minute}}
}

func remaining(samples map[string]float64) (n int) {
	for name := range samples {
		if strings.HasPrefix(name, "llm_bucket_remaining") {
			n++
		}
	}
	return n
}

// Many scrapers cost the ledger one call a second.
func TestBalancesAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := int64(70)
		s := &snapshotter{read: func(_ context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
			return []ledger.Balance{{Limit: limits[0], Available: left}}, nil
		}}
		m := telemetry.New(telemetry.Config{Ledger: s, Limits: oneLimit, Models: []string{"m"}})
		for range 20 {
			check(t, scrape(t, m), map[string]float64{`llm_bucket_remaining{limit="tpm",tenant=""}`: 70})
		}
		if n := s.calls.Load(); n != 1 {
			t.Errorf("%d calls for 20 scrapes", n)
		}
		left = -5
		time.Sleep(time.Second)
		check(t, scrape(t, m), map[string]float64{`llm_bucket_remaining{limit="tpm",tenant=""}`: -5})
	})
}

// A ledger that does not answer holds up one scrape for half a second, and no
// balance is shown, rather than an old one.
func TestBalancesOfASilentLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &snapshotter{read: func(ctx context.Context, _ []*ledger.Limit) ([]ledger.Balance, error) {
			<-ctx.Done()
			return nil, errors.New("silent")
		}}
		m := telemetry.New(telemetry.Config{Ledger: s, Limits: oneLimit, Models: []string{"m"}})
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if n := remaining(scrape(t, m)); n != 0 {
					t.Errorf("%d balances from a silent ledger", n)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 500*time.Millisecond || s.calls.Load() != 1 {
			t.Errorf("5 scrapes took %v and %d calls", took, s.calls.Load())
		}
		check(t, scrape(t, m), map[string]float64{`paceline_ledger_errors_total{op="snapshot"}`: 1})
	})
}

// The number of series is bounded, whoever comes.
func TestBalancesAreBounded(t *testing.T) {
	s := &snapshotter{read: func(_ context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
		out := make([]ledger.Balance, len(limits))
		for i, l := range limits {
			out[i] = ledger.Balance{Limit: l, Available: 1}
		}
		return out, nil
	}}
	m := telemetry.New(telemetry.Config{Ledger: s, Limits: func(model, tenant string, _ job.Priority) []*ledger.Limit {
		return []*ledger.Limit{{Key: "tpm"}, {Key: fmt.Sprintf("own tenant=%q", tenant), Own: true}}
	}})
	for i := range 10_000 {
		m.Started(&job.Spec{Model: "m", Tenant: fmt.Sprint("t\xff", i)}, 0)
	}
	got := scrape(t, m)
	if n := remaining(got); n != 51 {
		t.Errorf("%d series, want the shared one and 50 tenants'", n)
	}
	check(t, got, map[string]float64{`llm_bucket_remaining{limit="own",tenant="t` + "\uFFFD" + `0"}`: 1})
}

func TestNoBalancesWithoutASnapshotter(t *testing.T) {
	m := telemetry.New(telemetry.Config{Ledger: struct{ ledger.Ledger }{}, Limits: oneLimit, Models: []string{"m"}})
	m.Started(&job.Spec{Model: "m"}, 0)
	if n := remaining(scrape(t, m)); n != 0 {
		t.Errorf("%d balances", n)
	}
}
