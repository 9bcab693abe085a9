package sched

// class is one of the ten: its tenants, its virtual time, its lanes by group.
// A class is busy while a tenant competes in it.
type class struct {
	number int
	// virtual is the tag up to which the class has been served. It never goes
	// back.
	virtual int64
	flows   map[string]*flow
	groups  []*group // those with a lane
	// idle are the flows with no job and a finish ahead of virtual.
	idle      heap[flow]
	competing int   // flows with a lane that runs or a job out
	peak      int   // the most flows since the map was made
	jobs      int   // waiting or out
	cost      int64 // of what waits in the lanes that run
	outCost   int64 // of what is out
	lengths   lengths
}

// flow is a tenant in a class.
type flow struct {
	tenant string
	class  *class
	weight int64
	// finish is the tenant's tag: where its next job starts.
	finish int64
	// pending is the sum of the shares of the jobs that are out. The lanes are
	// ordered by finish + pending, as if those had been granted; a denial takes
	// its share out again, in whatever order they come.
	pending int64
	// entered is finish as of when the flow last began to compete. No
	// correction takes finish below it, or an old overestimate would be the
	// credit that an idle tenant does not get.
	entered int64
	lanes   *lane // chained by sibling
	running int32 // lanes in the heaps
	out     int32 // jobs taken by Next and not yet answered
	jobs    int32 // waiting or out
	idleAt  int32 // place in class.idle
	// home is the first lane, in the same memory: most tenants have no other.
	home lane
}

// group holds the lanes of a class that charge the same shared limits. Only
// lanes that run are in the heaps.
type group struct {
	name    string
	class   *class
	limits  []*limit
	lanes   int        // parked ones too
	byStart heap[lane] // start tag of the next job, then its push order
	byAge   heap[lane] // arrival of the oldest job, then its push order
}

func (f *flow) competes() bool { return f.running > 0 || f.out > 0 }

func (f *flow) start() int64 { return f.finish + f.pending }

// enter is called before a flow's first lane runs. What it did not use while it
// had nothing to run is not saved up, and what it used of nobody's is no debt
// beyond its own tag.
func (f *flow) enter() {
	f.class.competing++
	f.finish = max(f.finish, f.class.virtual)
	f.entered = f.finish
	f.class.idle.remove(f)
}

// release counts one job less as out.
func (f *flow) release() {
	f.out--
	if !f.competes() {
		f.class.competing--
	}
}

// retag puts the lanes of a flow where its tag now says.
func (f *flow) retag() {
	for l := f.lanes; l != nil; l = l.sibling {
		if l.byStart != 0 {
			l.group.byStart.set(l, key{f.start(), l.head.seq})
		}
	}
}

// first is the lane of the class with the smallest start tag, and oldest the
// one with the oldest job; both nil when there is none. Groups that charge a
// limit barred in the walk are left out; walk 0 bars nothing.
func (c *class) first(walk int64) (first, oldest *lane) {
	var start, age key
	for _, g := range c.groups {
		if g.byStart.len() == 0 || g.barred(walk) {
			continue
		}
		s, a := &g.byStart.items[0], &g.byAge.items[0]
		if first == nil || s.less(start) {
			first, start = s.of, s.key
		}
		if oldest == nil || a.less(age) {
			oldest, age = a.of, a.key
		}
	}
	return first, oldest
}

func (g *group) barred(walk int64) bool {
	if walk == 0 {
		return false
	}
	for _, lim := range g.limits {
		if lim.walk == walk {
			return true
		}
	}
	return false
}

func (g *group) charges(name string) *limit {
	for _, lim := range g.limits {
		if lim.name == name {
			return lim
		}
	}
	return nil
}
