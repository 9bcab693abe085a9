package ledger

import (
	"cmp"
	"slices"
)

// lineOracle is the line as one would first write it: a slice of tickets, which is
// searched and sorted for each question. It remembers only what has happened: who is
// in line, the tags of the tenants, what old work may take, who called and who did not
// come. Balances are those of budget, which package ledger_test has an oracle for.
type lineOracle struct {
	now                    int64
	budgets                map[budgetKey]*budget
	open                   map[ID]*record
	tickets                []*placed
	seen                   map[string]int64 // when each process called last
	absent                 map[string]bool  // was found not to have come, and has not called since
	tags                   map[tag]int64
	virtual                [classes]int64 // the largest start granted
	less                   [classes]int64 // what a class had less than its share
	rule, burst, step, seq int64
	state                  LineState
	aged                   int // grants that were overdue
	told                   []turn
}

func newLineOracle() *lineOracle {
	return &lineOracle{
		budgets: map[budgetKey]*budget{}, open: map[ID]*record{}, tags: map[tag]int64{},
		seen: map[string]int64{}, absent: map[string]bool{},
	}
}

// placed is who is in line: a ticket, or a request while it asks.
type placed struct {
	Place
	wants                           []demand
	start, seq, share, arrived, due int64
}

// held is what those in front of somebody need of a limit.
type held struct {
	window, bucket     int64
	goWindow, goBucket int64 // of that what those need who can go now
	claimed            bool  // one of them is short of it
}

func (o *lineOracle) budget(l *Limit) *budget {
	b := o.budgets[keyOf(l)]
	if b == nil {
		b = newBudget(l)
		o.budgets[b.key] = b
	}
	b.adopt(l, 0)
	b.advance(o.now)
	return b
}

// at is when d can be taken beside what is held.
func (o *lineOracle) at(d demand, window, bucket int64) int64 {
	b := o.budgets[d.key]
	return o.now + b.waitIn(d.amount, b.free-window, b.spare-bucket, o.now)
}

// behind is when d can be taken behind those in front: of what they need counts the
// capacity less d at most, or all that those need who can go now. full says that they
// need more than counts, and d has to wait.
func (o *lineOracle) behind(d demand, h *held) (at int64, full bool) {
	b := o.budgets[d.key]
	window, bucket := max(b.limit.Amount-d.amount, h.goWindow, 0), max(b.shape.Burst-d.amount, h.goBucket, 0)
	at = o.at(d, min(h.window, window), min(h.bucket, bucket))
	return at, at > o.now && (h.window > window || b.shape.Burst > 0 && h.bucket > bucket)
}

// cover adds what t needs of the limits in all. It returns when t can start, and
// whether it is the first that is short of each limit that it is short of.
func (o *lineOracle) cover(t *placed, all map[budgetKey]*held) (start int64, next bool) {
	short := map[budgetKey]bool{}
	start, next = o.now, true
	for _, d := range t.wants {
		at := d.ready
		if h := all[d.key]; h != nil {
			at = o.at(d, h.window, h.bucket)
			short[d.key] = at > o.now
			next = next && !(short[d.key] && h.claimed)
			h.claimed = h.claimed || short[d.key]
		}
		start = max(start, at)
	}
	for _, d := range t.wants {
		if h, s := all[d.key], o.budgets[d.key].shape; h != nil {
			l := o.budgets[d.key].limit
			regained := (start-o.now)*l.Amount > d.amount*s.Ticks*s.Tick
			if s.Burst == 0 {
				regained = start-o.now > l.Window.Microseconds()
			}
			if start == o.now || short[d.key] || !regained {
				h.window += d.amount
				h.bucket += min(d.amount, s.Burst)
			}
			if start == o.now {
				h.goWindow += d.amount
				h.goBucket += min(d.amount, s.Burst)
			}
		}
	}
	return start, next
}

// passed says that t is passed over.
func (o *lineOracle) passed(t *placed) bool { return o.absent[t.Process] || o.now > t.due+lateAfter }

// late notes who did not come, of the first who should have, and drops who is gone.
func (o *lineOracle) late() {
	for i, t := range o.sorted(func(t *placed) int64 { return t.due }) {
		switch {
		case i >= lateMost:
		case o.now > t.due+expireAfter:
			o.leave(t)
		case o.now > t.due+lateAfter && o.seen[t.Process] <= t.due:
			o.absent[t.Process] = true
		}
	}
}

// overdue is who goes before all others, if there is one: the oldest of the class that
// has waited longest beyond its time. It may be me, who asks.
func (o *lineOracle) overdue(me *placed) (first *placed) {
	if o.step <= 0 || o.rule <= 0 {
		return nil
	}
	urgent, worst := o.urgent(), int64(-1)
	byAge := o.sorted(func(t *placed) int64 { return t.arrived })
	for c := urgent + 1; c < classes; c++ {
		var oldest *placed
		if i := slices.IndexFunc(byAge, func(t *placed) bool { return t.Class == c && t != me && t.share > 0 && !o.passed(t) }); i >= 0 {
			oldest = byAge[i]
		}
		if me != nil && me.Class == c && me.Ticket && (oldest == nil || me.arrived <= oldest.arrived) {
			oldest = me
		}
		if oldest == nil || o.less[c] <= 0 {
			continue
		}
		if late := o.now - oldest.arrived - int64(c-urgent)*o.step; late > worst {
			first, worst = oldest, late
		}
	}
	return first
}

// urgent is the most urgent class in line.
func (o *lineOracle) urgent() int {
	c := classes
	for _, t := range o.tickets {
		c = min(c, t.Class)
	}
	return c
}

func (o *lineOracle) sorted(by func(*placed) int64) []*placed {
	return slices.SortedFunc(slices.Values(o.tickets), func(a, b *placed) int {
		return cmp.Or(cmp.Compare(by(a), by(b)), cmp.Compare(a.seq, b.seq))
	})
}

// order is the line: first before all others, which go by class, start and seq.
func (o *lineOracle) order(first *placed) []*placed {
	line := o.sorted(func(t *placed) int64 { return t.start })
	slices.SortStableFunc(line, func(a, b *placed) int { return cmp.Compare(a.Class, b.Class) })
	if i := slices.Index(line, first); i >= 0 {
		line = slices.Insert(slices.Delete(line, i, i+1), 0, first)
	}
	return line
}

// hint is when p may go behind those in front of it, the number of the limit that binds,
// and whether somebody in front could have gone for long.
func (o *lineOracle) hint(p, first *placed, all map[budgetKey]*held) (at int64, binds int, inverted bool) {
	at = o.now
	full := func(d demand) bool {
		if h := all[d.key]; h != nil {
			_, full := o.behind(d, h)
			return full
		}
		return false
	}
	far := int64(0)
	for _, t := range o.order(first) {
		if t == p || far > 0 {
			break
		}
		if t != first && o.passed(t) {
			continue
		}
		start, _ := o.cover(t, all)
		inverted = inverted || start == o.now && t.due < o.now-slowAfter
		if slices.ContainsFunc(p.wants, full) {
			far = o.now + farWait
		}
	}
	for i, d := range p.wants {
		ready := d.ready
		if h := all[d.key]; h != nil {
			ready, _ = o.behind(d, h)
		}
		if ready > at {
			at, binds = ready, i
		}
	}
	return max(at, far), binds, inverted
}

// leave takes t out of the line, whose tenant's next turn is sooner then. When nobody
// waits nothing is remembered.
func (o *lineOracle) leave(t *placed) {
	o.tickets = slices.DeleteFunc(o.tickets, func(x *placed) bool { return x == t })
	if t.share > 0 {
		o.tags[tag{t.Class, t.Tenant}] -= t.share
	}
	if !slices.ContainsFunc(o.tickets, func(t *placed) bool { return t.share > 0 }) {
		clear(o.tags)
		o.virtual = [classes]int64{}
	}
}
