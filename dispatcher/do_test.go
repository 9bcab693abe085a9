package dispatcher_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

var errProvider = errors.New("provider: 500")

// endings are the ways in which an attempt can end, and what each leaves in the
// budgets of a job that reserved 100 tokens.
var endings = []struct {
	name     string
	f        job.Func
	err      error
	tokens   int64
	requests int64
}{
	{"usage below the estimate comes back",
		func(context.Context) (any, job.Usage, error) { return "answer", job.Used(20, 30), nil }, nil, 50, 1},
	{"usage above the estimate is owed",
		func(context.Context) (any, job.Usage, error) { return "answer", job.Used(100, 80), nil }, nil, 180, 1},
	// Menci/Floway#66, api7/aisix#683: a stream that breaks off is settled at
	// what it used.
	{"an error with usage",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(20, 5), errProvider }, errProvider, 25, 1},
	// TensorZero kept, or gave back, what it could not know.
	{"an error without usage stands as reserved",
		func(context.Context) (any, job.Usage, error) { return nil, job.Usage{}, errProvider }, errProvider, 100, 1},
	// BerriAI/litellm#1477, #27955, #30020: a call that failed before it was
	// sent, or was answered from a cache.
	{"what was not sent costs nothing",
		func(context.Context) (any, job.Usage, error) {
			return "cached", job.Usage{Known: job.NotSent}, nil
		}, nil, 0, 0},
	{"a panic stands as reserved",
		func(context.Context) (any, job.Usage, error) { panic("boom") }, nil, 100, 1},
	{"so does a Goexit",
		func(context.Context) (any, job.Usage, error) { runtime.Goexit(); return nil, job.Usage{}, nil }, dispatcher.ErrGoexit, 100, 1},
	{"a usage that can not be is cut to what can",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(-5, 40), nil }, nil, 40, 1},
	{"and one that overflows",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(1<<62, 1<<62), nil }, nil, ledger.MaxAmount, 1},
}

// TestEndings runs every way out, through Submit and through Do.
func TestEndings(t *testing.T) {
	tokens := &ledger.Limit{Key: "tokens", Unit: ledger.Tokens, Amount: ledger.MaxAmount, Window: time.Minute, Unpaced: true}
	requests := &ledger.Limit{Key: "requests", Unit: ledger.Requests, Amount: 1000, Window: time.Minute, Unpaced: true}
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1}
	estimate := job.Estimate{Input: 60, Output: 40, Declared: true, Upper: 70, Method: "exact"}
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
				n := new(notes)
				d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{tokens, requests, flight}, Observer: n})
				synctest.Wait()
				check := func(r job.Result) {
					t.Helper()
					if e.err != nil && !errors.Is(r.Err, e.err) {
						t.Errorf("error %v, want %v", r.Err, e.err)
					}
					var p *dispatcher.PanicError
					switch panicked := strings.Contains(e.name, "panic"); {
					case errors.As(r.Err, &p) != panicked:
						t.Errorf("error %v", r.Err)
					case panicked && (p.Value != "boom" || !strings.Contains(string(p.Stack), "do_test.go")):
						t.Errorf("panic %v at\n%s", p.Value, p.Stack)
					case !panicked && e.err == nil && r.Err != nil:
						t.Errorf("error %v", r.Err)
					}
					if r.Estimate != estimate || r.Reserved != 100 || r.Attempts != 1 || r.Wait > 4*time.Millisecond {
						t.Errorf("%+v", r)
					}
					time.Sleep(10 * time.Millisecond) // a settlement may be on its way
					if got := balance(t, a.inner, tokens); got != e.tokens {
						t.Errorf("%d tokens are held, want %d", got, e.tokens)
					}
					if got := balance(t, a.inner, requests); got != e.requests {
						t.Errorf("%d requests are held, want %d", got, e.requests)
					}
					if got := balance(t, a.inner, flight); got != 0 {
						t.Errorf("%d calls are in flight", got)
					}
					if s := d.Stats(); s != (dispatcher.Stats{}) {
						t.Errorf("%+v", s)
					}
				}
				s := job.Spec{ID: uuid.New(), Tenant: "acme", Model: "m", Estimate: estimate}
				r := <-must(t, d, s, e.f).Result()
				check(r)
				seen := n.result(t, s.ID)
				if seen.Value != r.Value || seen.Usage != r.Usage || seen.Wait != r.Wait {
					t.Errorf("observed %+v, delivered %+v", seen, r)
				}
				time.Sleep(2 * time.Minute)

				s.ID = uuid.New()
				var v any
				var err error
				returned := make(chan bool, 1)
				go func() {
					ok := false
					defer func() { returned <- ok }()
					v, err = dispatcher.Do(context.Background(), d, s, e.f)
					ok = true
				}()
				if ok := <-returned; ok == errors.Is(e.err, dispatcher.ErrGoexit) {
					t.Errorf("Do returned: %v", ok)
				} else if ok && (v != r.Value || (err == nil) != (r.Err == nil)) {
					t.Errorf("Do returned %v, %v", v, err)
				}
				check(n.result(t, s.ID))
			})
		})
	}
}

// kubernetes/kubernetes#97206, panjf2000/ants#146: seats were lost for ever when
// handlers panicked, and callers hung when all did at once. sourcegraph/conc#106:
// the context of a job that panicked lived on.
func TestPanicsCostNothing(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 8}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{wide, flight}, Workers: 8, UrgentWorkers: -1})
		synctest.Wait()
		var mu sync.Mutex
		var contexts []context.Context
		panics := func(ctx context.Context) (any, job.Usage, error) {
			mu.Lock()
			contexts = append(contexts, ctx)
			mu.Unlock()
			time.Sleep(time.Millisecond) // so that all of them are running at once
			panic("boom")
		}
		healthy := must(t, d, spec("t", job.Paid, 1), func(ctx context.Context) (any, job.Usage, error) {
			select {
			case <-time.After(time.Second):
				return nil, job.Used(1, 0), nil
			case <-ctx.Done():
				return nil, job.Usage{}, ctx.Err()
			}
		})
		var tickets []*dispatcher.Ticket
		var calls sync.WaitGroup
		for range 500 {
			tickets = append(tickets, must(t, d, spec("t", job.Paid, 1), panics))
			calls.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var p *dispatcher.PanicError
				if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), panics); !errors.As(err, &p) {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		for _, k := range tickets {
			var p *dispatcher.PanicError
			if r := <-k.Result(); !errors.As(r.Err, &p) {
				t.Error(r.Err)
			}
		}
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				t.Fatal("the context of a job that panicked is alive")
			}
		}
		if r := <-healthy.Result(); r.Err != nil {
			t.Errorf("another job was hit: %v", r.Err)
		}
		time.Sleep(10 * time.Millisecond)
		if s := d.Stats(); s != (dispatcher.Stats{}) {
			t.Errorf("%+v", s)
		}
		if n, m := balance(t, a.inner, flight), balance(t, a.inner, wide); n != 0 || m != 1001 {
			t.Errorf("%d calls are in flight, %d tokens are held", n, m)
		}
	})
}
