package dispatcher_test

import (
	"context"
	"errors"
	"sync"
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
