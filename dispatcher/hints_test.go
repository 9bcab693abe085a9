package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// shed submits a job that has to be shed, and returns why.
func shed(t *testing.T, d *dispatcher.Dispatcher, s job.Spec) *dispatcher.ShedError {
	t.Helper()
	_, err := d.Submit(context.Background(), s, used(1))
	return shedError(t, err)
}

// shedError is the typed error, in which every hint is one that a client can obey:
// BerriAI/litellm#4695, #27823 gave none, planningcenter/developers#606 a negative
// one.
func shedError(t *testing.T, err error) *dispatcher.ShedError {
	t.Helper()
	var e *dispatcher.ShedError
	if !errors.As(err, &e) || !errors.Is(err, dispatcher.ErrShed) {
		t.Fatalf("not shed: %v", err)
	}
	if e.RetryAfter < time.Second {
		t.Errorf("%v: hint of %v", err, e.RetryAfter)
	}
	if !strings.HasPrefix(err.Error(), "dispatcher: shed: "+e.Reason.String()) {
		t.Errorf("message %q", err)
	}
	return e
}

// temporalio/temporal#11618 took one shortage for another. Who is shed is told
// what was short: a place, its own budget, everybody's budget, or the ledger.
func TestReasonsTellWhatWasShort(t *testing.T) {
	account := perSecond("account", 100)
	account.Window = time.Hour
	own := perSecond("own", 10)
	own.Window, own.Own = time.Hour, true
	plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		c := []ledger.Charge{{Limit: account, Amount: e.Tokens()}}
		if s.Tenant == "a" {
			c = append(c, ledger.Charge{Limit: own, Amount: e.Tokens()})
		}
		return c, nil
	})
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan, MaxWait: 5 * time.Second, AgingStep: -1})
		<-must(t, d, spec("a", job.Paid, 10), used(10)).Result()
		k := must(t, d, spec("a", job.Paid, 10), used(10))
		if e := shedError(t, (<-k.Result()).Err); e.Reason != dispatcher.Expired || e.Limit != "own" || !e.Own || e.LedgerDown {
			t.Errorf("own budget: %+v", e)
		}
		<-must(t, d, spec("b", job.Paid, 90), used(90)).Result()
		k = must(t, d, spec("b", job.Paid, 50), used(50))
		if e := shedError(t, (<-k.Result()).Err); e.Reason != dispatcher.Expired || e.Limit != "account" || e.Own || e.LedgerDown {
			t.Errorf("shared budget: %+v", e)
		}
		a.before(func(context.Context, string) error { return errDown })
		k = must(t, d, spec("c", job.Paid, 1), used(1))
		if e := shedError(t, (<-k.Result()).Err); e.Reason != dispatcher.Expired || e.Limit != "" || e.Own || !e.LedgerDown {
			t.Errorf("no ledger: %+v", e)
		}
		a.before(nil)
	})
}

// The hint is the true wait: the backlog ahead at the rate of late. It differs by
// position, so that who was shed at different depths does not come back in the
// same instant (NousResearch/hermes-agent#109234); nobody is told to come too soon.
// An hour of calls that all went at once must not count as rate.
func TestRetryAfterIsTheTrueWait(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute} // 1000/s
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, MaxQueue: 400, MaxWait: 10 * time.Minute})
		synctest.Wait()
		for range 1200 { // half of what there is, in pairs, for ten minutes
			var pair sync.WaitGroup
			for range 2 {
				pair.Go(func() {
					if r := <-must(t, d, spec("t", job.Free, 125), used(125)).Result(); r.Err != nil {
						t.Error(r.Err)
					}
				})
			}
			pair.Wait()
			time.Sleep(500 * time.Millisecond)
		}
		if e := shed(t, d, job.Spec{Deadline: time.Now().Add(-1), Estimate: job.Estimate{Input: 1}}); e.RetryAfter != time.Second {
			t.Errorf("nobody waits, and the hint is %v", e.RetryAfter)
		}
		for range 400 { // 200 s of work
			must(t, d, spec("t", job.Free, 500), used(500))
		}
		for _, after := range []time.Duration{5 * time.Second, 25 * time.Second, 60 * time.Second} {
			time.Sleep(after)
			ahead := int64(d.Stats().Waiting[5])
			for int(ahead) < 400 {
				must(t, d, spec("t", job.Free, 500), used(500))
				ahead++
			}
			e := shed(t, d, spec("t", job.Free, 500))
			wait := time.Duration(ahead*500) * time.Second * 103 / 100 / 1000 // the guard takes 2 to 3 %
			if e.Reason != dispatcher.QueueFull || e.RetryAfter < wait*9/10 || e.RetryAfter > wait*12/10 {
				t.Errorf("%v after %v: hint %v, true wait %v", e.Reason, after, e.RetryAfter, wait)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Shutdown(ctx)
	})
}

// When it is workers that are short, not budget, the hint is true as well.
func TestRetryAfterOfBusyWorkers(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Workers: 2, UrgentWorkers: -1, MaxQueue: 100, MaxWait: 10 * time.Minute})
		f := func(context.Context) (any, job.Usage, error) {
			time.Sleep(time.Second)
			return nil, job.Used(7, 0), nil
		}
		for range 100 {
			must(t, d, spec("t", job.Free, 7), f)
		}
		time.Sleep(20500 * time.Millisecond)
		for d.Stats().Waiting[5] < 100 {
			must(t, d, spec("t", job.Free, 7), f)
		}
		if e := shed(t, d, spec("t", job.Free, 7)); e.RetryAfter < 45*time.Second || e.RetryAfter > 56*time.Second {
			t.Errorf("hint %v, and two of 100 jobs go in a second", e.RetryAfter)
		}
		time.Sleep(time.Minute)
	})
}

// A wait that can not end before the deadline is refused at once, and one that can
// is not.
func TestHopeless(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute} // 1000/s
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, MaxWait: 10 * time.Minute})
		for range 200 { // 100 s of work
			must(t, d, spec("t", job.Free, 500), used(500))
		}
		time.Sleep(20 * time.Second) // and 80 s of it are left
		s := spec("t", job.Free, 500)
		s.Deadline = time.Now().Add(60 * time.Second)
		if e := shed(t, d, s); e.Reason != dispatcher.Hopeless || e.RetryAfter < 60*time.Second || e.RetryAfter > 100*time.Second {
			t.Errorf("%+v", e)
		}
		s.Priority = job.Paid // is in front of all that
		if r := <-must(t, d, s, used(500)).Result(); r.Err != nil {
			t.Error(r.Err)
		}
		s.Priority = job.Free
		s.Deadline = time.Now().Add(120 * time.Second)
		if r := <-must(t, d, s, used(500)).Result(); r.Err != nil || r.Wait < 60*time.Second {
			t.Errorf("%+v", r)
		}
	})
}
