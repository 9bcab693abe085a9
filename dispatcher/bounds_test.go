package dispatcher_test

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

// platinummonkey/go-concurrency-limits let more in than its queue had places for,
// Netflix/concurrency-limits#78 one too many, and
// kubernetes-sigs/gateway-api-inference-extension#2103 did not enforce its limits at
// all: the bound is exact under 64 submitters, and all places come back.
func TestQueueBoundIsExact(t *testing.T) {
	for _, bound := range []int{1, 7, 100} {
		d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxQueue: bound})
		for round := range 3 {
			var accepted, refused atomic.Int64
			var tickets sync.Map
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 10 {
						k, err := d.Submit(context.Background(), spec("t", job.Paid, 1), used(1))
						if err == nil {
							accepted.Add(1)
							tickets.Store(k, nil)
						} else if shedError(t, err).Reason == dispatcher.QueueFull {
							refused.Add(1)
						}
						if n := d.Stats().Waiting[1]; n > bound {
							t.Errorf("%d jobs wait, of %d", n, bound)
						}
					}
				})
			}
			wg.Wait()
			if accepted.Load() != int64(bound) || refused.Load() != 640-int64(bound) {
				t.Errorf("round %d: %d were let in, and %d refused, of a bound of %d", round, accepted.Load(), refused.Load(), bound)
			}
			tickets.Range(func(k, _ any) bool { k.(*dispatcher.Ticket).Cancel(); return true })
		}
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// The bounds at N-1, N and N+1 (Netflix/concurrency-limits#140).
func TestBounds(t *testing.T) {
	d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxQueue: 10, MaxTenantQueue: 3, MaxBackgroundQueue: 6, AgedShare: 20})
	fill := func(tenant string, p job.Priority, n int) (all []*dispatcher.Ticket) {
		for i := range n {
			all = append(all, must(t, d, spec(fmt.Sprint(tenant, i), p, 1), used(1)))
		}
		return all
	}
	same := func(p job.Priority, n int) {
		for range n {
			must(t, d, spec("same", p, 1), used(1))
		}
	}
	same(job.P3, 2)
	same(job.P4, 1)
	if e := shed(t, d, spec("same", job.P0, 1)); e.Reason != dispatcher.TenantQueueFull || !e.Own {
		t.Errorf("%+v", e)
	}
	fill("b", job.P9, 3) // now 6 wait
	if e := shed(t, d, spec("c", job.P8, 1)); e.Reason != dispatcher.Background || e.Own {
		t.Errorf("%+v", e)
	}
	fill("f", job.P7, 4) // now 10
	if e := shed(t, d, spec("c", job.P9, 1)); e.Reason != dispatcher.Background {
		t.Errorf("%+v", e)
	}
	must(t, d, spec("c", job.P7, 1), used(1)) // takes a place from the background
	if e := shed(t, d, spec("c", job.P7, 1)); e.Reason != dispatcher.QueueFull || e.Own {
		t.Errorf("%+v", e)
	}
	if got, want := d.Stats().Waiting, [10]int{3: 2, 4: 1, 7: 5, 9: 2}; got != want {
		t.Errorf("%v wait, want %v", got, want)
	}
	if err := d.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if e := shed(t, d, spec("c", job.P0, 1)); e.Reason != dispatcher.Closing {
		t.Errorf("%+v", e)
	}
}

// A more urgent job takes the place of the newest of the longest lane of the least
// urgent class, and no class is pressed below its share of the queue.
func TestEviction(t *testing.T) {
	n := new(notes)
	d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxQueue: 20, MaxBackgroundQueue: 20, AgedShare: 20, Observer: n})
	tickets := make(map[string]*dispatcher.Ticket)
	add := func(name, tenant string, p job.Priority) { tickets[name] = must(t, d, spec(tenant, p, 1), used(1)) }
	var want []string
	for i := range 6 {
		add(fmt.Sprint("bg-long", i), "long", job.P8)
	}
	for i := range 3 {
		add(fmt.Sprint("bg-short", i), "short", job.P8)
	}
	for i := range 11 {
		add(fmt.Sprint("free", i), "long", job.Free)
	}
	gone := func() (names []string) {
		for _, name := range want {
			select {
			case r := <-tickets[name].Result():
				if e := shedError(t, r.Err); e.Reason != dispatcher.Evicted || r.Attempts != 0 {
					t.Errorf("%s: %+v", name, r)
				}
				delete(tickets, name)
				names = append(names, name)
			default:
			}
		}
		return names
	}
	// Background keeps 4 of 20 places, so 5 of 9 go, from the longest lane; then it
	// is the turn of free work, which keeps 4 too.
	want = []string{"bg-long5", "bg-long4", "bg-long3", "bg-long2", "bg-short2"}
	for i := range 5 {
		add(fmt.Sprint("paid", i), "payer", job.Paid)
	}
	if got := gone(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
	want = []string{"free10", "free9", "free8", "free7", "free6", "free5", "free4"}
	for i := range 7 {
		add(fmt.Sprint("more", i), "payer", job.P0)
	}
	if got := gone(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
	// All but the payers are down to their shares now.
	if e := shed(t, d, spec("payer", job.Paid, 1)); e.Reason != dispatcher.QueueFull {
		t.Errorf("%+v", e)
	}
	if s, want := d.Stats().Waiting, [10]int{0: 7, 1: 5, 5: 4, 8: 4}; s != want {
		t.Errorf("%v wait", s)
	}
	add("urgent", "payer", job.P0) // takes a place of class 1, which has 5
	if s, want := d.Stats().Waiting, [10]int{0: 8, 1: 4, 5: 4, 8: 4}; s != want {
		t.Errorf("%v wait", s)
	}
	if err := d.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n.reasons[dispatcher.Evicted] != 13 || n.reasons[dispatcher.Closing] != 20 || n.reasons[dispatcher.QueueFull] != 1 || n.finished != 33 {
		t.Errorf("observed %v, %d finished", n.reasons, n.finished)
	}
}

// A job that is with the ledger can not make room: the bound holds all the same.
func TestNoEvictionOfWhatReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudit(t, ledger.NewMemory())
		a.before(down)
		d := open(t, dispatcher.Config{Ledger: a, MaxQueue: 2, MaxBackgroundQueue: 2, AgedShare: 1, MaxWait: 2 * time.Second, AgingStep: -1})
		for range 2 {
			must(t, d, spec("t", job.Free, 1), used(1))
		}
		synctest.Wait()
		if e := shed(t, d, spec("t", job.Paid, 1)); e.Reason != dispatcher.QueueFull {
			t.Errorf("%+v", e)
		}
		if s := d.Stats().Waiting; s != [10]int{5: 2} {
			t.Errorf("%v wait", s)
		}
		a.before(nil)
	})
}

// llm-d and kubernetes/kubernetes#119799: what had expired kept its place until
// somebody swept. Here it leaves at its own deadline, whichever way that was given.
func TestExpiredFreesItsPlace(t *testing.T) {
	limit := perSecond("limit", 10)
	limit.Window = time.Hour
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, MaxQueue: 4, MaxWait: 8 * time.Second, AgingStep: -1})
		<-must(t, d, spec("t", job.Paid, 10), used(10)).Result()
		start := time.Now()
		byMaxWait := must(t, d, spec("t", job.Paid, 10), used(10))
		s := spec("t", job.Paid, 10)
		s.Deadline = start.Add(3 * time.Second)
		bySpec := must(t, d, s, used(10))
		ctx, cancel := context.WithDeadline(context.Background(), start.Add(5*time.Second))
		defer cancel()
		byContext, err := d.Submit(ctx, s, used(10)) // the earlier of both counts
		if err != nil {
			t.Fatal(err)
		}
		s.Deadline = start.Add(time.Minute) // longer than MaxWait, as asked for
		byContextOnly, err := d.Submit(ctx, s, used(10))
		if err != nil {
			t.Fatal(err)
		}
		if e := shed(t, d, s); e.Reason != dispatcher.QueueFull {
			t.Errorf("%+v", e)
		}
		for _, x := range []struct {
			k     *dispatcher.Ticket
			after time.Duration
		}{{bySpec, 3 * time.Second}, {byContext, 3 * time.Second}, {byContextOnly, 5 * time.Second}, {byMaxWait, 8 * time.Second}} {
			r := <-x.k.Result()
			if after := time.Since(start); after != x.after {
				t.Errorf("left after %v, not %v", after, x.after)
			}
			if !errors.Is(r.Err, context.DeadlineExceeded) {
				if e := shedError(t, r.Err); e.Reason != dispatcher.Expired || e.LedgerDown {
					t.Errorf("%+v", e)
				}
			}
			if s := d.Stats(); s.Running != 0 {
				t.Errorf("%+v", s)
			}
		}
		// All four places are free again.
		for range 4 {
			must(t, d, spec("t", job.Paid, 10), used(10)).Cancel()
		}
	})
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
		ahead := int64(400)
		for _, after := range []time.Duration{5 * time.Second, 25 * time.Second, 60 * time.Second} {
			time.Sleep(after)
			ahead = int64(d.Stats().Waiting[5])
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
		f := func(context.Context) (any, job.Usage, error) { time.Sleep(time.Second); return nil, job.Used(7, 0), nil }
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
