package dispatcher

import (
	"context"

	"github.com/paceline-go/paceline/job"
)

// cancelTask ends a job that nobody wants any more. It reports whether the job
// had not started and will not.
func (d *Dispatcher) cancelTask(t *task, why error) bool {
	var cancel context.CancelCauseFunc
	d.mu.Lock()
	switch t.state {
	case queued, paused:
		d.leave(t)
		d.tell(t, why)
		d.unlock()
		d.look() // what waited behind it may go
		return true
	case arriving, reserving:
		if t.cancelled == nil {
			t.cancelled = why // the grant on its way goes back
		}
		d.unlock()
		return true
	case running:
		t.cancelled = why
		cancel = t.cancel
	}
	d.unlock()
	if cancel != nil {
		cancel(why)
	}
	return false
}

// leave takes a waiting job out of the queue for good.
func (d *Dispatcher) leave(t *task) {
	if t.state == paused {
		d.paused[t.Class]--
	}
	d.queue.Remove(&t.Job)
	d.timers.remove(t)
	d.waiting.Add(-1)
	d.finish(t)
}

// finish makes the job's last change of state.
func (d *Dispatcher) finish(t *task) {
	t.state = done
	d.closeIfDrained()
}

// gone tells why a job ended that waited.
func (d *Dispatcher) gone(t *task, why error) {
	if shed, ok := why.(*ShedError); ok {
		d.observeShed(t, shed)
	}
	d.deliver(t, job.Result{Err: why, Usage: t.usage, Wait: t.wait, Attempts: t.attempt - 1})
}

// deliver tells how a job ended that does not end on its caller's goroutine. It
// is called once, after finish, without the lock, and is the last to touch the
// task.
func (d *Dispatcher) deliver(t *task, r job.Result) {
	if t.stop != nil {
		t.stop()
	}
	d.observeEnd(t, &r)
	if t.turn != nil {
		t.turn <- r.Err
		return
	}
	t.results <- r
}

func (d *Dispatcher) observeEnd(t *task, r *job.Result) {
	r.Estimate, r.Reserved = t.estimate, t.Cost
	if o := d.cfg.Observer; o != nil {
		o.Finished(&t.spec, r)
	}
}
