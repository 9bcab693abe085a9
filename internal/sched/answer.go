package sched

import "time"

// Granted says that a job taken by Next was granted. It leaves the queue.
func (q *Queue) Granted(j *Job) {
	if !j.out {
		return
	}
	f := j.lane.flow
	start := f.finish
	if first, _ := f.class.first(0); j.aged && first != nil {
		// The class was not served up to this job's tag: it was taken out of
		// order. It was served at least up to the smallest one left, though.
		start = min(start, first.flow.start())
	}
	q.answered(j)
	if j.first {
		q.ticket(j.lane, nil)
	}
	q.credit.grant(j)
	f.finish += j.share
	f.class.virtual = max(f.class.virtual, start)
	f.release()
	q.gone(j)
}

// Denied says that a job taken by Next was refused because limit is short until
// about the given time. It goes back to its old place, and its tenant's tag is
// what it would be had the job not been taken, in whatever order the jobs of a
// batch are answered.
//
// If it is the head of its lane then, it blocks. own says that the limit is its
// tenant's: the lane is parked. Otherwise the job holds the limit against all
// who come after it, unless one in front of it does so already. Both last until
// that time, until [Queue.Free], or until another job is the head of the lane,
// because this one left or an older one came back. A denial by a limit that is
// not in the job's Shared counts as own.
//
// A caller that heard that room came back on the limit after it had asked gives
// an until that has passed.
func (q *Queue) Denied(j *Job, limit string, own bool, until time.Duration) {
	if !j.out {
		return
	}
	l, f := j.lane, j.lane.flow
	q.answered(j)
	if j.first {
		q.ticket(l, nil)
	}
	q.enqueue(j)
	if l.head == j {
		q.block(l, limit, own, until)
	}
	q.place(l)
	f.release()
	f.retag()
	q.sweep(f.class)
}

// Settled corrects a tenant's tag by delta tokens: what a granted job used, less
// its Cost. A tenant that used more than it reserved pays for it also when it
// has gone idle since, as long as the class is busy.
func (q *Queue) Settled(tenant string, class int, delta int64) {
	c := &q.classes[clamp(class)]
	f := c.flows[tenant]
	if f == nil {
		if delta <= 0 || c.competing == 0 {
			return
		}
		f = q.flow(c, tenant)
		f.weight = q.weight(tenant)
	}
	f.finish += tags(delta, f.weight)
	if f.lanes == nil {
		c.idle.set(f, key{first: f.finish})
		q.sweep(c)
		return
	}
	f.finish = max(f.finish, f.entered)
	f.retag()
}

// answered takes back what taking j did for the time being, except that its
// tenant still competes until it is released.
func (q *Queue) answered(j *Job) {
	l := j.lane
	j.out = false
	l.out--
	l.flow.pending -= j.share
	l.flow.class.outCost -= j.cost()
	q.credit.pending -= q.credit.of(j)
}
