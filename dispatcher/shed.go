package dispatcher

import (
	"time"

	"github.com/paceline-go/paceline/job"
)

// bounds says whether the queue has no place for a job of the class and tenant,
// at a cost of microseconds.
func (d *Dispatcher) bounds(class int, tenant string) *ShedError {
	q := d.queue
	switch {
	case d.closing.Load():
		return d.shedError(Closing, class, tenant, 0)
	case d.cfg.MaxTenantQueue < d.cfg.MaxQueue && q.LenTenant(tenant) >= d.cfg.MaxTenantQueue:
		e := d.shedError(TenantQueueFull, class, tenant, 0)
		e.Own = true
		return e
	case class >= job.Background.Class() && int(d.waiting.Load()) >= d.cfg.MaxBackgroundQueue:
		return d.shedError(Background, class, tenant, 0)
	case int(d.waiting.Load()) >= d.cfg.MaxQueue && d.evictable(class, tenant) < 0:
		return d.shedError(QueueFull, class, tenant, 0)
	}
	return nil
}

// evictable returns the class that has to make room for a newcomer of the given one:
// the least urgent that has more than its kept share of the queue, and not all of it
// reserving. It is behind the newcomer's, unless that has less than its own share; or
// it is the newcomer's, if there a tenant has more jobs than the newcomer's would. -1
// when there is none.
func (d *Dispatcher) evictable(class int, tenant string) int {
	kept := d.cfg.MaxQueue * d.cfg.AgedShare / 100
	first := class + 1
	if d.queue.LenClass(class) < kept {
		first = 0
	}
	for c := job.Classes - 1; c >= first; c-- {
		if d.queue.LenClass(c) > kept && d.queue.Victim(c) != nil {
			return c
		}
	}
	if v := d.queue.Victim(class); v != nil && d.queue.LenTenant(v.Tenant) > d.queue.LenTenant(tenant)+1 {
		return class
	}
	return -1
}

// makeRoom evicts the last in line for a newcomer that may have its place, when the
// queue is full.
func (d *Dispatcher) makeRoom(t *task) {
	if int(d.waiting.Load()) < d.cfg.MaxQueue {
		return
	}
	class := d.evictable(t.Class, t.Tenant)
	if class < 0 {
		return
	}
	v := d.queue.Victim(class).Value.(*task)
	d.leave(v)
	d.tell(v, d.shedError(Evicted, v.Class, v.Tenant, v.Cost))
}

// hopeless sheds a job at once that could not start before its deadline.
func (d *Dispatcher) hopeless(t *task) *ShedError {
	if t.deadline <= t.Arrived {
		return d.shedError(Expired, t.Class, t.Tenant, t.Cost)
	}
	if d.queue.Len() == 0 {
		return nil
	}
	left := t.deadline - t.Arrived
	if w, ok := d.rate.wait(d.queue.Backlog(t.Class)); !ok || w <= left {
		return nil // surely not, and that was cheap to say
	}
	if w, ok := d.rate.wait(d.queue.Ahead(t.Class, t.Tenant)); ok && w > left {
		return d.shedError(Hopeless, t.Class, t.Tenant, t.Cost)
	}
	return nil
}

// shedError works out the true wait: the backlog ahead at the rate at which this
// process was lately granted.
func (d *Dispatcher) shedError(why Reason, class int, tenant string, cost int64) *ShedError {
	after, _ := d.rate.wait(d.queue.Ahead(class, tenant) + cost)
	return &ShedError{Reason: why, RetryAfter: max(after, time.Second), LedgerDown: d.backoff > 0}
}

// expired is the error of a job whose deadline passed while it waited.
func (d *Dispatcher) expired(t *task) *ShedError {
	e := d.shedError(Expired, t.Class, t.Tenant, t.Cost)
	if limit, own, ok := d.queue.Blocked(&t.Job); ok && limit != "" {
		e.Limit, e.Own = limit, own
	}
	return e
}

func (d *Dispatcher) observeShed(t *task, e *ShedError) {
	if o := d.cfg.Observer; o != nil {
		o.Shed(&t.spec, e)
	}
}
