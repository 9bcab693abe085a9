package sched

import "time"

// Next takes out the job that may be attempted now, of the classes 0 to worst;
// nil: there is none. The job is out until it is answered by [Queue.Granted] or
// [Queue.Denied]. Called repeatedly, it yields a batch in order, each job chosen
// as if those before it had been granted.
//
// now is the time since an epoch that the caller chose, and must not go back.
func (q *Queue) Next(now time.Duration, worst int) *Job {
	q.expire(now)
	q.walk++
	walk := int64(0)
	for {
		l, aged := q.best(now, min(worst, Classes-1), walk, 0)
		switch {
		case l == nil:
			return nil
		case l.limit == nil:
			return q.take(l, aged)
		}
		// The first in order is the holder on a limit, and its time has not
		// come. Nobody behind it may take from that limit, so that only groups
		// that do not charge it are looked at from here on.
		walk = q.walk
		l.limit.walk = walk
	}
}

// best is the lane whose head goes next, among the groups not barred, and
// whether that is by the ageing rule. tickets is 0, or as in NextBeside.
func (q *Queue) best(now time.Duration, worst int, walk int64, tickets int) (best *lane, aged bool) {
	var urgent int
	var overdue *lane
	var beyond time.Duration
	for i := range worst + 1 {
		c := &q.classes[i]
		if tickets > 0 {
			c.bar(walk, tickets)
		}
		first, oldest := c.first(walk)
		if tickets > 0 {
			c.bar(walk, 1)
		}
		switch {
		case first == nil:
		case best == nil:
			best, urgent = first, i
			if q.cfg.AgingStep <= 0 || !q.credit.any() {
				return best, false
			}
		default:
			late := now - oldest.head.Arrived - time.Duration(i-urgent)*q.cfg.AgingStep
			if late >= 0 && (overdue == nil || late > beyond) {
				overdue, beyond = oldest, late
			}
		}
	}
	if overdue != nil {
		return overdue, true
	}
	return best, false
}

// take takes out the head of a lane and counts it as granted, for the time
// being.
func (q *Queue) take(l *lane, aged bool) *Job {
	j, f := l.head, l.flow
	q.dequeue(j)
	q.turn++
	j.turn, j.out, j.aged, j.first = q.turn, true, aged, l.out == 0
	j.share = max(tags(j.cost(), f.weight), 1)
	f.pending += j.share
	f.out++
	l.out++
	f.class.outCost += j.cost()
	q.credit.pending += q.credit.of(j)
	q.place(l)
	f.retag()
	return j
}
