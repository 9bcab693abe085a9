package sched

const (
	// shrinkAbove is the size over which an emptied map is made anew, because
	// Go maps keep the room of their largest size.
	shrinkAbove = 4096
	// maxSpare is how many flows are kept for reuse. They are few, so that the
	// memory of a flood is given back.
	maxSpare = 1024
)

// flow finds or makes the tenant's flow. A new one starts at the virtual time.
func (q *Queue) flow(c *class, tenant string) *flow {
	if f := c.flows[tenant]; f != nil {
		return f
	}
	f := q.newFlow()
	f.tenant, f.class, f.finish = tenant, c, c.virtual
	c.flows[tenant] = f
	c.peak = max(c.peak, len(c.flows))
	return f
}

func (q *Queue) dropFlow(f *flow) {
	c := f.class
	delete(c.flows, f.tenant)
	if len(c.flows) == 0 && c.peak > shrinkAbove {
		c.flows, c.peak = make(map[string]*flow), 0
	}
	if len(q.spare) < maxSpare {
		*f = flow{}
		q.spare = append(q.spare, f)
	}
}

// newFlow reuses a spare one, so that a tenant that comes and goes with each of
// its jobs costs no allocation.
func (q *Queue) newFlow() *flow {
	n := len(q.spare) - 1
	if n < 0 {
		return new(flow)
	}
	f := q.spare[n]
	q.spare = q.spare[:n]
	return f
}

// lane finds or makes the lane of the flow that j belongs to.
func (q *Queue) lane(f *flow, j *Job) *lane {
	for l := f.lanes; l != nil; l = l.sibling {
		if l.group.name == j.Group {
			return l
		}
	}
	l := &f.home
	if l.flow != nil {
		l = new(lane)
	}
	l.flow, l.group = f, q.group(f.class, j)
	l.group.lanes++
	l.sibling, f.lanes = f.lanes, l
	return l
}

func (q *Queue) dropLane(l *lane) {
	for p := &l.flow.lanes; ; p = &(*p).sibling {
		if *p == l {
			*p = l.sibling
			break
		}
	}
	if l.group.lanes--; l.group.lanes == 0 {
		q.dropGroup(l.group)
	}
	*l = lane{} // home is used again
}

// group finds or makes the class's group that j belongs to. There are as many
// as models in use, so that a search is cheaper than a map.
func (q *Queue) group(c *class, j *Job) *group {
	for _, g := range c.groups {
		if g.name == j.Group {
			return g
		}
	}
	g := &group{
		name:    j.Group,
		class:   c,
		byStart: heap[lane]{place: func(l *lane) *int32 { return &l.byStart }},
		byAge:   heap[lane]{place: func(l *lane) *int32 { return &l.byAge }},
	}
	for _, name := range j.Shared {
		lim := q.limit(name)
		lim.groups++
		g.limits = append(g.limits, lim)
	}
	c.groups = append(c.groups, g)
	return g
}

func (q *Queue) dropGroup(g *group) {
	for i, o := range g.class.groups {
		if o == g {
			last := len(g.class.groups) - 1
			g.class.groups[i] = g.class.groups[last]
			g.class.groups[last] = nil
			g.class.groups = g.class.groups[:last]
			break
		}
	}
	for _, lim := range g.limits {
		lim.groups--
		q.dropLimit(lim)
	}
}

// limit finds or makes the record of a limit.
func (q *Queue) limit(name string) *limit {
	lim := q.limits[name]
	if lim == nil {
		lim = &limit{name: name}
		q.limits[name] = lim
	}
	return lim
}

// dropLimit forgets a limit that no group charges and for which no lane waits.
func (q *Queue) dropLimit(lim *limit) {
	if lim.groups == 0 && len(lim.parked) == 0 && lim.tickets == [Classes]int32{} {
		delete(q.limits, lim.name)
	}
}
