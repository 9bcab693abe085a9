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

// Instawork/llm-proxy#40: a settlement that used the request's context was lost
// with the client. Here it is made after every way of ending it.
func TestSettlingOutlivesTheCaller(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 10}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{wide, flight}})
		synctest.Wait()
		a.before(func(ctx context.Context, op string) error {
			if op == "settle" && ctx.Err() != nil {
				t.Error("a settlement came with a context that had ended")
			}
			return nil
		})
		// BerriAI/litellm#20256: ten slots, and ten calls that hang until their
		// callers give up.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		hang := func(ctx context.Context) (any, job.Usage, error) {
			<-ctx.Done()
			return nil, job.Used(30, 0), context.Cause(ctx)
		}
		for i := range 10 {
			calls.Go(func() {
				if i%2 == 0 {
					if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 100), hang); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				k, err := d.Submit(ctx, spec("t", job.Paid, 100), hang)
				if err != nil {
					t.Error(err)
				} else if r := <-k.Result(); !errors.Is(r.Err, context.DeadlineExceeded) || r.Usage.Input != 30 {
					t.Errorf("%+v", r)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if n := balance(t, a.inner, flight); n != 10 {
			t.Errorf("%d calls are in flight", n)
		}
		calls.Wait()
		time.Sleep(10 * time.Millisecond)
		if n, m := balance(t, a.inner, flight), balance(t, a.inner, wide); n != 0 || m != 300 {
			t.Errorf("%d calls are in flight, %d tokens were used", n, m)
		}
	})
}

// Settlements are repeated until the ledger has them, with a backoff, and say the
// same each time, whether the ledger is away or only its answers are.
func TestSettlementsSurviveAnOutage(t *testing.T) {
	for name, fail := range map[string]func(a *audit, away func() bool){
		"refused": func(a *audit, away func() bool) {
			a.before(func(_ context.Context, op string) error {
				if op == "settle" && away() {
					return errDown
				}
				return nil
			})
		},
		"stalled": func(a *audit, away func() bool) {
			a.before(func(ctx context.Context, op string) error {
				if op == "settle" && away() {
					return down(ctx, op)
				}
				return nil
			})
		},
		"answers lost": func(a *audit, away func() bool) {
			a.after(func(op string) error {
				if op == "settle" && away() {
					return errDown
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
				if _, ok := l.(ledger.NonBlocking); ok && name == "stalled" {
					return // that would be a lie
				}
				log := new(records)
				d := open(t, dispatcher.Config{Ledger: l, Logger: logger(log)})
				synctest.Wait()
				start := time.Now()
				fail(a, func() bool { return time.Since(start) < time.Minute })
				for range 200 {
					if _, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 10), nothing); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(30 * time.Second)
				if n := d.Stats().Settling; n != 200 {
					t.Errorf("%d settlements wait", n)
				}
				time.Sleep(29 * time.Second)
				// One attempt each, at most, on the jobs' own goroutines, and then one
				// in two seconds.
				if n := a.count("settle"); n < 25 || n > 240 {
					t.Errorf("%d attempts to settle in a minute", n)
				}
				if n := log.count(); n > 60 {
					t.Errorf("%d lines of log in a minute", n)
				}
				time.Sleep(10 * time.Second)
				if n := d.Stats().Settling; n != 0 {
					t.Errorf("%d settlements still wait", n)
				}
				if a.count("settle") > 500 {
					t.Errorf("%d attempts to settle", a.count("settle"))
				}
			})
		})
	}
}

// At the end the last settlements are tried for two seconds more, and what the
// ledger did not take is said.
func TestLastSettlements(t *testing.T) {
	for _, back := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			log := new(records)
			d := create(t, dispatcher.Config{Ledger: a, Logger: logger(log)})
			ended := make(chan error)
			go func() { ended <- d.Run(context.Background()) }()
			start := time.Now()
			a.before(func(_ context.Context, op string) error {
				if op == "settle" && time.Since(start) < back {
					return errDown
				}
				return nil
			})
			for range 100 {
				<-must(t, d, spec("t", job.Paid, 10), used(10)).Result()
			}
			if err := d.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			left := d.Stats().Settling
			switch took := time.Since(start); {
			case back == time.Second && (left != 0 || took > 2*time.Second):
				t.Errorf("%d settlements are left after %v", left, took)
			case back == time.Hour && (left != 100 || took < 2*time.Second || took > 3*time.Second || log.count() < 2):
				t.Errorf("%d settlements are left after %v; %d lines of log", left, took, log.count())
			}
			a.mu.Lock()
			if left > 0 {
				a.ids = nil // they were never settled, as said
			}
			a.mu.Unlock()
		})
	}
}

// What a job frees is for whoever waits, at once, also when it comes back while a
// denial is on its way.
func TestRefundWakesTheNext(t *testing.T) {
	limit := perSecond("limit", 100)
	limit.Window = time.Hour
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		if _, remote := l.(*audit); remote {
			a.after(func(op string) error {
				if op == "reserve" {
					time.Sleep(5 * time.Millisecond) // the answers are slow
				}
				return nil
			})
		}
		notSent := func(wait time.Duration) func(context.Context) (any, job.Usage, error) {
			return func(context.Context) (any, job.Usage, error) {
				time.Sleep(wait)
				return nil, job.Usage{Known: job.NotSent}, nil
			}
		}
		for _, finish := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			synctest.Wait()
			first := make(chan error)
			go func() {
				_, err := dispatcher.Do(context.Background(), d, spec("a", job.Paid, 100), notSent(finish))
				first <- err
			}()
			for d.Stats().Running == 0 || balance(t, a.inner, limit) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			second := must(t, d, spec("a", job.Paid, 100), notSent(0))
			if err := <-first; err != nil {
				t.Error(err)
			}
			ended := time.Now()
			if r := <-second.Result(); r.Err != nil || time.Since(ended) > 20*time.Millisecond {
				t.Errorf("%v after the refund: %v", time.Since(ended), r.Err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// What a call is billed and what it counts are two numbers: the ledger has the second.
func TestCountedByTheProvidersRules(t *testing.T) {
	burns := &ledger.Limit{
		Key: "burns", Unit: ledger.Tokens, Amount: 100_000, Window: time.Minute,
		Counts: ledger.Counts{Input: 100, CacheWrite: 100, Output: 500},
	}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{burns}})
		k := must(t, d, spec("t", job.Paid, 4000), func(context.Context) (any, job.Usage, error) {
			u := job.Used(9000, 200)
			u.Cached, u.CacheWrite = 7000, 1000
			return nil, u, nil
		})
		if r := <-k.Result(); r.Charged != 3000 || r.Usage.Input != 9000 || r.Usage.Output != 200 {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Millisecond)
		if n := balance(t, a.inner, burns); n != 3000 {
			t.Errorf("%d tokens counted", n)
		}
	})
}
