package dispatcher

import (
	"context"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Do runs f as a job and returns what it returns. f runs on the caller's
// goroutine, which waits anyway, and holds one of the dispatcher's workers while
// it runs. Do returns early only when the job has not started: f may use what the
// caller owns. A panic in f is returned as a *PanicError.
//
// The other errors are those of Submit, and a *ShedError when the job was shed
// while it waited.
func Do[T any](ctx context.Context, d *Dispatcher, s job.Spec, f func(context.Context) (T, job.Usage, error)) (T, error) {
	var zero T
	t := d.borrow()
	t.spec, t.ctx = s, ctx
	if err := d.describe(t); err != nil {
		d.recycle(t)
		return zero, err
	}
	granted := d.grantNow(t)
	if !granted {
		d.arrive(t)
	}
	for {
		if !granted {
			if err := d.await(t); err != nil {
				return zero, err // others may still look at t: it is not used again
			}
		}
		v, again, err := attempt(d, t, f)
		if !again {
			d.recycle(t)
			return v, err
		}
		granted = false
	}
}

// await waits for the job's turn. An error says that it will not come.
func (d *Dispatcher) await(t *task) error {
	if t.ctx.Done() == nil {
		return <-t.turn
	}
	select {
	case err := <-t.turn:
		return err
	case <-t.ctx.Done():
		why := context.Cause(t.ctx)
		if d.cancelTask(t, why) {
			return why
		}
		return <-t.turn
	}
}

// attempt makes one attempt on the caller's goroutine; again says that the job is
// back in the queue.
func attempt[T any](d *Dispatcher, t *task, f func(context.Context) (T, job.Usage, error)) (v T, again bool, err error) {
	r := &t.result
	*r = job.Result{Err: ErrGoexit, Wait: t.wait, Attempts: t.attempt}
	ctx, cancel := d.runContext(t)
	defer func() {
		if p := recover(); p != nil {
			r.Usage, r.Err = job.Usage{}, newPanicError(p)
		}
		if cancel != nil {
			cancel(nil)
		}
		again = d.concluded(t, r)
		err = r.Err
	}()
	if why := d.begin(ctx, t); why != nil {
		r.Usage.Known, r.Err = job.NotSent, why
		return v, false, why
	}
	v, r.Usage, r.Err = f(ctx)
	return v, false, r.Err
}

// grantNow is the short way of a job that finds nobody waiting and a worker free,
// when the ledger does not block: there is no order to keep, so it asks for its
// budget itself. Whatever else than a grant it hears is left to the long way.
func (d *Dispatcher) grantNow(t *task) bool {
	if !d.direct || d.waiting.Load() > 0 || !d.started.Load() || t.deadline <= t.Arrived || !d.acquire(t.Class) {
		return false
	}
	if d.closing.Load() {
		d.release()
		return false
	}
	t.asked = t.Arrived
	t.request[0].Guard = d.guardTime()
	decisions, err := d.cfg.Ledger.Reserve(context.Background(), t.request[:])
	if err != nil || len(decisions) != 1 || decisions[0].Outcome != ledger.Granted {
		if err != nil {
			d.giveBack(t)
		}
		d.release()
		return false
	}
	t.state = running // nobody else knows it yet
	if hasLease(t) {
		d.mu.Lock()
		d.lease(t)
		d.unlock()
	}
	if o := d.cfg.Observer; o != nil {
		o.Started(&t.spec, 0)
	}
	return true
}
