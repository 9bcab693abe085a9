package dispatcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// mjpieters/aiolimiter#73 woke every waiter at every tick, and sidekiq#5315 told
// all of them the same time. A crowd of waiters costs one timer: what is asked
// grows with what is granted, not with who waits.
func TestCrowdIsQuiet(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 600, Window: time.Minute} // 10/s
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		const waiters = 2000
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 8, MaxQueue: waiters, MaxWait: time.Hour})
		var mu sync.Mutex
		ran := 0
		for i := range waiters {
			must(t, d, spec(fmt.Sprint(i%100), job.Free, 1), func(context.Context) (any, job.Usage, error) {
				mu.Lock()
				defer mu.Unlock()
				ran++
				return nil, job.Used(1, 0), nil
			})
		}
		look := func() (asks, grants int) {
			mu.Lock()
			defer mu.Unlock()
			return a.count("reserve"), ran
		}
		time.Sleep(time.Second)
		asksBefore, grantsBefore := look()
		time.Sleep(time.Minute)
		asks, grants := look()
		asks, grants = asks-asksBefore, grants-grantsBefore
		if grants < 550 || grants > 620 {
			t.Errorf("%d jobs ran in a minute", grants)
		}
		if asks > 2*grants+10 {
			t.Errorf("%d asks for %d grants", asks, grants)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Shutdown(ctx)
	})
}

// Waits differ by position only: nobody of a crowd loses for ever (sidekiq#5315),
// and each goes when its budget is there (LangChain's limiter polled).
func TestWaitsOfACrowd(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute, Burst: 5} // 100/s
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		shape := limit.Shape(0)
		each := time.Duration(shape.Tick*shape.Ticks/limit.Amount) * time.Microsecond
		var tickets []*dispatcher.Ticket
		for range 100 {
			tickets = append(tickets, must(t, d, spec("t", job.Free, 1), used(1)))
		}
		for i, k := range tickets {
			r := <-k.Result()
			if want := time.Duration(max(i-4, 0)) * each; r.Err != nil || r.Wait < want-time.Millisecond || r.Wait > want+10*time.Millisecond {
				t.Errorf("job %d went after %v, not %v: %v", i, r.Wait, want, r.Err)
			}
		}
	})
}

// Two models share a budget, one has a limit of its own besides, and every tenant
// waits for both. Batches in which each job is chosen as if those before it had
// been granted must not take turns in passing each other for ever.
func TestBatchesDoNotTakeTurns(t *testing.T) {
	account := perSecond("account", 100)
	account.Window = time.Minute
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1, Window: time.Hour}
	plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		c := []ledger.Charge{{Limit: account, Amount: e.Tokens()}}
		if s.Model == "a" {
			c = append(c, ledger.Charge{Limit: flight, Amount: 1})
		}
		return c, nil
	})
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan, Workers: 4, UrgentWorkers: -1})
		a.before(func(context.Context, string) error { time.Sleep(time.Millisecond); return nil }) // so that time goes by
		submit := func(tenant, model string, tokens int64, f job.Func) *dispatcher.Ticket {
			s := spec(tenant, job.Paid, tokens)
			s.Model = model
			return must(t, d, s, f)
		}
		running := submit("first", "a", 20, func(context.Context) (any, job.Usage, error) {
			time.Sleep(30 * time.Second)
			return nil, job.Used(20, 0), nil
		})
		time.Sleep(10 * time.Millisecond)
		var waiting []*dispatcher.Ticket
		for _, tenant := range []string{"t1", "t0", "t2"} { // for the call in flight
			waiting = append(waiting, submit(tenant, "a", 20, used(20)))
		}
		time.Sleep(10 * time.Millisecond)
		for _, tenant := range []string{"t0", "t2"} { // which puts them behind t1
			<-submit(tenant, "b", 10, used(10)).Result()
		}
		for _, tenant := range []string{"t0", "t1"} { // for the budget
			waiting = append(waiting, submit(tenant, "b", 70, used(70)))
			time.Sleep(10 * time.Millisecond)
		}
		before := a.count("reserve")
		time.Sleep(200 * time.Millisecond)
		if n := a.count("reserve") - before; n > 20 {
			t.Errorf("%d asks in 200 ms, and nothing came back", n)
		}
		<-running.Result()
		for _, k := range waiting {
			k.Cancel()
			<-k.Result()
		}
	})
}
