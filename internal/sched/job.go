package sched

import "time"

// Classes is the number of classes, 0 (most urgent) to 9.
const Classes = 10

// maxCost bounds what one job or one settlement can do to a tag: 2^40 tokens,
// 2^52 in tag units. Larger ones count as that.
const maxCost = 1 << 40

// Job is a waiting job as the queue sees it. It is meant to be embedded in the
// caller's own record, with Value pointing back to that record, so that queueing
// allocates nothing.
//
// The caller fills the exported fields, passes the Job to [Queue.Push], and
// changes none of them until it has left the queue. A Job that is pushed again
// keeps its old place among jobs of the same Arrived; to use the memory for
// another job, assign a new Job to it.
type Job struct {
	// Tenant is who the class is shared between. The empty tenant is a tenant.
	Tenant string
	// Group names the set of shared limits the job charges, in practice its
	// model. Tenant, Class and Group together are the job's lane.
	Group string
	// Class is 0 to 9, lower first; anything outside counts as the nearest.
	Class int
	// Cost is the job's size in tokens, which is what fairness counts. Less
	// than 1 counts as 1, so that jobs that cost nothing cannot go on for ever.
	Cost int64
	// Arrived is when the job first came, on the clock of [Queue.Next]. A job
	// that is sent back keeps its Arrived, and with it its place.
	Arrived time.Duration
	// Shared are the keys of the limits the job shares with other tenants. It
	// must be the same for every job of a Group, and is read when the first job
	// of a class and group arrives. Neither it nor the strings are copied.
	Shared []string
	// Value is the caller's. A pointer in it costs no allocation.
	Value any

	lane       *lane // nil: not in the queue
	prev, next *Job  // neighbours in the lane; nil while out
	seq        int64 // push order; 0: never pushed
	turn       int64 // when Next last took it out
	share      int64 // what it adds to its tenant's tag; set by Next
	out        bool  // taken by Next, not yet answered
	aged       bool  // taken by the ageing rule
	first      bool  // taken when nothing else of its lane was out
}

func (j *Job) cost() int64 { return min(max(j.Cost, 1), maxCost) }

// before is the order within a lane.
func (j *Job) before(o *Job) bool {
	return j.Arrived < o.Arrived || j.Arrived == o.Arrived && j.seq < o.seq
}
