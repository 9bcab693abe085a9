package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// execute makes one attempt of a submitted job in the pool, and does what follows
// from it, whichever way the function ends.
func (d *Dispatcher) execute(t *task) {
	r := job.Result{Err: ErrGoexit, Wait: t.wait, Attempts: t.attempt}
	ctx, cancel := d.runContext(t)
	defer func() {
		if p := recover(); p != nil {
			r.Value, r.Usage, r.Err = nil, job.Usage{}, newPanicError(p)
		}
		if cancel != nil {
			cancel(nil)
		}
		if !d.concluded(t, &r) {
			d.deliver(t, r)
		}
	}()
	if why := d.begin(ctx, t); why != nil {
		r.Usage.Known, r.Err = job.NotSent, why
		return
	}
	r.Value, r.Usage, r.Err = t.f(ctx)
}

// begin refuses an attempt that nobody wants any more by the time its grant comes,
// or whose grant is stale: the grant goes back.
func (d *Dispatcher) begin(ctx context.Context, t *task) error {
	if ctx.Err() == nil {
		if d.stale(t) {
			return errStale
		}
		return nil
	}
	if t.ctx.Err() != nil || d.base.Err() == nil {
		return context.Cause(ctx)
	}
	d.mu.Lock()
	shed := d.shedError(Closing, t.Class, t.Tenant, t.Cost)
	d.unlock()
	d.observeShed(t, shed)
	return shed
}

// errStale sends a job back for another grant.
var errStale = &job.RetryError{
	Err: errors.New("dispatcher: the process stood still between the grant and the call"), Closed: true,
}

// stale reports that the process stood still for longer than the guard since it asked
// for the grant: the provider would count the call when the ledger does not any more.
// It says so once for each attempt, which a slow network must not keep from being
// made, and a ledger in the process itself has not been away.
func (d *Dispatcher) stale(t *task) bool {
	age := d.now() - t.asked
	if d.direct || t.renewed || d.closing.Load() || age < time.Millisecond {
		return false
	}
	for _, c := range t.charges {
		if c.Limit.Unit == ledger.InFlight {
			continue
		}
		if guard := c.Limit.Shape(d.guardTime()).Guard; age.Microseconds() > guard {
			t.renewed = true
			return true
		}
	}
	return false
}

// runContext is the caller's context, which also ends when the dispatcher gives
// up draining or the ticket is cancelled.
func (d *Dispatcher) runContext(t *task) (context.Context, context.CancelCauseFunc) {
	if t.ctx == context.Background() && t.turn != nil {
		return d.base, nil
	}
	if t.ctx.Done() == nil && t.turn != nil {
		return uncancelled{t.ctx, d.base}, nil
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	d.mu.Lock()
	t.cancel = cancel
	d.live[t] = struct{}{}
	why := t.cancelled
	d.unlock()
	if why == nil && d.base.Err() != nil {
		why = errStopped
	}
	if why != nil {
		cancel(why)
	}
	return ctx, cancel
}

// uncancelled has the values of a context that never ends, and ends with base.
type uncancelled struct {
	context.Context
	base context.Context
}

func (c uncancelled) Done() <-chan struct{} { return c.base.Done() }
func (c uncancelled) Err() error            { return c.base.Err() }

// concluded settles an attempt. It reports whether the job goes back for another
// one; otherwise it has ended.
func (d *Dispatcher) concluded(t *task, r *job.Result) (again bool) {
	var room []ledger.Final
	if d.direct {
		room = t.final[:]
	}
	u := unsettled{ledger.Settlement{ID: t.id(), Final: final(room, t.charges, r.Usage), Cancel: r.Usage.Known == job.NotSent}, t.charges}
	if !u.Cancel {
		r.Charged = charged(u.Final)
	}
	more := spent(t, r.Usage) - t.Cost
	if d.line != nil {
		u.Tenant, u.Class, u.Weight, u.Extra = t.Tenant, t.Class, 1, more
		if d.cfg.Weight != nil {
			u.Weight = d.cfg.Weight(t.Tenant)
		}
	}
	if !r.Usage.FirstByte.IsZero() {
		u.Counted = max(r.Usage.FirstByte.Sub(d.start)-t.asked, time.Microsecond)
	}
	d.settle(t, &u)
	if d.learner != nil && r.Err == nil && r.Usage.Known == job.Metered && t.spec.Estimate == (job.Estimate{}) {
		d.learner.Learn(t.spec, r.Usage)
	}

	retry := retryOf(r.Err)
	if retry == nil && t.turn != nil && t.cancel == nil && !hasLease(t) && u.Counted == 0 &&
		(d.waiting.Load() == 0 || more == 0 && !(d.direct && u.frees())) {
		// Nobody else knows of the job, and nobody waits for what it frees.
		t.state = done
		d.release()
		d.observeEnd(t, r)
		return false
	}
	d.mu.Lock()
	if t.cancel != nil {
		delete(d.live, t)
		t.cancel = nil
	}
	if _, leased := d.leased[t]; leased {
		d.chargeLate(t)
		delete(d.leased, t)
	}
	if u.Counted > 0 {
		d.guard.add(u.Counted)
		d.measured.Store(int64(d.guard.p999()))
	}
	if d.waiting.Load() > 0 {
		if t.period == d.periods[t.Class] {
			d.queue.Settled(t.Tenant, t.Class, more)
		}
		if d.direct {
			d.came(&u)
		}
	}
	if !errors.Is(r.Err, errStale) {
		t.renewed = false
	}
	again = retry != nil && d.retry(t, retry)
	if again {
		t.usage = r.Usage
	} else {
		d.finish(t)
	}
	d.unlock()
	d.release()
	if !again && t.turn != nil {
		d.observeEnd(t, r)
	}
	return again
}

func retryOf(err error) *job.RetryError {
	if err == nil {
		return nil
	}
	retry, _ := errors.AsType[*job.RetryError](err)
	return retry
}

// retry sends a job back for another attempt, if it has one left and time for it.
func (d *Dispatcher) retry(t *task, retry *job.RetryError) bool {
	now, after := d.now(), max(retry.After, 0)
	if after >= t.deadline-now {
		return false
	}
	if retry.Closed {
		t.attempt-- // the next one counts
		after = 0
	}
	if t.attempt >= d.cfg.MaxAttempts || d.closing.Load() || t.cancelled != nil || t.ctx.Err() != nil {
		return false
	}
	t.attempt++
	t.ask++
	d.waiting.Add(1)
	if after > 0 {
		t.state = paused
		d.paused[t.Class]++
		d.watch(t, now+after)
		return true
	}
	d.push(t)
	d.watch(t, t.deadline)
	return true
}
