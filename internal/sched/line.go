package sched

import "time"

// Line answers a job taken by Next like Denied, when the ledger has given its lane a
// ticket in the line of all processes, in which it waits for a limit: the lane is
// parked until then, or until [Queue.Recall]. The lane keeps its ticket until the job
// is granted, or denied in another way.
func (q *Queue) Line(j *Job, limit string, until time.Duration) {
	if !j.out {
		return
	}
	l := j.lane
	q.Denied(j, limit, true, until)
	q.ticket(l, q.limit(limit))
}

// Beside is how many lanes of a job's class have a ticket and wait for one limit that
// the job charges: the most of any such limit.
func (q *Queue) Beside(j *Job) int {
	most := int32(0)
	for _, lim := range j.lane.group.limits {
		most = max(most, lim.tickets[j.lane.flow.class.number])
	}
	return int(most)
}

// NextBeside is Next for a queue whose denied lanes are in line. It passes the lanes
// that would stand there behind others of this queue: those that charge a limit for
// which a lane of a more urgent class waits with a ticket, or most of their own.
func (q *Queue) NextBeside(now time.Duration, worst, most int) *Job {
	q.expire(now)
	q.walk++
	if l, aged := q.best(now, min(worst, Classes-1), q.walk, most); l != nil && l.limit == nil {
		return q.take(l, aged)
	}
	return nil
}

// Recall lets the lanes with tickets ask again whose time is over by now, or all.
func (q *Queue) Recall(now time.Duration, all bool) {
	for _, l := range q.tickets {
		if all || l.until <= now {
			q.unblock(l)
			q.place(l)
		}
	}
}

// NextTicket takes out the head of a lane with a ticket that may ask again, of the
// classes 0 to worst, the most urgent first; nil: there is none.
func (q *Queue) NextTicket(worst int) *Job {
	var best *lane
	for _, l := range q.tickets {
		if l.head == nil || l.limit != nil || l.out > 0 || l.flow.class.number > worst {
			continue
		}
		if best == nil || l.flow.class.number < best.flow.class.number {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	return q.take(best, false)
}

// NextOldest takes out the oldest job of a class, among those that charge no limit for
// which a lane of that class waits with a ticket.
func (q *Queue) NextOldest(class int) *Job {
	c := &q.classes[class]
	if c.competing == 0 {
		return nil
	}
	q.walk++
	c.bar(q.walk, 1)
	if _, oldest := c.first(q.walk); oldest != nil && oldest.limit == nil && oldest.out == 0 {
		return q.take(oldest, false)
	}
	return nil
}

// First says that a job taken by Next was the first of its lane.
func (q *Queue) First(j *Job) bool { return j.first }

// HasTicket says that the lane of a job has one.
func (q *Queue) HasTicket(j *Job) bool { return j.lane.ticket > 0 }

// Withdraw takes the tickets of the classes from class on from their lanes, which may
// ask again. It returns the jobs that had them, and those that had one when their lane
// ended since the last call. All of them have to leave the line.
func (q *Queue) Withdraw(class int) []*Job {
	left := q.left
	q.left = nil
	for i := len(q.tickets) - 1; i >= 0; i-- {
		l := q.tickets[i]
		if l.flow.class.number < class || l.head == nil {
			continue
		}
		left = append(left, l.head)
		q.unblock(l)
		q.place(l)
		q.ticket(l, nil)
	}
	return left
}

// bar bars the limits for which that many lanes of the class wait with a ticket.
func (c *class) bar(walk int64, most int) {
	for _, g := range c.groups {
		for _, lim := range g.limits {
			if int(lim.tickets[c.number]) >= most {
				lim.walk = walk
			}
		}
	}
}

// ticket notes that a lane has one, and waits for that limit; nil: it has none.
func (q *Queue) ticket(l *lane, waits *limit) {
	if had := l.waits; had != nil {
		had.tickets[l.flow.class.number]--
		l.waits = nil
		q.dropLimit(had)
	}
	if waits != nil {
		l.waits = waits
		waits.tickets[l.flow.class.number]++
	}
	switch {
	case waits != nil && l.ticket == 0:
		q.tickets = append(q.tickets, l)
		l.ticket = int32(len(q.tickets))
	case waits == nil && l.ticket > 0:
		last := len(q.tickets) - 1
		moved := q.tickets[last]
		q.tickets[l.ticket-1], moved.ticket = moved, l.ticket
		q.tickets[last] = nil
		q.tickets = q.tickets[:last]
		l.ticket = 0
	}
}
