package sched

import "time"

// limit is what the queue knows of a limit: who is blocked by it.
type limit struct {
	name   string
	groups int     // that charge it as a shared limit
	parked []*lane // whose own limit it is
	// holder is the lane whose head, the first in order of those denied, is
	// waiting for this limit. took is the turn in which that head was taken,
	// denied the last turn before it was denied.
	holder       *lane
	took, denied int64
	walk         int64 // the last walk in which it was barred
	// tickets counts the lanes of each class that wait for it in line.
	tickets [Classes]int32
}

// Free says that something came back on a limit, a shared one or a tenant's
// own: the jobs denied by it may be tried again at once.
func (q *Queue) Free(limit string) {
	lim := q.limits[limit]
	if lim == nil {
		return
	}
	if lim.holder != nil {
		q.unblock(lim.holder)
	}
	for n := len(lim.parked); n > 0; n-- {
		l := lim.parked[n-1]
		q.unblock(l)
		q.place(l)
	}
}

// Wake is the earliest time at which a job that was denied may be tried again
// without a call of Free: what the caller's one timer is set to. False: there is
// none.
func (q *Queue) Wake() (time.Duration, bool) {
	if q.timers.len() == 0 {
		return 0, false
	}
	return time.Duration(q.timers.items[0].first), true
}

// Blocked says which limit blocks the head of j's lane, and whether it is the
// tenant's own, which parks the lane; false: none does.
func (q *Queue) Blocked(j *Job) (limit string, own, ok bool) {
	if j.lane == nil || j.lane.limit == nil {
		return "", false, false
	}
	return j.lane.limit.name, j.lane.parked, true
}

// expire ends the blocks whose time has come.
func (q *Queue) expire(now time.Duration) {
	for q.timers.len() > 0 && q.timers.items[0].first <= int64(now) {
		l := q.timers.items[0].of
		q.unblock(l)
		q.place(l)
	}
}

// block records what a denial said of l's head, which has just gone back. A
// limit that the group does not charge cannot be held against others, so that
// it parks the lane like one of its own.
func (q *Queue) block(l *lane, limit string, own bool, until time.Duration) {
	lim := l.group.charges(limit)
	if own || lim == nil {
		lim = q.limit(limit)
		l.parked, l.parkedAt = true, int32(len(lim.parked))
		lim.parked = append(lim.parked, l)
	} else {
		if lim.holder != nil {
			if !lim.outranked(l.head.turn) {
				return
			}
			q.unblock(lim.holder)
		}
		lim.holder, lim.took, lim.denied = l, l.head.turn, q.turn
	}
	l.limit, l.until = lim, until
	q.timers.set(l, key{first: int64(until)})
}

// outranked reports whether a job taken in the given turn is in front of the
// holder. It is if it was taken while the holder was blocked, for then the walk
// had met it first, or before the holder was taken, in the same batch.
func (m *limit) outranked(turn int64) bool { return turn > m.denied || turn < m.took }

// unblock forgets what was said of l's head.
func (q *Queue) unblock(l *lane) {
	lim := l.limit
	if lim == nil {
		return
	}
	if l.parked {
		last := len(lim.parked) - 1
		moved := lim.parked[last]
		lim.parked[l.parkedAt], moved.parkedAt = moved, l.parkedAt
		lim.parked[last] = nil
		lim.parked = lim.parked[:last]
		q.dropLimit(lim)
	} else {
		lim.holder = nil
	}
	q.timers.remove(l)
	l.limit, l.parked = nil, false
}
