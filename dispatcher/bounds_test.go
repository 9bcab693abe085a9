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
		d := open(t, dispatcher.Config{Ledger: a, MaxQueue: 1, MaxBackgroundQueue: 1, AgedShare: 1, MaxWait: 2 * time.Second, AgingStep: -1})
		must(t, d, spec("t", job.Free, 1), used(1))
		synctest.Wait()
		if e := shed(t, d, spec("t", job.Paid, 1)); e.Reason != dispatcher.QueueFull {
			t.Errorf("%+v", e)
		}
		if s := d.Stats().Waiting; s != [10]int{5: 1} {
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

// A queue full of urgent work still lets each class in up to its share: work that is
// shed at the door starves like work that is never granted.
func TestFullQueueKeepsShares(t *testing.T) {
	d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxQueue: 20, AgedShare: 20})
	for range 20 {
		must(t, d, spec("paid", job.Paid, 1), used(1))
	}
	for range 4 {
		must(t, d, spec("free", job.Free, 1), used(1))
	}
	if e := shed(t, d, spec("free", job.Free, 1)); e.Reason != dispatcher.QueueFull {
		t.Errorf("%+v", e)
	}
	if got, want := d.Stats().Waiting, [10]int{1: 16, 5: 4}; got != want {
		t.Errorf("%v wait, want %v", got, want)
	}
	if err := d.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// One tenant's flood does not keep the others out of a full queue.
func TestFloodKeepsNobodyOut(t *testing.T) {
	d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxQueue: 20})
	for range 20 {
		must(t, d, spec("flood", job.Free, 1), used(1))
	}
	for i := range 30 {
		if i < 10 {
			must(t, d, spec("small", job.Free, 1), used(1))
		} else if e := shed(t, d, spec("small", job.Free, 1)); e.Reason != dispatcher.QueueFull {
			t.Errorf("%+v", e)
		}
	}
	must(t, d, spec("third", job.Free, 1), used(1))
	if e := shed(t, d, spec("flood", job.Free, 1)); e.Reason != dispatcher.QueueFull {
		t.Errorf("%+v", e)
	}
	if err := d.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
