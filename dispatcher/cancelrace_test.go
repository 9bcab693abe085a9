package dispatcher_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// hook is an observer that does something when a job was granted.
type hook struct {
	notes
	started func()
}

func (h *hook) Started(s *job.Spec, wait time.Duration) {
	h.notes.Started(s, wait)
	h.started()
}

// A job that is cancelled between its grant and its start is not started, and its
// grant goes back in full.
func TestCancelBetweenGrantAndStart(t *testing.T) {
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		h := new(hook)
		d := open(t, dispatcher.Config{Ledger: l, Observer: h})
		synctest.Wait()
		ran := false
		f := func(context.Context) (any, job.Usage, error) { ran = true; return nil, job.Used(1, 0), nil }
		tickets := make(chan *dispatcher.Ticket, 1)
		h.started = func() { (<-tickets).Cancel() }
		k := must(t, d, spec("t", job.Paid, 10), f)
		tickets <- k
		if r := <-k.Result(); !errors.Is(r.Err, context.Canceled) || r.Usage.Known != job.NotSent || r.Attempts != 1 {
			t.Errorf("%+v", r)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		h.started = func() { cancel(errProvider) }
		if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 10), f); !errors.Is(err, errProvider) {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
		if ran || balance(t, a.inner, wide) != 0 {
			t.Errorf("ran: %v, %d tokens are held", ran, balance(t, a.inner, wide))
		}
	})
}

// Netflix/concurrency-limits#179: each cancel that met a grant cost a place, until
// none was left. kubernetes/kubernetes#87362: one of the two overwrote the other.
// palantir/conjure-java-runtime#1413: one was given back twice.
func TestCancelMeetsGrant(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 4, Window: time.Minute}
	for name, way := range map[string]func(*audit) ledger.Ledger{
		"never-blocks": func(a *audit) ledger.Ledger { return direct{a} },
		"may-block":    func(a *audit) ledger.Ledger { return a },
	} {
		t.Run(name, func(t *testing.T) {
			const goroutines, rounds = 8, 1250
			a := newAudit(t, ledger.NewMemory())
			n := new(notes)
			d := open(t, dispatcher.Config{Ledger: way(a), Plan: fixed{wide, flight}, Workers: 4, UrgentWorkers: -1, Observer: n})
			var ran, cancelled, accepted atomic.Int64
			f := func(ctx context.Context) (any, job.Usage, error) {
				ran.Add(1)
				return nil, job.Used(1, 0), ctx.Err()
			}
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						ctx, cancel := context.WithCancel(context.Background())
						spin := rand.IntN(300) << (7 * rand.IntN(2)) // on a busy machine a grant takes its time
						go func() {
							for range spin {
								_ = ctx.Err()
							}
							cancel()
						}()
						if rand.IntN(2) == 0 {
							if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 3), f); err != nil {
								cancelled.Add(1)
							}
						} else if k, err := d.Submit(ctx, spec("t", job.Paid, 3), f); err == nil {
							accepted.Add(1)
							if r := <-k.Result(); r.Err != nil {
								cancelled.Add(1)
							}
						}
						cancel()
					}
				})
			}
			wg.Wait()
			if ran.Load() == 0 || cancelled.Load() == 0 {
				t.Errorf("%d ran, %d were cancelled: nothing met", ran.Load(), cancelled.Load())
			}
			for d.Stats() != (dispatcher.Stats{}) {
				runtime.Gosched() // the last grants go back
			}
			if got := balance(t, a.inner, flight); got != 0 {
				t.Errorf("%d calls are in flight", got)
			}
			if got := balance(t, a.inner, wide); got != ran.Load() {
				t.Errorf("%d tokens are held by %d runs", got, ran.Load())
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			for id, all := range n.results {
				if len(all) != 1 {
					t.Errorf("%v finished %d times", id, len(all))
				}
			}
		})
	}
}
