package sched

import "time"

// lane holds the waiting jobs of one tenant in one class that need the same
// limits, oldest first. It exists while a job of it waits or is out.
type lane struct {
	flow    *flow
	group   *group
	sibling *lane // the tenant's next lane in this class

	head, tail *Job
	waiting    int32
	out        int32 // jobs taken by Next and not yet answered
	cost       int64 // of the waiting jobs
	counted    int64 // how much of cost the class counts: all or nothing

	// Where the lane is in its group's heaps and in the queue's timers.
	byStart, byAge, byTime int32

	// Neighbours in the row of lanes of the same length.
	rowPrev, rowNext *lane

	ticket int32  // place in the queue's tickets, from 1; 0: it has none
	waits  *limit // what the lane waits for with that

	// What was last said of the head: that limit was short, until then. The
	// lane is parked when the limit is its own; otherwise its head is the
	// holder on that limit. A nil limit says nothing.
	limit    *limit
	until    time.Duration
	parked   bool
	parkedAt int32 // index in limit.parked
}

// insert puts j where its age says. It looks from both ends at once: new jobs
// belong at the back, and those that return have only other returned ones
// before them, so that either is found in a few steps, whatever the length. Only
// an Arrived from the middle of a long lane is searched for.
func (l *lane) insert(j *Job) {
	for front, back := l.head, l.tail; ; front, back = front.next, back.prev {
		switch {
		case back == nil: // the lane is empty
			l.link(nil, j, nil)
			return
		case !j.before(back):
			l.link(back, j, back.next)
			return
		case j.before(front):
			l.link(front.prev, j, front)
			return
		}
	}
}

// link puts j between two neighbours, either of which may be missing.
func (l *lane) link(prev, j, next *Job) {
	j.prev, j.next = prev, next
	if prev == nil {
		l.head = j
	} else {
		prev.next = j
	}
	if next == nil {
		l.tail = j
	} else {
		next.prev = j
	}
	l.cost += j.cost()
}

func (l *lane) unlink(j *Job) {
	if j.prev == nil {
		l.head = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.tail = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next = nil, nil
	l.cost -= j.cost()
}
