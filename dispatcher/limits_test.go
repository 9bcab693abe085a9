package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// temporalio/temporal#10820: a key without budget at the head of the line blocked
// everything. It waits for its own budget, to the microsecond, and nobody for it.
func TestOwnLimitParksItsLane(t *testing.T) {
	account := perSecond("account", 1000)
	own := perSecond("a", 10)
	own.Own = true
	plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		c := []ledger.Charge{{Limit: account, Amount: e.Tokens()}}
		if s.Tenant == "a" {
			c = append(c, ledger.Charge{Limit: own, Amount: e.Tokens()})
		}
		return c, nil
	})
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan})
		if r := <-must(t, d, spec("a", job.P0, 10), used(10)).Result(); r.Err != nil {
			t.Fatal(r.Err)
		}
		granted := time.Now()
		blocked := must(t, d, spec("a", job.P0, 10), used(10))
		behind := must(t, d, spec("a", job.P0, 1), used(1))
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		if r := <-must(t, d, spec("b", job.Free, 10), used(10)).Result(); r.Err != nil || time.Since(start) > 5*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), r.Err)
		}
		asked := a.count("reserve")
		if r := <-blocked.Result(); r.Err != nil {
			t.Error(r.Err)
		}
		// Window, guard and at most a slot of 1/256.
		shape := own.Shape(0)
		least := time.Duration(shape.Window+shape.Guard) * time.Microsecond
		if at := time.Since(granted); at < least-5*time.Millisecond || at > least+time.Duration(shape.Slot)*time.Microsecond+5*time.Millisecond {
			t.Errorf("it went after %v, not %v", at, least)
		}
		if n := a.count("reserve") - asked; n > 2 {
			t.Errorf("%d asks for one that waits", n)
		}
		if r := <-behind.Result(); r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// A limit that a model's jobs of some tenants share says nothing to the others of
// the model.
func TestLimitSharedBySome(t *testing.T) {
	account := perSecond("account", 1000)
	club := perSecond("club", 10)
	plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		c := []ledger.Charge{{Limit: account, Amount: e.Tokens()}}
		if s.Tenant != "outsider" {
			c = append(c, ledger.Charge{Limit: club, Amount: e.Tokens()})
		}
		return c, nil
	})
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan})
		if r := <-must(t, d, spec("member", job.Free, 10), used(10)).Result(); r.Err != nil {
			t.Fatal(r.Err)
		}
		blocked := must(t, d, spec("member", job.Free, 10), used(10))
		time.Sleep(10 * time.Millisecond)
		small := must(t, d, spec("another", job.Free, 1), used(1))
		start := time.Now()
		if r := <-must(t, d, spec("outsider", job.Free, 10), used(10)).Result(); r.Err != nil || time.Since(start) > 5*time.Millisecond {
			t.Errorf("the outsider waited %v: %v", time.Since(start), r.Err)
		}
		// But nobody of the club passes who came first.
		select {
		case <-small.Result():
			t.Error("a smaller job passed one that waits for the limit they share")
		default:
		}
		for _, k := range []*dispatcher.Ticket{blocked, small} {
			if r := <-k.Result(); r.Err != nil {
				t.Error(r.Err)
			}
		}
	})
}

// aiolimiter let a large request starve under an endless row of small ones, which
// went first whenever there was room for them only.
func TestSharedLimitIsNotPassed(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute} // 100/s, burst 240
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		ctx, stop := context.WithCancel(context.Background())
		var small sync.WaitGroup
		small.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := d.Submit(ctx, spec(fmt.Sprint("small", i%4), job.Free, 5), used(5)); err != nil && !errors.Is(err, dispatcher.ErrShed) {
					return
				}
				time.Sleep(40 * time.Millisecond) // 125/s
			}
		})
		time.Sleep(10 * time.Second)
		r := <-must(t, d, spec("large", job.Free, 240), used(240)).Result()
		if r.Err != nil || r.Wait > 15*time.Second {
			t.Errorf("the large job waited %v: %v", r.Wait, r.Err)
		}
		stop()
		small.Wait()
	})
}

// golang/sync#10: who waited behind a large job slept on when that was cancelled.
func TestCancelledHeadLetsTheNextGo(t *testing.T) {
	limit := perSecond("limit", 100)
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		if r := <-must(t, d, spec("a", job.Paid, 50), used(50)).Result(); r.Err != nil {
			t.Fatal(r.Err)
		}
		large := must(t, d, spec("a", job.Paid, 100), used(100))
		var rest []*dispatcher.Ticket
		for _, tenant := range []string{"a", "b", "c"} {
			rest = append(rest, must(t, d, spec(tenant, job.Paid, 10), used(10)))
		}
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		large.Cancel()
		large.Cancel()
		for _, k := range rest {
			if r := <-k.Result(); r.Err != nil || time.Since(start) > 10*time.Millisecond {
				t.Errorf("after %v: %v", time.Since(start), r.Err)
			}
		}
		if r := <-large.Result(); !errors.Is(r.Err, context.Canceled) {
			t.Error(r.Err)
		}
	})
}

// failsafe-go's AcquirePermits: waiters that had been cancelled still took their
// share of the future.
func TestCancelledJobsLeaveNoTrace(t *testing.T) {
	limit := perSecond("limit", 100)
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		<-must(t, d, spec("a", job.Paid, 100), used(100)).Result()
		granted := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		for range 100 {
			if _, err := d.Submit(ctx, spec("a", job.Paid, 100), used(100)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		cancel()
		time.Sleep(5 * time.Millisecond) // some may be on their way to the ledger
		if s := d.Stats(); s != (dispatcher.Stats{}) {
			t.Errorf("%+v", s)
		}
		r := <-must(t, d, spec("a", job.Paid, 100), used(100)).Result()
		if at := time.Since(granted); r.Err != nil || at > 1100*time.Millisecond {
			t.Errorf("the next one went after %v: %v", at, r.Err)
		}
	})
}
