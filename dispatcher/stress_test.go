package dispatcher_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// The end of the last job may meet anything that the dispatcher does; Shutdown
// must notice it all the same.
func TestDrainMeetsTheLastJob(t *testing.T) {
	for range 300 {
		d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), Workers: 2, UrgentWorkers: -1})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		var parts sync.WaitGroup
		parts.Go(func() {
			if err := d.Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			parts.Go(func() {
				for range rand.IntN(30) {
					runtime.Gosched()
				}
				_, _ = dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing)
			})
		}
		for range rand.IntN(30) {
			runtime.Gosched()
		}
		if err := d.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		parts.Wait()
		cancel()
	}
}

// riverqueue/river#376, #401, #1187, alitto/pond#108, #104: hangs, panics and races
// of starting, stopping and submitting at once. Whatever the order, every job that
// was accepted gets its one result, and everything ends.
func TestStartStop(t *testing.T) {
	for name, way := range map[string]func(*audit) ledger.Ledger{
		"never-blocks": func(a *audit) ledger.Ledger { return direct{a} },
		"may-block":    func(a *audit) ledger.Ledger { return a },
	} {
		t.Run(name, func(t *testing.T) {
			limit := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 2, Window: time.Minute}
			a := newAudit(t, ledger.NewMemory())
			round := func() {
				d := create(t, dispatcher.Config{Ledger: way(a), Plan: fixed{limit}, Workers: 2, UrgentWorkers: -1})
				ctx, stop := context.WithCancel(context.Background())
				hour, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				var parts sync.WaitGroup
				var ran bool
				parts.Go(func() { ran = !errors.Is(d.Run(ctx), dispatcher.ErrRunning) })
				for range 2 {
					parts.Go(func() {
						for range 5 {
							k, err := d.Submit(context.Background(), spec("t", job.Paid, 1), used(1))
							if err == nil {
								<-k.Result()
							} else if !errors.Is(err, dispatcher.ErrShed) {
								t.Error(err)
							}
						}
					})
					parts.Go(func() {
						for range 5 {
							if _, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing); err != nil && !errors.Is(err, dispatcher.ErrShed) {
								t.Error(err)
							}
						}
					})
				}
				parts.Go(func() {
					for range rand.IntN(200) {
						runtime.Gosched()
					}
					if err := d.Shutdown(hour); err != nil {
						t.Error("Shutdown: ", err)
					}
				})
				if rand.IntN(3) == 0 {
					parts.Go(func() {
						for range rand.IntN(200) {
							runtime.Gosched()
						}
						stop()
					})
				}
				parts.Wait()
				stop()
				if s := d.Stats(); !ran || s != (dispatcher.Stats{}) {
					t.Errorf("ran: %v, %+v", ran, s)
				}
			}
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					for range 50 {
						round()
					}
				})
			}
			all.Wait()
			if n := balance(t, a.inner, limit); n != 0 {
				t.Errorf("%d calls are in flight", n)
			}
		})
	}
}

// Whenever it comes, the end reaches every job: none is left to run for ever that
// was on its way from its grant to its start.
func TestStopReachesEveryJob(t *testing.T) {
	for i := range 500 {
		var l ledger.Ledger = ledger.NewMemory()
		if i%2 == 0 {
			l = struct{ ledger.Ledger }{l} // may block
		}
		d := create(t, dispatcher.Config{Ledger: l})
		ctx, stop := context.WithCancel(context.Background())
		f := func(ctx context.Context) (any, job.Usage, error) {
			<-ctx.Done()
			return nil, job.Usage{}, ctx.Err()
		}
		var parts sync.WaitGroup
		parts.Go(func() { _ = d.Run(ctx) })
		for range 2 {
			parts.Go(func() {
				for range rand.IntN(50) {
					runtime.Gosched()
				}
				if k, err := d.Submit(context.Background(), spec("t", job.Paid, 1), f); err == nil {
					<-k.Result()
				}
			})
			parts.Go(func() {
				for range rand.IntN(50) {
					runtime.Gosched()
				}
				_, _ = dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), f)
			})
		}
		for range rand.IntN(50) {
			runtime.Gosched()
		}
		stop()
		parts.Wait()
	}
}

// panjf2000/ants#374: a pool ran more than its capacity. Here Do's short way, the
// queue and retries compete for three workers.
func TestNeverMoreThanWorkers(t *testing.T) {
	for name, way := range map[string]func(*audit) ledger.Ledger{
		"never-blocks": func(a *audit) ledger.Ledger { return direct{a} },
		"may-block":    func(a *audit) ledger.Ledger { return a },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			d := open(t, dispatcher.Config{Ledger: way(a), Workers: 3, UrgentWorkers: 1})
			var all, lower peak
			f := func(p job.Priority) func(context.Context) (any, job.Usage, error) {
				tries := 0
				return func(context.Context) (any, job.Usage, error) {
					all.enter()
					defer all.leave()
					if p == job.Free {
						lower.enter()
						defer lower.leave()
					}
					for range rand.IntN(20) {
						runtime.Gosched()
					}
					if n := d.Stats().Running; n < 1 || n > 3 {
						t.Errorf("%d running", n)
					}
					if tries++; tries == 1 && rand.IntN(4) == 0 {
						return nil, job.Usage{}, &job.RetryError{}
					}
					return nil, job.Used(1, 0), nil
				}
			}
			var failed atomic.Int64
			var callers sync.WaitGroup
			for i := range 8 {
				p := []job.Priority{job.Paid, job.Free}[i%2]
				callers.Go(func() {
					for range 500 {
						var err error
						if i < 5 {
							_, err = dispatcher.Do(context.Background(), d, spec("t", p, 1), f(p))
						} else {
							err = (<-must(t, d, spec("t", p, 1), f(p)).Result()).Err
						}
						if err != nil {
							failed.Add(1)
						}
					}
				})
			}
			callers.Wait()
			if failed.Load() > 0 {
				t.Errorf("%d jobs failed", failed.Load())
			}
			if all.most.Load() > 3 || lower.most.Load() > 2 {
				t.Errorf("%d ran at once, of 3; %d of them not urgent, of 2", all.most.Load(), lower.most.Load())
			}
		})
	}
}

// hellofresh/health-go#224, google/cadvisor#2549: results that nobody read held
// goroutines. TestMain looks for those.
func TestUnreadTickets(t *testing.T) {
	d := open(t, dispatcher.Config{Ledger: ledger.NewMemory()})
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 1000 {
		k := must(t, d, spec("t", job.Paid, 1), used(1))
		if i%2 == 0 {
			k.Cancel()
		}
		if _, err := d.Submit(ctx, spec("t", job.Paid, 1), used(1)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
}
