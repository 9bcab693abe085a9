package dispatcher_test

import (
	"context"
	"errors"
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
		if e := shedError(t, err); e.Reason != dispatcher.Closing {
			t.Errorf("%+v", e)
		}
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
