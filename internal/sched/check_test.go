package sched

import "fmt"

// check looks for what must hold between any two calls.
func (q *Queue) check() error {
	jobs, blocked, charged := 0, 0, map[*limit]int{}
	for i := range q.classes {
		c := &q.classes[i]
		lanes := map[*group]int{}
		sum := struct {
			jobs, competing, idle int
			cost, out             int64
			lengths               map[int]int
		}{lengths: map[int]int{}}
		for tenant, f := range c.flows {
			n, running, out := 0, 0, 0
			for l := f.lanes; l != nil; l = l.sibling {
				if err := l.check(); err != nil {
					return fmt.Errorf("class %d, tenant %s, group %s: %w", i, tenant, l.group.name, err)
				}
				lanes[l.group]++
				n += int(l.waiting + l.out)
				out += int(l.out)
				sum.cost += l.counted
				if l.waiting > 0 {
					sum.lengths[int(l.waiting)]++
				}
				if l.byStart != 0 {
					running++
				}
				if l.limit != nil {
					blocked++
				}
			}
			if f.tenant != tenant || int(f.jobs) != n || int(f.running) != running || int(f.out) != out {
				return fmt.Errorf("class %d, tenant %s: %+v", i, tenant, f)
			}
			if f.out == 0 && f.pending != 0 {
				return fmt.Errorf("class %d, tenant %s: %d pending of no job", i, tenant, f.pending)
			}
			if f.competes() {
				sum.competing++
			}
			if idle := f.lanes == nil; idle != (f.idleAt != 0) || idle && f.finish <= c.virtual {
				return fmt.Errorf("class %d, tenant %s: idle %v, place %d, finish %d of %d", i, tenant, idle, f.idleAt, f.finish, c.virtual)
			} else if idle {
				sum.idle++
			}
			sum.jobs += n
		}
		jobs += sum.jobs
		if c.jobs != sum.jobs || c.competing != sum.competing || c.cost != sum.cost {
			return fmt.Errorf("class %d: %d jobs, %d competing, %d tokens; found %+v", i, c.jobs, c.competing, c.cost, sum)
		}
		if c.idle.len() != sum.idle || sum.idle > 0 && sum.idle > c.competing+q.slack || c.competing == 0 && sum.idle > 0 {
			return fmt.Errorf("class %d: %d idle tags, %d competing, %d found", i, c.idle.len(), c.competing, sum.idle)
		}
		if err := c.idle.check(func(f *flow) key { return key{first: f.finish} }); err != nil {
			return fmt.Errorf("class %d, idle: %w", i, err)
		}
		if err := c.lengths.check(sum.lengths); err != nil {
			return fmt.Errorf("class %d: %w", i, err)
		}
		if len(c.groups) != len(lanes) {
			return fmt.Errorf("class %d: %d groups, %d in use", i, len(c.groups), len(lanes))
		}
		for _, g := range c.groups {
			if g.lanes != lanes[g] || g.byStart.len() != g.byAge.len() {
				return fmt.Errorf("class %d, group %s: %d lanes, found %d", i, g.name, g.lanes, lanes[g])
			}
			if err := g.byStart.check(func(l *lane) key { return key{l.flow.start(), l.head.seq} }); err != nil {
				return fmt.Errorf("class %d, group %s, by start: %w", i, g.name, err)
			}
			if err := g.byAge.check(func(l *lane) key { return key{int64(l.head.Arrived), l.head.seq} }); err != nil {
				return fmt.Errorf("class %d, group %s, by age: %w", i, g.name, err)
			}
			for _, lim := range g.limits {
				charged[lim]++
			}
		}
	}
	if q.jobs != jobs || q.timers.len() != blocked {
		return fmt.Errorf("%d jobs, found %d; %d timers, found %d", q.jobs, jobs, q.timers.len(), blocked)
	}
	if err := q.timers.check(func(l *lane) key { return key{first: int64(l.until)} }); err != nil {
		return fmt.Errorf("timers: %w", err)
	}
	for name, lim := range q.limits {
		if lim.name != name || lim.groups != charged[lim] || lim.groups == 0 && len(lim.parked) == 0 {
			return fmt.Errorf("limit %s: %+v", name, lim)
		}
		if h := lim.holder; h != nil && (h.limit != lim || h.parked) {
			return fmt.Errorf("limit %s: held by a lane that does not know", name)
		}
		for i, l := range lim.parked {
			if l.limit != lim || !l.parked || int(l.parkedAt) != i {
				return fmt.Errorf("limit %s: parked lane %d is elsewhere", name, i)
			}
		}
	}
	return nil
}

func (l *lane) check() error {
	n, cost := 0, int64(0)
	for j := l.head; j != nil; j = j.next {
		if j.lane != l || j.out || j.prev != nil && !j.prev.before(j) || j.next == nil && l.tail != j {
			return fmt.Errorf("job %d of the lane: %+v", n, j)
		}
		n++
		cost += j.cost()
	}
	runs := n > 0 && !l.parked
	counted := int64(0)
	if runs {
		counted = cost
	}
	switch {
	case n != int(l.waiting) || cost != l.cost || counted != l.counted:
		return fmt.Errorf("%d jobs of %d tokens: %+v", n, cost, l)
	case n == 0 && (l.tail != nil || l.out == 0 || l.limit != nil):
		return fmt.Errorf("empty: %+v", l)
	case runs != (l.byStart != 0) || runs != (l.byAge != 0) || (l.limit != nil) != (l.byTime != 0):
		return fmt.Errorf("in the wrong heaps: %+v", l)
	}
	return nil
}

func (h *heap[T]) check(want func(*T) key) error {
	for i, it := range h.items {
		if int(*h.place(it.of)) != i+1 {
			return fmt.Errorf("item %d believes to be at %d", i, *h.place(it.of)-1)
		}
		if it.key != want(it.of) {
			return fmt.Errorf("item %d has key %v, want %v", i, it.key, want(it.of))
		}
		if i > 0 && it.less(h.items[(i-1)/children].key) {
			return fmt.Errorf("item %d is less than its parent", i)
		}
	}
	return nil
}

func (s *lengths) check(want map[int]int) error {
	for n, l := range s.rows {
		found := 0
		var prev *lane
		for ; l != nil; l = l.rowNext {
			if int(l.waiting) != n || l.rowPrev != prev {
				return fmt.Errorf("row %d: %+v", n, l)
			}
			prev = l
			found++
		}
		if found != want[n] || n == len(s.rows)-1 && n > 0 && found == 0 {
			return fmt.Errorf("row %d has %d lanes, want %d", n, found, want[n])
		}
		delete(want, n)
	}
	if len(want) > 0 {
		return fmt.Errorf("no row for %v", want)
	}
	return nil
}
