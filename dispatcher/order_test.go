package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// LiteLLM's scheduler kept no order among equals.
func TestFirstComeFirstServed(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 12_000, Window: time.Minute} // 200/s
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 1, UrgentWorkers: -1})
		var o order
		var tickets []*dispatcher.Ticket
		var want []string
		for i := range 1000 {
			name := fmt.Sprint(i)
			want = append(want, name)
			tickets = append(tickets, must(t, d, spec("t", job.Free, 2), o.note(name, 2)))
			if i%100 == 0 {
				time.Sleep(3 * time.Millisecond)
			}
		}
		for _, k := range tickets {
			if r := <-k.Result(); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if got := o.get(); !slices.Equal(got, want) {
			t.Errorf("order: %v", got)
		}
	})
}

// Work that is paid for goes first when the budget is short, and free work is
// still served within what ageing promises (river's JobGetAvailable never ran it).
func TestPaidBeforeFree(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute} // 100/s
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 8})
		var mu sync.Mutex
		waits := make(map[job.Priority][]time.Duration)
		var wg sync.WaitGroup
		submit := func(p job.Priority) {
			k, err := d.Submit(context.Background(), spec(p.String(), p, 10), used(10))
			if err != nil {
				return // free work may be shed as hopeless
			}
			wg.Go(func() {
				r := <-k.Result()
				mu.Lock()
				defer mu.Unlock()
				if r.Err == nil {
					waits[p] = append(waits[p], r.Wait)
				} else if p == job.Paid {
					t.Error(r.Err)
				}
			})
		}
		// 100 tokens in a second of paid work alone are all there is, and free work
		// comes on top.
		for range 100 {
			for range 10 {
				submit(job.Paid)
			}
			for range 5 {
				submit(job.Free)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
		paid, free := waits[job.Paid], waits[job.Free]
		slices.Sort(paid)
		if len(paid) != 1000 || len(free) < 100 {
			t.Fatalf("%d paid and %d free jobs ran", len(paid), len(free))
		}
		// Free work takes at most a fifth, so that the paid backlog grows by 20 % of
		// the time, and by the 3 % that the window keeps for the guard.
		if p95 := paid[950]; p95 > 30*time.Second {
			t.Errorf("paid work waits %v", p95)
		}
		if free[0] > 41*time.Second {
			t.Errorf("the first overdue free job waited %v", free[0])
		}
	})
}

// Within a class tenants share tokens, not jobs, by weight.
func TestFairShares(t *testing.T) {
	limit := &ledger.Limit{Key: "limit", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute}
	weights := map[string]int64{"small-jobs": 1, "large-jobs": 1, "twice": 2}
	sizes := map[string]int64{"small-jobs": 10, "large-jobs": 100, "twice": 50}
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := create(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 4, MaxWait: time.Hour, Weight: func(s string) int64 { return weights[s] }})
		var mu sync.Mutex
		got := make(map[string]int64)
		for name, size := range sizes {
			for range 30_000 / int(size) {
				must(t, d, spec(name, job.Free, size), func(context.Context) (any, job.Usage, error) {
					mu.Lock()
					defer mu.Unlock()
					got[name] += size
					return nil, job.Used(size, 0), nil
				})
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_ = d.Run(ctx)
		total := got["small-jobs"] + got["large-jobs"] + got["twice"]
		if total < 29_000 || total > 34_000 {
			t.Errorf("%d tokens were granted", total)
		}
		for name, n := range got {
			if want := total * weights[name] / 4; n < want*9/10 || n > want*11/10 {
				t.Errorf("%s got %d of %d, want %d", name, n, total, want)
			}
		}
	})
}

// kubernetes/kubernetes#95979: what a tenant took while nobody wanted it is no
// credit once others do. Here 50 calls with large estimates begin while nobody
// waits, and come in far below them one by one while somebody does.
func TestNoCreditFromIdleTimes(t *testing.T) {
	limit := perSecond("limit", 1_000_000)
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 100, UrgentWorkers: -1})
		synctest.Wait()
		start := time.Now().Add(3 * time.Second)
		var early sync.WaitGroup
		for i := range 50 {
			early.Go(func() {
				_, err := dispatcher.Do(context.Background(), d, spec("greedy", job.Free, 20_000), func(context.Context) (int, job.Usage, error) {
					time.Sleep(time.Until(start.Add(time.Duration(i) * 20 * time.Millisecond)))
					return 0, job.Used(1, 0), nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Until(start.Add(-10 * time.Millisecond)))
		var mu sync.Mutex
		got := make(map[string]int)
		for range 200 {
			for _, name := range []string{"greedy", "modest"} {
				must(t, d, spec(name, job.Free, 10_000), func(context.Context) (any, job.Usage, error) {
					mu.Lock()
					defer mu.Unlock()
					got[name]++
					return nil, job.Used(10_000, 0), nil
				})
			}
		}
		early.Wait()
		time.Sleep(500 * time.Millisecond) // two windows: 200 jobs
		mu.Lock()
		if g, m := got["greedy"], got["modest"]; g > m+5 || m > g+5 || g+m < 150 {
			t.Errorf("greedy got %d, modest %d", g, m)
		}
		mu.Unlock()
		time.Sleep(5 * time.Second)
	})
}

// hibiken/asynq#314: urgent work stood still while long jobs held all workers.
func TestUrgentWorkers(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Workers: 8, UrgentWorkers: 2})
		synctest.Wait()
		var long sync.WaitGroup
		for i := range 20 {
			long.Go(func() {
				p := job.Free
				if i%2 == 0 {
					p = job.P3
				}
				if _, err := dispatcher.Do(context.Background(), d, spec("long", p, 1), func(context.Context) (int, job.Usage, error) {
					time.Sleep(10 * time.Second)
					return 0, job.Used(1, 0), nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if s := d.Stats(); s.Running != 6 {
			t.Errorf("%d long jobs run", s.Running)
		}
		for _, p := range []job.Priority{job.P0, job.P1, job.P2} {
			start := time.Now()
			if _, err := dispatcher.Do(context.Background(), d, spec("urgent", p, 1), nothing); err != nil || time.Since(start) > 10*time.Millisecond {
				t.Errorf("%v after %v: %v", p, time.Since(start), err)
			}
		}
		long.Wait()
	})
}

// Do's short way must not pass anybody who waits.
func TestShortWayKeepsTheOrder(t *testing.T) {
	limit := perSecond("limit", 100)
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		synctest.Wait()
		var o order
		<-must(t, d, spec("a", job.Free, 50), o.note("first", 50)).Result()
		large := must(t, d, spec("a", job.Free, 100), o.note("large", 100))
		time.Sleep(10 * time.Millisecond)
		if _, err := dispatcher.Do(context.Background(), d, spec("b", job.Free, 10), func(ctx context.Context) (any, job.Usage, error) {
			return o.note("small", 10)(ctx)
		}); err != nil {
			t.Error(err)
		}
		<-large.Result()
		if got := strings.Join(o.get(), " "); got != "first large small" {
			t.Error(got)
		}
	})
}
