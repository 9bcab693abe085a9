package sched

import "time"

// Line answers a job taken by Next like Denied, when the ledger has given its lane a
// ticket in the line of all processes: the lane is parked until then, or until
// [Queue.Recall]. The lane keeps its ticket until the job is granted, or denied in
// another way.
func (q *Queue) Line(j *Job, limit string, until time.Duration) {
	if !j.out {
		return
	}
	l := j.lane
	q.Denied(j, limit, true, until)
	q.ticket(l, true)
}

// Tickets is the number of lanes of a class that have one.
func (q *Queue) Tickets(class int) int { return q.classes[clamp(class)].tickets }

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

// NextOldest takes out the oldest job of a class of which no lane has a ticket.
func (q *Queue) NextOldest(class int) *Job {
	c := &q.classes[class]
	if c.tickets > 0 || c.competing == 0 {
		return nil
	}
	if _, oldest := c.first(0); oldest != nil && oldest.limit == nil && oldest.out == 0 {
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
		q.ticket(l, false)
	}
	return left
}

// ticket notes that a lane has one, or none.
func (q *Queue) ticket(l *lane, has bool) {
	switch {
	case has && l.ticket == 0:
		q.tickets = append(q.tickets, l)
		l.ticket = int32(len(q.tickets))
		l.flow.class.tickets++
	case !has && l.ticket > 0:
		last := len(q.tickets) - 1
		moved := q.tickets[last]
		q.tickets[l.ticket-1], moved.ticket = moved, l.ticket
		q.tickets[last] = nil
		q.tickets = q.tickets[:last]
		l.ticket = 0
		l.flow.class.tickets--
	}
}
