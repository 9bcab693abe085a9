package sched

// credit is how much overdue work may take before more urgent work, in
// hundredths of a token. Every grant adds its AgedShare, and a grant made by the
// ageing rule takes its cost, so that over any time such grants are at most
// AgedShare of all plus what the credit had at the start. That is at most one
// burst: the cost of the largest job granted lately. The last job may overdraw
// it.
type credit struct {
	percent int64 // AgedShare
	balance int64
	pending int64 // what the jobs that are out would change
	burst   int64 // tokens
}

// any reports whether overdue work may go, counting jobs that are out as
// granted.
func (c *credit) any() bool { return c.balance+c.pending > 0 }

// of is what granting j changes.
func (c *credit) of(j *Job) int64 {
	if j.aged {
		return j.cost() * (c.percent - 100)
	}
	return j.cost() * c.percent
}

// grant counts j. Burst forgets: without a job as large it halves in about 180
// grants.
func (c *credit) grant(j *Job) {
	c.burst = max(j.cost(), c.burst-(c.burst+255)/256)
	c.balance = min(c.balance+c.of(j), c.burst*100)
}
