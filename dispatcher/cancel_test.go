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

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// A job may be cancelled by its ticket or its context, in any state. What was
// reserved comes back once, and one result arrives (Noveum/ai-gateway#30,
// sgl-project/sglang#31907: a client that went away before the first byte leaked
// its slot).
func TestCancel(t *testing.T) {
	limit := perSecond("limit", 100)
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 100}
	errGone := errors.New("the client went away")
	for _, state := range []string{"queued", "reserving", "granted", "running", "done"} {
		for _, by := range []string{"ticket", "context", "do"} {
			t.Run(state+" by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := new(notes)
					a := newAudit(t, ledger.NewMemory())
					d := open(t, dispatcher.Config{Ledger: a, Plan: fixed{limit, flight}, Observer: n})
					if state == "queued" { // no budget for it
						<-must(t, d, spec("t", job.Paid, 100), used(100)).Result()
					}
					answer := make(chan struct{})
					inLedger := make(chan struct{}, 1)
					if state == "reserving" || state == "granted" {
						a.after(func(op string) error {
							if op == "reserve" {
								inLedger <- struct{}{}
								<-answer
							}
							return nil
						})
					}
					ran := make(chan struct{}, 1)
					f := func(ctx context.Context) (any, job.Usage, error) {
						ran <- struct{}{}
						if state == "done" {
							return nil, job.Used(70, 0), nil
						}
						<-ctx.Done()
						return nil, job.Used(70, 0), context.Cause(ctx)
					}
					s := spec("t", job.Paid, 70)
					s.ID = uuid.New()
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					var err error
					returned := make(chan struct{})
					var k *dispatcher.Ticket
					if by == "do" {
						go func() {
							defer close(returned)
							_, err = dispatcher.Do(ctx, d, s, f)
						}()
					} else {
						close(returned)
						if k, err = d.Submit(ctx, s, f); err != nil {
							t.Fatal(err)
						}
					}
					switch state {
					case "reserving", "granted":
						<-inLedger
					case "running":
						<-ran
					case "done":
						<-ran
						synctest.Wait()
					default:
						synctest.Wait()
					}
					start := time.Now()
					end, want := func() { cancel(errGone) }, errGone
					if by == "ticket" {
						end, want = func() { k.Cancel(); k.Cancel() }, context.Canceled
					}
					if by == "context" && state != "granted" && state != "done" {
						end = func() { cancel(errGone); synctest.Wait(); k.Cancel() } // the first counts
					}
					if state == "granted" {
						// The grant and the cancel meet.
						go close(answer)
						go end()
					} else {
						end()
					}
					if state == "reserving" {
						if by == "do" {
							<-returned // does not wait for the ledger
						}
						synctest.Wait()
						close(answer)
					}
					<-returned
					synctest.Wait()
					if took := time.Since(start); took > 0 {
						t.Errorf("it took %v", took)
					}
					r := n.result(t, s.ID)
					if by != "do" {
						select {
						case again := <-k.Result():
							if !errors.Is(again.Err, r.Err) {
								t.Errorf("observed %v, delivered %v", r.Err, again.Err)
							}
						default:
							t.Error("no result")
						}
						k.Cancel()
					} else if state != "reserving" && !errors.Is(err, r.Err) {
						t.Errorf("observed %v, returned %v", r.Err, err)
					}
					a.after(nil)
					tokens := int64(0)
					switch state {
					case "queued":
						tokens = 100
					case "running", "done":
						tokens = 70
					case "granted":
						if r.Usage.Known == job.Metered { // it ran for an instant
							tokens = 70
						}
					}
					if state == "done" {
						want = nil
					}
					if !errors.Is(r.Err, want) {
						t.Errorf("ended with %v, want %v", r.Err, want)
					}
					if got := balance(t, a.inner, limit); got != tokens {
						t.Errorf("%d tokens are held, want %d", got, tokens)
					}
					if got := balance(t, a.inner, flight); got != 0 {
						t.Errorf("%d calls are in flight", got)
					}
					if s := d.Stats(); s != (dispatcher.Stats{}) {
						t.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

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
						spin := rand.IntN(300)
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

// kubeai-project/kubeai#18: cancelled requests stayed in the queue for ever.
func TestCancelledLeaveTheQueue(t *testing.T) {
	limit := perSecond("limit", 1)
	limit.Window = time.Hour
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, Workers: 4})
		<-must(t, d, spec("t", job.Paid, 1), used(1)).Result()
		ctx, cancel := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		for i := range 2500 {
			if i%2 == 0 {
				if _, err := d.Submit(ctx, spec("t", job.Paid, 1), used(1)); err != nil {
					t.Error(err)
				}
				continue
			}
			calls.Go(func() {
				if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), nothing); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if s := d.Stats(); s.Waiting[1] != 2500 {
			t.Errorf("%+v", s)
		}
		cancel()
		calls.Wait()
		time.Sleep(10 * time.Millisecond)
		if s := d.Stats(); s != (dispatcher.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

// netresearch/go-cron#51: cancelling twice, or too late, took out another job.
func TestCancelTouchesNobodyElse(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Workers: 1, UrgentWorkers: -1})
		hold := make(chan struct{})
		first := must(t, d, spec("t", job.Paid, 1), func(context.Context) (any, job.Usage, error) { <-hold; return nil, job.Usage{}, nil })
		var tickets []*dispatcher.Ticket
		for range 100 {
			tickets = append(tickets, must(t, d, spec("t", job.Paid, 1), used(1)))
		}
		time.Sleep(10 * time.Millisecond)
		for i := 0; i < 100; i += 3 {
			tickets[i].Cancel()
			tickets[i].Cancel()
		}
		close(hold)
		<-first.Result()
		first.Cancel()
		for i, k := range tickets {
			r := <-k.Result()
			if gone := errors.Is(r.Err, context.Canceled); gone != (i%3 == 0) || !gone && r.Err != nil {
				t.Errorf("job %d: %v", i, r.Err)
			}
			k.Cancel()
		}
	})
}
