package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// peak counts who is there at once.
type peak struct{ now, most atomic.Int64 }

func (p *peak) enter() {
	n := p.now.Add(1)
	for {
		m := p.most.Load()
		if n <= m || p.most.CompareAndSwap(m, n) {
			return
		}
	}
}

func (p *peak) leave() { p.now.Add(-1) }

// A lease lasts as long as its call, however much longer than the lease that is,
// and whatever other leases there are; and when the call ends, the next one goes.
func TestLeasesAreRenewed(t *testing.T) {
	models := map[string]*ledger.Limit{
		"long":  {Key: "long", Unit: ledger.InFlight, Amount: 1, Window: time.Minute},
		"short": {Key: "short", Unit: ledger.InFlight, Amount: 1, Window: 200 * time.Millisecond},
		"usual": {Key: "usual", Unit: ledger.InFlight, Amount: 1},
	}
	plan := planFunc(func(s *job.Spec, _ job.Estimate) ([]ledger.Charge, error) {
		return []ledger.Charge{{Limit: models[s.Model], Amount: 1}}, nil
	})
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan, MaxWait: 10 * time.Minute})
		synctest.Wait()
		peaks := map[string]*peak{"long": {}, "short": {}, "usual": {}}
		var calls sync.WaitGroup
		for _, model := range []string{"long", "usual", "short"} { // the shortest comes last
			for range 3 {
				s := job.Spec{Model: model, Estimate: job.Estimate{Input: 1}}
				calls.Go(func() {
					if _, err := dispatcher.Do(context.Background(), d, s, func(context.Context) (int, job.Usage, error) {
						peaks[model].enter()
						defer peaks[model].leave()
						time.Sleep(100 * time.Second)
						return 0, job.Used(1, 0), nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(1500 * time.Millisecond)
		}
		start := time.Now()
		calls.Wait()
		if took := time.Since(start); took > 301*time.Second {
			t.Errorf("three after each other took %v", took)
		}
		for model, p := range peaks {
			if p.most.Load() != 1 {
				t.Errorf("%d of %s ran at once", p.most.Load(), model)
			}
		}
		// Three times per lease of 200 ms, and not much more than that.
		if n := a.count("renew"); n < 4000 || n > 5000 {
			t.Errorf("%d renewals", n)
		}
		before := a.count("renew")
		time.Sleep(time.Hour)
		if n := a.count("renew") - before; n > 1 {
			t.Errorf("%d renewals of nothing", n)
		}
	})
}

// Renewing backs off as well while the ledger is away.
func TestRenewalsBackOff(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{flight}})
		k := must(t, d, spec("t", job.Paid, 1), func(context.Context) (any, job.Usage, error) {
			time.Sleep(2 * time.Minute)
			return nil, job.Usage{}, nil
		})
		time.Sleep(30 * time.Second)
		before := a.count("renew")
		if before < 6 || before > 8 {
			t.Errorf("%d renewals of a lease of 15 s in 30 s", before)
		}
		a.before(func(_ context.Context, op string) error {
			if op == "renew" {
				return errDown
			}
			return nil
		})
		time.Sleep(time.Minute)
		if n := a.count("renew") - before; n < 25 || n > 45 {
			t.Errorf("%d tries in a minute", n)
		}
		a.before(nil)
		<-k.Result()
	})
}

// BerriAI/litellm#16011: more calls ran at once than were allowed. Several
// dispatchers share one ledger here, and what one frees the others notice soon.
func TestPeakOfAFleet(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 5, Window: time.Second}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		var p peak
		var jobs sync.WaitGroup
		start := time.Now()
		for range 4 {
			d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{flight}, MaxWait: 10 * time.Minute})
			synctest.Wait()
			for i := range 50 {
				f := func(context.Context) (any, job.Usage, error) {
					p.enter()
					defer p.leave()
					time.Sleep(time.Duration(500+i*40) * time.Millisecond) // up to 2.5 s
					return nil, job.Used(1, 0), nil
				}
				jobs.Go(func() {
					var err error
					if i%2 == 0 {
						_, err = dispatcher.Do(context.Background(), d, spec(fmt.Sprint(i%5), job.Free, 1), f)
					} else {
						err = (<-must(t, d, spec(fmt.Sprint(i%5), job.Free, 1), f).Result()).Err
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		jobs.Wait()
		if p.most.Load() != 5 {
			t.Errorf("%d ran at once, of 5", p.most.Load())
		}
		// 200 jobs of 1.48 s, five at a time, are a minute.
		if took := time.Since(start); took > 80*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// BerriAI/litellm#39309: a call that had to wait for another one to end had been
// counted as a request all the same.
func TestWaitingTakesNoRequests(t *testing.T) {
	requests := &ledger.Limit{Key: "requests", Unit: ledger.Requests, Amount: 2, Window: time.Hour, Unpaced: true}
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{requests, flight}})
		first := must(t, d, spec("t", job.Paid, 1), func(context.Context) (any, job.Usage, error) {
			time.Sleep(10 * time.Second)
			return nil, job.Used(1, 0), nil
		})
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), nothing); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dispatcher.ErrShed) {
			t.Error(err)
		}
		<-first.Result()
		if _, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing); err != nil {
			t.Error(err)
		}
	})
}
