package dispatcher_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// redis/go-redis#2243, erpc/erpc#1113: a deadline of 50 ms took 5 s.
// riverqueue/river#1255, #678: everything stood still behind a call that stalled.
// With a ledger that does not answer for ten minutes nothing that a caller does
// waits for it.
func TestStalledLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudit(t, ledger.NewMemory())
		d := create(t, dispatcher.Config{Ledger: a})
		ended := make(chan error)
		go func() { ended <- d.Run(context.Background()) }()
		running := make(chan struct{})
		long := must(t, d, spec("t", job.Paid, 1), func(ctx context.Context) (any, job.Usage, error) {
			close(running)
			<-ctx.Done()
			return nil, job.Usage{}, ctx.Err()
		})
		<-running
		a.before(down)
		prompt := func(what string, f func()) {
			t.Helper()
			start := time.Now()
			f()
			if took := time.Since(start); took >= 100*time.Millisecond {
				t.Errorf("%s took %v", what, took)
			}
		}
		until := time.Now().Add(10 * time.Minute)
		for time.Now().Before(until) {
			var k *dispatcher.Ticket
			prompt("Submit", func() { k = must(t, d, spec("t", job.Paid, 1), used(1)) })
			time.Sleep(100 * time.Millisecond)
			prompt("Cancel", k.Cancel)
			prompt("Stats", func() { d.Stats() })
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			prompt("Do", func() {
				if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), nothing); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dispatcher.ErrShed) {
					t.Error(err)
				}
			})
			cancel()
			if r := <-k.Result(); !errors.Is(r.Err, context.Canceled) {
				t.Error(r.Err)
			}
			time.Sleep(3 * time.Second)
		}
		prompt("cancelling what runs", func() { long.Cancel(); <-long.Result() })
		waiting := must(t, d, spec("t", job.Paid, 1), used(1))
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		prompt("Shutdown", func() {
			if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		start := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 3*time.Second { // the call under way, and the last settlements
			t.Errorf("Run went on for %v", took)
		}
		if r := <-waiting.Result(); !errors.Is(r.Err, dispatcher.ErrShed) {
			t.Error(r.Err)
		}
		a.ids = nil // what was running could not be settled
	})
}

// A ledger that does not answer when the dispatcher is told to stop must not keep
// what is reserving: it is shed, whether it has waited before or not.
func TestStopWhileReserving(t *testing.T) {
	for _, answer := range []string{"granted", "denied", "lost"} {
		t.Run(answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := perSecond("limit", 10)
				limit.Window = time.Hour
				a := newAudit(t, ledger.NewMemory())
				d := create(t, dispatcher.Config{Ledger: a, Plan: fixed{limit}})
				ctx, stop := context.WithCancel(context.Background())
				ended := make(chan error)
				go func() { ended <- d.Run(ctx) }()
				if answer == "denied" {
					<-must(t, d, spec("t", job.Paid, 10), used(10)).Result()
				}
				a.before(func(context.Context, string) error { time.Sleep(200 * time.Millisecond); return nil })
				if answer == "lost" {
					a.after(func(op string) error {
						if op == "reserve" {
							return errDown
						}
						return nil
					})
				}
				k := must(t, d, spec("t", job.Paid, 10), used(10))
				synctest.Wait()
				start := time.Now()
				stop()
				if r := <-k.Result(); !errors.Is(r.Err, dispatcher.ErrShed) || time.Since(start) > 300*time.Millisecond {
					t.Errorf("after %v: %+v", time.Since(start), r)
				}
				if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
					t.Errorf("Run returned %v after %v", err, time.Since(start))
				}
				want := int64(0)
				if answer == "denied" {
					want = 10
				}
				if got := balance(t, a.inner, limit); got != want {
					t.Errorf("%d tokens are held, want %d", got, want)
				}
			})
		})
	}
}

// asynq's processor asked a dead Redis in a hot loop; BerriAI/litellm#40620 wrote a
// traceback for every request; litellm#35273 hung with a frozen one.
func TestLedgerAway(t *testing.T) {
	for name, fault := range map[string]func(context.Context, string) error{
		"dead":   func(context.Context, string) error { return errDown },
		"frozen": down,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAudit(t, ledger.NewMemory())
				log, n := new(records), new(notes)
				d := open(t, dispatcher.Config{Ledger: a, Logger: logger(log), Observer: n, MaxWait: 2 * time.Minute})
				<-must(t, d, spec("t", job.Paid, 1), used(1)).Result()
				asked := a.count("reserve")
				a.before(fault)
				start := time.Now()
				var jobs sync.WaitGroup
				for i := range 200 {
					s := spec("t", job.Paid, 1)
					s.Deadline = start.Add(time.Duration(i%4+1) * 10 * time.Second) // 10 to 40 s
					jobs.Go(func() {
						var err error
						if i%2 == 0 {
							_, err = dispatcher.Do(context.Background(), d, s, nothing)
						} else {
							err = (<-must(t, d, s, used(1)).Result()).Err
						}
						e := shedError(t, err)
						late := time.Since(s.Deadline)
						// A job is not taken out of a call that is under way.
						if e.Reason != dispatcher.Expired || !e.LedgerDown || e.Own || e.Limit != "" || late < 0 || late > 250*time.Millisecond {
							t.Errorf("%v late: %+v", late, e)
						}
					})
				}
				var waits []*dispatcher.Ticket
				for range 10 {
					waits = append(waits, must(t, d, spec("t", job.Paid, 1), used(1)))
				}
				jobs.Wait()
				time.Sleep(time.Until(start.Add(time.Minute)))
				asks := a.count("reserve") - asked
				// The backoff doubles from 50 ms to 2 s, of which half to all is waited.
				if asks < 25 || asks > 80 {
					t.Errorf("%d asks in a minute", asks)
				}
				if lines := log.count(); lines < 10 || lines > 61 {
					t.Errorf("%d lines of log in a minute", lines)
				}
				// A frozen ledger may have one call under way right now.
				if _, failed := n.called("reserve"); failed != asks && failed != asks-1 {
					t.Errorf("%d failed calls observed, of %d", failed, asks)
				}
				// When it is back, what still waits goes within the longest backoff.
				back := time.Now()
				a.before(nil)
				for _, k := range waits {
					if r := <-k.Result(); r.Err != nil || time.Since(back) > 2300*time.Millisecond {
						t.Errorf("after %v: %v", time.Since(back), r.Err)
					}
				}
				if r := <-must(t, d, spec("t", job.Paid, 1), used(1)).Result(); r.Err != nil || r.Wait > time.Millisecond {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// redis/go-redis#2145: all callers of a dead address hung past their deadlines.
func TestDeadlinesHoldWithoutALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudit(t, ledger.NewMemory())
		a.before(down)
		d := open(t, dispatcher.Config{Ledger: a})
		var calls sync.WaitGroup
		for i := range 500 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i+1)*10*time.Millisecond)
				defer cancel()
				deadline, _ := ctx.Deadline()
				if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), nothing); err == nil {
					t.Error("it ran")
				}
				if late := time.Since(deadline); late > 0 {
					t.Errorf("%v after the deadline", late)
				}
			})
		}
		calls.Wait()
		a.before(nil)
	})
}
