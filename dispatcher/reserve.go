package dispatcher

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paceline-go/paceline/ledger"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
	// releasePoll is how often a job asks again that waits for a call in flight
	// to end: another process may have ended one.
	releasePoll = 250 * time.Millisecond
	// maxSleep is how long a denied job sleeps at most: another process may give back
	// what is left of a day's budget, or raise a limit.
	maxSleep = 30 * time.Second
)

var (
	errDecisions = errors.New("dispatcher: the ledger did not decide every request")
	errRefused   = errors.New("dispatcher: the ledger knows this job's id from before; give every job its own")
)

// reserver is the goroutine that asks a ledger which may block. There is one
// batch on its way at a time; what comes meanwhile makes the next one larger.
func (d *Dispatcher) reserver(ctx context.Context, pool *errgroup.Group) {
	for {
		select {
		case a := <-d.asks:
			d.catchUp(ctx, a.late)
			d.withdraw(ctx, a.left)
			if len(a.batch) > 0 {
				d.ask(ctx, a.batch, d.now(), pool)
			} else {
				d.mu.Lock()
				d.asking = false
				d.unlock()
			}
			d.look()
		case <-ctx.Done():
			return
		}
	}
}

// ask reserves for a batch, and starts what was granted. It reports whether
// anybody is left waiting.
func (d *Dispatcher) ask(ctx context.Context, batch []*task, asked time.Duration, pool *errgroup.Group) bool {
	requests := d.requests[:0]
	guard := d.guardTime()
	for _, t := range batch {
		r := ledger.Request{ID: t.id(), Charges: t.charges, Guard: guard}
		if d.line != nil {
			r.Place = d.place(t)
			r.Place.Waited = max(asked-t.Arrived, 0)
			if t.ticket {
				r.Place.Ticket, r.Place.Lane = true, lane(t)
			}
		}
		requests = append(requests, r)
	}
	d.requests = requests
	if !d.direct {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.cfg.LedgerTimeout)
		defer cancel()
	}
	decisions, err := d.cfg.Ledger.Reserve(ctx, requests)
	if err == nil && len(decisions) != len(batch) {
		err = errDecisions
	}
	d.called("reserve", asked, err)

	started := batch[:0:len(batch)]
	now := asked
	if !d.direct {
		now = d.now()
	}
	d.mu.Lock()
	d.asking = false
	d.rate.pass(now)
	if err != nil {
		d.away(now)
	} else {
		d.backoff = 0
	}
	stopped, short := d.base.Err() != nil, err != nil
	for i, t := range batch {
		t.asked = asked
		if stopped && t.cancelled == nil {
			t.cancelled = d.shedError(Closing, t.Class, t.Tenant, t.Cost)
		}
		if err != nil {
			// It may have been granted. A grant that old must not be used, for the
			// provider would count the call later than the ledger does: it goes
			// back, and the job asks anew.
			d.giveBack(t)
			d.retake(t, now)
		} else if ran, why := d.decided(t, decisions[i], now); ran {
			started = append(started, t)
			continue
		} else if why != nil && t.cancelled == nil {
			t.cancelled = why
		} else {
			short = short || decisions[i].Outcome == ledger.Denied
		}
		d.running.Add(-1)
		if t.cancelled != nil {
			d.tell(t, t.cancelled)
			d.queue.Remove(&t.Job)
			d.timers.remove(t)
			d.waiting.Add(-1)
			d.finish(t)
		}
	}
	// While little is granted few ask. That spares the ledger, and one that asks
	// alone can not be passed: in a larger batch each is chosen as if those before
	// it had been granted, so that two batches might take turns for ever.
	if len(started) == len(batch) {
		d.most = min(2*d.most, maxBatch)
	} else {
		d.most = max(len(started), 1)
	}
	left := d.waiting.Load() > 0
	d.rate.look(now, short, d.queue.Len() > 0)
	d.unlock()
	for _, t := range started {
		d.launch(t, pool)
	}
	return left
}

// decided acts on one decision. It reports whether the job runs; an error ends it.
func (d *Dispatcher) decided(t *task, dec ledger.Decision, now time.Duration) (bool, error) {
	switch dec.Outcome {
	case ledger.Granted:
		if t.cancelled != nil {
			d.giveBack(t)
			d.retake(t, now)
			return false, nil
		}
		t.period = d.periods[t.Class]
		d.queue.Granted(&t.Job)
		d.timers.remove(t)
		d.waiting.Add(-1)
		d.rate.granted(t.Cost)
		t.state, t.wait = running, now-t.Arrived
		d.lease(t)
		return true, nil
	case ledger.Denied:
		if dec.Closed && dec.Wait >= t.deadline-now {
			d.retake(t, now)
			e := d.shedError(Hopeless, t.Class, t.Tenant, t.Cost)
			e.RetryAfter, e.Limit, e.Own = dec.Wait, dec.Limit.Key, dec.Limit.Own
			return false, e
		}
		until := now + min(dec.Wait, maxSleep)
		_, freed := d.freed[dec.Limit.Key]
		switch {
		case d.line != nil && !dec.Limit.Own && t.ticket:
			d.back(t, now, func() { d.queue.Line(&t.Job, dec.Limit.Key, until) })
			return false, nil
		case d.line != nil && !dec.Limit.Own, freed: // it stands behind those in line; something came back while we asked
			until = now
		case d.line == nil && dec.Limit.Unit == ledger.InFlight:
			until = min(until, now+releasePoll)
		}
		d.back(t, now, func() { d.queue.Denied(&t.Job, dec.Limit.Key, dec.Limit.Own || d.line != nil, until) })
		return false, nil
	case ledger.TooLarge:
		d.retake(t, now)
		e := &TooLargeError{Limit: dec.Limit}
		for _, c := range t.charges {
			if c.Limit == dec.Limit {
				e.Charge = c.Amount
			}
		}
		return false, e
	default:
		d.retake(t, now)
		return false, errRefused
	}
}

// retake lets a job ask again at once.
func (d *Dispatcher) retake(t *task, now time.Duration) {
	d.back(t, now, func() { d.queue.Denied(&t.Job, "", true, now) })
}

// back returns a job to its place in the queue.
func (d *Dispatcher) back(t *task, now time.Duration, denied func()) {
	t.state = queued
	denied()
	if t.deadline <= now && t.cancelled == nil {
		t.cancelled = d.expired(t)
		return
	}
	d.watch(t, t.deadline)
}

// giveBack cancels a reservation that was granted or may have been. The job's next
// one has another id.
func (d *Dispatcher) giveBack(t *task) {
	d.settler.add(cancelled(t))
	t.ask++
}

// away pauses reservations while the ledger does not answer, longer each time.
func (d *Dispatcher) away(now time.Duration) {
	d.backoff = min(max(2*d.backoff, firstBackoff), maxBackoff)
	d.pause = now + d.backoff/2 + rand.N(d.backoff/2)
}

// launch runs a granted job: in the pool, or where somebody waits for its turn.
func (d *Dispatcher) launch(t *task, pool *errgroup.Group) {
	if o := d.cfg.Observer; o != nil {
		o.Started(&t.spec, t.wait)
	}
	if t.turn != nil {
		t.turn <- nil
		return
	}
	run := func() error { d.execute(t); return nil }
	if !pool.TryGo(run) {
		// The pool takes its place back only just after the job said that it is
		// done: the wait is for a goroutine that is about to end.
		pool.Go(run)
	}
}

// called tells the observer and the log about a call of the ledger. A ledger that
// never blocks is not worth a measurement.
func (d *Dispatcher) called(op string, since time.Duration, err error) {
	if err != nil {
		d.complain(op, err)
	}
	if o := d.cfg.Observer; o != nil && !d.direct {
		o.LedgerCalled(op, d.now()-since, err)
	}
}

// complain logs that the ledger fails, at most once in a second.
func (d *Dispatcher) complain(op string, err error) {
	now := int64(d.now())
	last := d.complained.Load()
	if last != 0 && now-last < int64(time.Second) || !d.complained.CompareAndSwap(last, now) {
		return
	}
	d.cfg.Logger.Warn("the ledger does not answer; jobs wait", "op", op, "error", err)
}

// guardTime is the guard that this process measured.
func (d *Dispatcher) guardTime() time.Duration { return time.Duration(d.measured.Load()) }
