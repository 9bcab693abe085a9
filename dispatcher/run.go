package dispatcher

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paceline-go/paceline/internal/sched"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// errStopped is the cause of the contexts of running jobs that are cut off.
var errStopped = errors.New("dispatcher: stopped before the job was done")

// ErrRunning is returned by a second Run.
var ErrRunning = errors.New("dispatcher: already run")

// maxBatch is how many reservations go to the ledger in one call.
const maxBatch = 64

// Run is the dispatcher goroutine; it returns when all that it started is gone.
// When ctx ends it stops at once, as Shutdown does with a context that has ended:
// what waits is shed and what runs is cancelled and waited for. It returns nil
// after Shutdown, and otherwise ctx's error. A dispatcher runs once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if !d.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer close(d.ended)
	defer d.stop()

	// helpers end when the dispatcher has drained, not when ctx does.
	helpers, stopHelpers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHelpers()
	var background errgroup.Group
	var pool errgroup.Group // acquire bounds it
	if !d.direct {
		background.Go(func() error { d.reserver(helpers, &pool); return nil })
	}
	background.Go(func() error { d.settler.run(helpers); return nil })
	background.Go(func() error { d.renewer(helpers); return nil })
	if d.line != nil {
		background.Go(func() error { d.watcher(helpers); return nil })
	}
	abandoned := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(abandoned); d.abandon() })
	defer func() {
		if !stop() {
			<-abandoned
		}
	}()

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	armed := never
	for {
		// A timer that rings too early costs a look; setting it at every job
		// would cost more.
		if next := d.round(&pool); next < armed {
			armed = next
			timer.Reset(max(next-d.now(), 0))
		}
		select {
		case <-d.wake:
		case <-timer.C:
			armed = never
		case <-d.drained:
			_ = pool.Wait()
			d.mu.Lock()
			left := d.withdrawn(job.Classes)
			d.unlock()
			d.withdraw(helpers, left)
			stopHelpers()
			_ = background.Wait()
			return ctx.Err()
		}
	}
}

// round does everything that can be done now: jobs whose time is up leave, and
// as many as there are workers for ask for their budget. It returns when to look
// again.
func (d *Dispatcher) round(pool *errgroup.Group) time.Duration {
	for {
		d.mu.Lock()
		now := d.now()
		for len(d.timers) > 0 && d.timers[0].at <= now {
			t := d.timers[0]
			switch {
			case t.state == paused && now < t.deadline:
				d.paused[t.Class]--
				d.push(t)
				d.watch(t, t.deadline)
				continue
			case t.state == reserving:
				d.watch(t, never) // see back
				continue
			}
			d.tell(t, d.expired(t))
			d.leave(t)
		}
		if !d.asking {
			d.replan()
		}
		a := d.pick(now)
		for _, t := range d.fresh {
			if t.state == queued && t.timer == 0 {
				d.watch(t, t.deadline)
			}
		}
		clear(d.fresh)
		d.fresh = d.fresh[:0]
		d.next = d.wakeAt(now)
		next := d.next
		d.unlock()
		if a.none() {
			return next
		}
		if !d.direct {
			d.asks <- a // never more than one: see asking
			return next
		}
		d.catchUp(context.Background(), a.late)
		d.withdraw(context.Background(), a.left)
		if len(a.batch) == 0 || !d.ask(context.Background(), a.batch, now, pool) {
			return next
		}
	}
}

// asks is what the ledger is asked one after the other: what was charged too late,
// tickets that leave, reservations.
type asks struct {
	late, left []ledger.Request
	batch      []*task
}

func (a *asks) none() bool { return len(a.late)+len(a.left)+len(a.batch) == 0 }

// pick takes the jobs out of the queue that may ask for their budget now. Each
// holds a worker from here on. While none is free for a job it does not stay in line.
func (d *Dispatcher) pick(now time.Duration) (a asks) {
	if d.asking || now < d.pause {
		return a
	}
	a.late, d.late = d.late, nil
	if d.line != nil {
		told := now >= d.turn
		if told {
			d.turn = never
		}
		d.queue.Recall(now, told)
	}
	batch := d.batch[:0]
	if !d.direct {
		batch = nil // the one before may still be in the reserver's hands
	}
	clear(d.freed)
	busy := job.Classes // the first class that finds no worker
	deeper, fresh := 0, [job.Classes]int{}
	for len(batch) < maxBatch && deeper < d.most && (d.line != nil || len(batch) < d.most) {
		worst := job.Classes - 1
		if !d.acquire(worst) {
			busy = urgent + 1
			if worst = urgent; !d.acquire(worst) {
				busy = 0
				d.rate.look(now, true, d.queue.Len() > len(batch))
				break
			}
		}
		var j *sched.Job
		if d.line != nil {
			j = d.nextInLine(now, worst)
		} else {
			j = d.queue.Next(now, worst)
		}
		if j == nil {
			d.running.Add(-1)
			d.closeIfDrained() // who ended meanwhile saw us running
			break
		}
		t := j.Value.(*task)
		t.state = reserving
		switch {
		case !d.queue.First(j):
			t.ticket = false
			deeper++
		case d.line == nil || d.queue.HasTicket(j):
			t.ticket = d.line != nil
		default:
			t.ticket = d.queue.Beside(j)+fresh[t.Class] < maxTickets
			fresh[t.Class]++
		}
		batch = append(batch, t)
	}
	if d.line != nil {
		if len(batch) > 0 {
			busy = job.Classes // it holds workers itself
		}
		a.left = d.withdrawn(busy)
	}
	a.batch = batch
	d.asking = !a.none() && !d.direct
	if d.direct {
		d.batch = batch
	}
	return a
}

// wakeAt is when the dispatcher goroutine has to look again by itself.
func (d *Dispatcher) wakeAt(now time.Duration) time.Duration {
	next := never
	if len(d.timers) > 0 {
		next = d.timers[0].at
	}
	if d.running.Load() >= int64(d.cfg.Workers) || d.asking {
		return next // whoever ends that wakes us
	}
	if now < d.pause {
		return min(next, d.pause)
	}
	next = min(next, d.turn)
	if at, ok := d.queue.Wake(); ok {
		next = min(next, at)
	}
	return next
}

// watch sets the job's timer.
func (d *Dispatcher) watch(t *task, at time.Duration) {
	t.at = at
	if t.timer > 0 {
		heap.Fix(&d.timers, t.timer-1)
		return
	}
	heap.Push(&d.timers, t)
}

// Shutdown stops taking jobs, waits until those it has are done, and returns nil.
// When ctx ends first, what waits is shed, the contexts of what runs end, and
// ctx's error is returned without waiting further: Run returns when all are gone.
// It may be called again, and before Run.
func (d *Dispatcher) Shutdown(ctx context.Context) error {
	d.close()
	d.closeIfDrained()
	if !d.started.Load() {
		d.abandon()
		return nil
	}
	d.look()
	select {
	case <-d.drained:
	case <-ctx.Done():
		d.abandon()
		return context.Cause(ctx)
	}
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close stops taking jobs. Whoever was let in before is waiting when it returns.
func (d *Dispatcher) close() {
	d.mu.Lock()
	d.closing.Store(true)
	d.unlock()
}

// abandon sheds what waits and ends the contexts of what runs. What is reserving
// is shed when the ledger's answer comes.
func (d *Dispatcher) abandon() {
	d.close()
	d.stop()
	var cancels []context.CancelCauseFunc
	d.mu.Lock()
	for _, t := range slices.Concat(d.timers, d.fresh) { // who is queued or paused is in one of them
		if t.state != queued && t.state != paused {
			continue
		}
		d.tell(t, d.shedError(Closing, t.Class, t.Tenant, t.Cost))
		d.leave(t)
	}
	for t := range d.live {
		cancels = append(cancels, t.cancel)
	}
	d.unlock()
	d.closeIfDrained()
	for _, cancel := range cancels {
		cancel(errStopped)
	}
	d.look()
}
