package sched

// A job counts from Push until it is granted or removed: while it is out it
// still holds its place, because a denial brings it back. Parked jobs count.

// Len is the number of jobs in the queue.
func (q *Queue) Len() int { return q.jobs }

// LenClass is the number of jobs of one class.
func (q *Queue) LenClass(class int) int { return q.classes[clamp(class)].jobs }

// LenTenant is the number of jobs of one tenant, over all classes.
func (q *Queue) LenTenant(tenant string) int {
	n := 0
	for i := range q.classes {
		if f := q.classes[i].flows[tenant]; f != nil {
			n += int(f.jobs)
		}
	}
	return n
}

// Backlog is what waits in the classes 0 to class, in tokens, with what is out
// and without parked lanes: a bound on [Queue.Ahead] that costs next to nothing.
func (q *Queue) Backlog(class int) int64 {
	var sum int64
	for i := range clamp(class) + 1 {
		sum += q.classes[i].cost + q.classes[i].outCost
	}
	return sum
}

// sampled is how many lanes of a group Ahead looks at.
const sampled = 64

// Ahead is the backlog, in tokens, that a job of the tenant would wait for if it
// were pushed now and nothing more came: all of the more urgent classes, what is
// out, the tenant's own jobs, and of every other tenant what has smaller tags.
// Other tenants' parked lanes do not count. It is exact to about one job per
// lane for up to 64 lanes in a group, and an estimate from 64 of them, evenly
// spread, beyond that, so that its cost does not depend on the backlog.
func (q *Queue) Ahead(class int, tenant string) int64 {
	class = clamp(class)
	ahead := int64(0)
	if class > 0 {
		ahead = q.Backlog(class - 1)
	}
	c := &q.classes[class]
	f := c.flows[tenant]
	start, own := c.virtual, int64(0)
	if f != nil {
		start = f.start()
		if !f.competes() {
			start = max(start, c.virtual)
		}
		for l := f.lanes; l != nil; l = l.sibling {
			own += l.cost
		}
		start += tags(own, f.weight)
	}
	return ahead + own + c.outCost + c.before(start, f)
}

// before is about how much of what waits in the lanes of the class, except those
// of one flow, goes before a new job that starts at the given tag.
func (c *class) before(start int64, except *flow) int64 {
	var total int64
	for _, g := range c.groups {
		n := g.byStart.len()
		step := max(n/sampled, 1)
		var sum, seen int64
		for i := 0; i < n; i += step {
			it := g.byStart.items[i]
			seen++
			if it.first <= start && it.of.flow != except {
				sum += it.of.upTo(start - it.first)
			}
		}
		if seen < int64(n) {
			sum = sum / seen * int64(n)
		}
		total += sum
	}
	return total
}

// upTo is what the lane is served while its tenant's tag moves by gap: its share
// of what the tenant is served, and the job that goes beyond.
func (l *lane) upTo(gap int64) int64 {
	f := l.flow
	if gap/scale >= l.cost/f.weight+1 {
		return l.cost
	}
	return min(l.cost, gap*f.weight/scale/int64(f.running)+l.head.cost())
}
