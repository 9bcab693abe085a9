package sched

import (
	"math"
	"time"
)

const (
	// scale is the unit of tags: 1/4096 of a token per unit of weight. At 150
	// million tokens a minute, all of one tenant of weight 1, an int64 of them
	// lasts 28 years; a job of 40 tokens and weight 100 is counted within
	// 0.03 %.
	scale = 1 << 12
	// maxWeight keeps products of weights and tags within an int64.
	maxWeight = 1 << 20
	// spareTags is how many more idle tenants than competing ones a class
	// remembers.
	spareTags = 256
	// defaultAgedShare is in percent.
	defaultAgedShare = 20
)

// Config is what a queue needs to know. The zero Config is valid.
type Config struct {
	// AgingStep is how long a job waits, for each class that more urgent work
	// is ahead of it, before it is overdue. 0 or less: jobs do not age.
	AgingStep time.Duration
	// AgedShare is how much of what is granted, in percent of tokens, overdue
	// work may take from more urgent work. 0: 20. Less than 0: none. More than
	// 100 counts as 100.
	AgedShare int64
	// Weight is a tenant's share relative to other tenants of its class, read
	// at each Push, so that a change takes hold with the tenant's next job.
	// Less than 1 counts as 1, more than 2^20 as 2^20. Nil: all are equal.
	Weight func(tenant string) int64
}

// Queue is the queue of one dispatcher. It must be made by [New] and is not safe
// for concurrent use. A call with a job that is not in the state the call is for
// (pushed twice, answered twice, removed after it was taken) does nothing.
type Queue struct {
	cfg     Config
	classes [Classes]class
	limits  map[string]*limit // those that a group charges or a lane is parked on
	tickets []*lane           // lanes in the line of all processes
	left    []*Job            // the last of lanes that ended with a ticket
	timers  heap[lane]        // lanes about whose head something was said, by until
	jobs    int               // waiting or out
	seq     int64             // pushes
	turn    int64             // jobs taken
	walk    int64             // calls of Next
	credit  credit
	spare   []*flow
	slack   int // spareTags; less in tests
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	if cfg.AgedShare == 0 {
		cfg.AgedShare = defaultAgedShare
	}
	cfg.AgedShare = min(max(cfg.AgedShare, 0), 100)
	cfg.AgingStep = min(cfg.AgingStep, math.MaxInt64/2/Classes) // times a class
	q := &Queue{
		cfg:    cfg,
		limits: make(map[string]*limit),
		timers: heap[lane]{place: func(l *lane) *int32 { return &l.byTime }},
		slack:  spareTags,
	}
	q.credit.percent = cfg.AgedShare
	for i := range q.classes {
		q.classes[i].number = i
		q.classes[i].flows = make(map[string]*flow)
		q.classes[i].idle.place = func(f *flow) *int32 { return &f.idleAt }
	}
	return q
}

// Push puts j in the queue. A job that comes back with its old Arrived takes its
// old place, and stands in front of whatever blocked the head it displaces.
func (q *Queue) Push(j *Job) {
	if j.lane != nil {
		return
	}
	if j.seq == 0 {
		q.seq++
		j.seq = q.seq
	}
	f := q.flow(&q.classes[clamp(j.Class)], j.Tenant)
	f.weight = q.weight(j.Tenant)
	j.lane = q.lane(f, j)
	q.jobs++
	f.class.jobs++
	f.jobs++
	q.enqueue(j)
	q.place(j.lane)
}

// Remove takes out a job that is waiting, whether blocked or not, and reports
// whether it did. A job that is out must be answered first.
func (q *Queue) Remove(j *Job) bool {
	if j.lane == nil || j.out {
		return false
	}
	l := j.lane
	q.dequeue(j)
	q.place(l)
	q.gone(j)
	return true
}

// Victim is the job that should make room for a more urgent one: the newest of
// the longest lane of the class. Of lanes as long, it is the one that came to
// that length last. Nil when no job of the class waits.
func (q *Queue) Victim(class int) *Job {
	if l := q.classes[clamp(class)].lengths.longest(); l != nil {
		return l.tail
	}
	return nil
}

// enqueue puts j in its lane. If it is the head now, what was said of the old
// head no longer counts: a denial speaks of the first job of a lane.
func (q *Queue) enqueue(j *Job) {
	l := j.lane
	l.insert(j)
	l.flow.class.lengths.grow(l)
	if l.head == j {
		q.unblock(l)
	}
}

// dequeue takes j out of its lane. If it was the head, the next one may be
// tried at once.
func (q *Queue) dequeue(j *Job) {
	l := j.lane
	if l.head == j {
		q.unblock(l)
	}
	l.unlink(j)
	l.flow.class.lengths.shrink(l)
}

// place brings a lane whose head, tag or block has changed to where it belongs.
func (q *Queue) place(l *lane) {
	f, g := l.flow, l.group
	runs := l.head != nil && !l.parked
	counted := int64(0)
	switch {
	case runs:
		if l.byStart == 0 {
			if !f.competes() {
				f.enter()
			}
			f.running++
		}
		counted = l.cost
		g.byStart.set(l, key{f.start(), l.head.seq})
		g.byAge.set(l, key{int64(l.head.Arrived), l.head.seq})
	case l.byStart != 0:
		g.byStart.remove(l)
		g.byAge.remove(l)
		f.running--
		if !f.competes() {
			f.class.competing--
		}
	}
	f.class.cost += counted - l.counted
	l.counted = counted
}

// gone ends what the queue knows of j, which is neither waiting nor out any
// more, and forgets what nobody needs.
func (q *Queue) gone(j *Job) {
	l, f := j.lane, j.lane.flow
	j.lane = nil
	q.jobs--
	f.class.jobs--
	f.jobs--
	if l.head == nil && l.out == 0 {
		if l.ticket > 0 {
			q.ticket(l, nil)
			q.left = append(q.left, j)
		}
		q.dropLane(l)
	}
	if f.lanes == nil {
		f.class.idle.set(f, key{first: f.finish})
	}
	q.sweep(f.class)
}

// sweep forgets the tags of idle tenants that say nothing any more: all of them
// when the busy period is over, those not ahead of the virtual time, and, so
// that memory does not grow with the tenants ever seen, the smallest of them
// when there are many more than tenants competing. Those take the virtual time
// with them, so that nobody gains by being forgotten. That also bounds the wait
// of a tenant's second job behind an endless row of newcomers, each of which
// would start at a virtual time that never moves.
func (q *Queue) sweep(c *class) {
	for c.idle.len() > 0 {
		least := c.idle.items[0]
		if c.competing > 0 && least.first > c.virtual {
			if c.idle.len() <= c.competing+q.slack {
				return
			}
			c.virtual = least.first
		}
		c.idle.remove(least.of)
		q.dropFlow(least.of)
	}
}

func (q *Queue) weight(tenant string) int64 {
	if q.cfg.Weight == nil {
		return 1
	}
	return min(max(q.cfg.Weight(tenant), 1), maxWeight)
}

// tags is n tokens in tag units, to the nearest.
func tags(n, weight int64) int64 {
	n = min(max(n, -maxCost), maxCost)
	half := weight / 2
	if n < 0 {
		half = -half
	}
	return (n*scale + half) / weight
}

func clamp(class int) int { return min(max(class, 0), Classes-1) }
