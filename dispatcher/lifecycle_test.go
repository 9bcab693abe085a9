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

// alitto/pond#61: who waited for queued tasks hung when the pool's context ended.
// With a thousand jobs queued and some running every ticket resolves, and by the
// time Run returns.
func TestRunContextEnds(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 3}
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := create(t, dispatcher.Config{Ledger: l, Plan: fixed{flight}})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		errStop := errors.New("stopped")
		obeys := func(ctx context.Context) (any, job.Usage, error) {
			<-ctx.Done()
			return nil, job.Usage{}, errStop
		}
		var background error
		go func() { // a context that can not end does so here
			_, background = dispatcher.Do(context.Background(), d, spec("t", job.P0, 1), obeys)
		}()
		running := []*dispatcher.Ticket{
			must(t, d, spec("t", job.P0, 1), obeys),
			must(t, d, spec("t", job.P0, 1), func(context.Context) (any, job.Usage, error) {
				time.Sleep(time.Minute) // does not listen
				return nil, job.Used(1, 0), nil
			}),
		}
		time.Sleep(10 * time.Millisecond)
		var queued []*dispatcher.Ticket
		for range 1000 {
			queued = append(queued, must(t, d, spec("t", job.Paid, 1), used(1)))
		}
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		stop()
		synctest.Wait()
		for _, k := range queued {
			select {
			case r := <-k.Result():
				if e := shedError(t, r.Err); e.Reason != dispatcher.Closing {
					t.Errorf("%+v", e)
				}
			default:
				t.Fatal("a queued job has no result")
			}
		}
		if r := <-running[0].Result(); !errors.Is(r.Err, errStop) || time.Since(start) > 0 {
			t.Errorf("%+v", r)
		}
		if !errors.Is(background, errStop) {
			t.Error(background)
		}
		if s := d.Stats(); s.Running != 1 {
			t.Errorf("%+v", s)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) < 50*time.Second {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
		select {
		case r := <-running[1].Result():
			if r.Err != nil {
				t.Error(r.Err)
			}
		default:
			t.Error("Run returned before the last result was there")
		}
	})
}

// A shutdown waits for what was accepted, and takes nothing new.
func TestShutdownDrains(t *testing.T) {
	limit := perSecond("limit", 10)
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := create(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}})
		ended := make(chan error, 1)
		go func() { ended <- d.Run(context.Background()) }()
		synctest.Wait()
		var tickets []*dispatcher.Ticket
		for range 100 {
			tickets = append(tickets, must(t, d, spec("t", job.Paid, 1), used(1)))
		}
		start := time.Now()
		down := make(chan error)
		for range 2 {
			go func() { down <- d.Shutdown(context.Background()) }()
		}
		synctest.Wait()
		if e := shed(t, d, spec("t", job.Paid, 1)); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
		_, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing)
		if e := shedError(t, err); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
		for range 2 {
			if err := <-down; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, k := range tickets {
			if r := <-k.Result(); r.Err != nil {
				t.Error(r.Err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_, err = dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing)
		if e := shedError(t, err); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
	})
}

// The end of the last job may meet anything that the dispatcher does; Shutdown
// must notice it all the same.
func TestDrainMeetsTheLastJob(t *testing.T) {
	for range 1000 {
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

// Do's short way closes at once as well, while the last job runs.
func TestShutdownRefusesTheShortWay(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l})
		last := must(t, d, spec("t", job.Paid, 1), func(context.Context) (any, job.Usage, error) {
			time.Sleep(time.Minute)
			return nil, job.Used(1, 0), nil
		})
		time.Sleep(10 * time.Millisecond)
		ended := make(chan error)
		go func() { ended <- d.Shutdown(context.Background()) }()
		synctest.Wait()
		_, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing)
		if e := shedError(t, err); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-last.Result()
	})
}

// asynq's processor lost a slot, or went over its limit, for a handler that did not
// listen to its context. Here it keeps its worker, visibly, and Run waits for it;
// Shutdown does not wait longer than it was told.
func TestShutdownDeadline(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := create(t, dispatcher.Config{Ledger: l, Workers: 1, UrgentWorkers: -1})
		ended := make(chan error, 1)
		go func() { ended <- d.Run(context.Background()) }()
		deaf := must(t, d, spec("t", job.Paid, 1), func(ctx context.Context) (any, job.Usage, error) {
			time.Sleep(time.Minute)
			return nil, job.Usage{}, context.Cause(ctx)
		})
		time.Sleep(10 * time.Millisecond)
		queued := must(t, d, spec("t", job.Paid, 1), used(1))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		start := time.Now()
		if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if r := <-queued.Result(); shedError(t, r.Err).Reason != dispatcher.Closing {
			t.Errorf("%+v", r)
		}
		if s := d.Stats(); s.Running != 1 {
			t.Errorf("%+v", s)
		}
		if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-ended; err != nil || time.Since(start) < 59*time.Second {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
		if r := <-deaf.Result(); r.Err == nil {
			t.Error("its context did not end")
		}
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// failsafe-go's cancel functions panicked at the second call, doorman's Wait hung
// after Close. Every method is safe in any order, any number of times.
func TestMethodsInAnyOrder(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		d := create(t, dispatcher.Config{Ledger: l})
		k := must(t, d, spec("t", job.Paid, 1), used(1))
		if s := d.Stats(); s.Waiting[1] != 1 {
			t.Errorf("%+v", s)
		}
		for range 2 {
			if err := d.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if r := <-k.Result(); shedError(t, r.Err).Reason != dispatcher.Closing {
			t.Errorf("%+v", r)
		}
		if err := d.Run(context.Background()); err != nil {
			t.Errorf("Run after Shutdown: %v", err)
		}
		if err := d.Run(context.Background()); !errors.Is(err, dispatcher.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		if e := shed(t, d, spec("t", job.Paid, 1)); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
		_, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nothing)
		shedError(t, err)
		k.Cancel()
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if s := d.Stats(); s != (dispatcher.Stats{}) {
			t.Errorf("%+v", s)
		}

		// A context that has ended before Run began.
		d = create(t, dispatcher.Config{Ledger: l})
		k = must(t, d, spec("t", job.Paid, 1), used(1))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-k.Result()
	})
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
	for i := range 1000 {
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
