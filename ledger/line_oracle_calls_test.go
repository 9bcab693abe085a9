package ledger

import (
	"math"
	"slices"
)

// call makes a call, and says what was decided.
func (o *lineOracle) call(k lineCall) (out []Decision) {
	var limits []*Limit
	if k.reserve != nil || k.settle != nil || k.withdraw != nil {
		o.late()
	}
	for _, r := range k.reserve {
		if r.Place.Process != "" {
			o.seen[r.Place.Process], o.absent[r.Place.Process] = o.now, false
			o.step = r.Place.AgingStep.Microseconds()
		}
	}
	for _, r := range slices.Concat(k.reserve, k.withdraw) {
		for _, c := range r.Charges {
			limits = append(limits, c.Limit)
			o.budget(c.Limit)
		}
	}
	for _, r := range k.reserve {
		d := o.decide(r)
		if d.Outcome == Granted {
			o.open[r.ID] = &record{at: o.now}
			for _, c := range r.Charges {
				b := o.budget(c.Limit)
				o.open[r.ID].parts = append(o.open[r.ID].parts, part{b, c.Amount, b.take(r.ID, c.Amount, o.now)})
			}
		}
		out = append(out, d)
	}
	for _, s := range k.settle {
		for _, f := range s.Final {
			limits = append(limits, f.Limit)
		}
		o.settle(s)
	}
	for _, r := range k.withdraw {
		if i := slices.IndexFunc(o.tickets, func(t *placed) bool { return t.key() == r.Place.key() }); i >= 0 {
			o.leave(o.tickets[i])
		}
	}
	if limits != nil {
		o.tell(limits)
	}
	o.state.Tickets = int64(len(o.tickets))
	return out
}

// decide has the request join the line, and looks how it stands there.
func (o *lineOracle) decide(r Request) Decision {
	var waits []Charge
	var own *Limit
	all, longest := map[budgetKey]*held{}, o.now
	me := o.join(r.Place)
	for _, c := range r.Charges {
		b := o.budget(c.Limit)
		if c.Overdraw {
			continue
		}
		d := demand{key: b.key, amount: c.Amount}
		me.wants, waits, all[b.key] = append(me.wants, d), append(waits, c), &held{}
		at := o.at(d, 0, 0)
		if (c.Limit.Own || me.Process == "" || at > o.now+awayAfter) && at > longest {
			own, longest = c.Limit, at
		}
	}
	if own != nil {
		o.leave(me)
		return Decision{Outcome: Denied, Limit: own, Wait: micros(longest - o.now)}
	}
	if me.Process == "" {
		return Decision{Outcome: Granted}
	}
	first := o.overdue(me)
	at, binds, inverted := o.hint(me, first, all)
	if at == o.now {
		o.granted(me, first == me, inverted)
		return Decision{Outcome: Granted}
	}
	at = min(at, o.now+o.looks())
	me.due = at
	for i, d := range me.wants {
		me.wants[i].ready, _ = o.behind(d, all[d.key])
	}
	if me.Ticket {
		if me.share == 0 { // some in front may have lost their place
			me.start = o.start(me.Place)
		}
		o.charge(me)
	} else {
		o.leave(me)
	}
	return Decision{Outcome: Denied, Limit: waits[binds].Limit, Wait: micros(at - o.now)}
}

// looks is how long anybody waits at most to look, when there are several processes.
func (o *lineOracle) looks() int64 {
	processes := make(map[string]bool)
	for _, t := range o.tickets {
		processes[t.Process] = true
	}
	if len(processes) == 1 {
		return math.MaxInt64 / 2
	}
	return min(max(int64(len(processes))*lookEach, lookLeast), farWait)
}

// join returns the ticket of a place, or a new one at the end of its tenant's.
func (o *lineOracle) join(p Place) *placed {
	i := slices.IndexFunc(o.tickets, func(t *placed) bool { return t.key() == p.key() })
	var me *placed
	if i >= 0 && p.Ticket {
		me = o.tickets[i]
	} else {
		o.seq++
		me = &placed{seq: o.seq, start: o.start(p)}
		if p.Process != "" {
			o.tickets = append(o.tickets, me)
		}
	}
	me.Place, me.wants, me.arrived = p, nil, o.now-p.Waited.Microseconds()
	return me
}

func (o *lineOracle) start(p Place) int64 {
	return max(o.virtual[p.Class], o.tags[tag{p.Class, p.Tenant}])
}

// charge moves the tenant's next turn by what the job costs.
func (o *lineOracle) charge(me *placed) {
	g, share := tag{me.Class, me.Tenant}, shareOf(me.Cost, me.Weight)
	if me.share == 0 {
		o.tags[g] = me.start
	}
	o.tags[g] += share - me.share
	me.share = share
}

// granted counts a grant that is made while somebody is in line.
func (o *lineOracle) granted(me *placed, first, inverted bool) {
	if len(o.tickets) == 1 && me.share == 0 {
		o.leave(me)
		return
	}
	o.charge(me)
	me.share = 0
	o.leave(me)
	o.burst = max(me.Cost, o.burst-(o.burst+255)/256)
	most := o.burst * 100
	for c := range o.less {
		o.less[c] += me.Cost * me.AgedShare
		if c == me.Class {
			o.less[c] -= me.Cost * 100
		}
		o.less[c] = max(min(o.less[c], most), -3*most)
	}
	o.rule += me.Cost * me.AgedShare
	if first {
		o.rule -= me.Cost * 100
		o.aged++
	}
	o.rule = max(min(o.rule, most), -3*most)
	for _, t := range o.tickets {
		if first && t.Class == me.Class {
			me.start = min(me.start, t.start) // the others of its class have not been passed
		}
	}
	if len(o.tickets) > 0 {
		o.virtual[me.Class] = max(o.virtual[me.Class], me.start)
	}
	o.state.Grants++
	if inverted {
		o.state.Inversions++
	}
}

// tell tells those who may go sooner: who fits, and the first on each limit that is
// short of it. Somebody else is to look whether they come.
func (o *lineOracle) tell(limits []*Limit) {
	all := map[budgetKey]*held{}
	for _, l := range limits {
		all[o.budget(l).key] = &held{}
	}
	var walked, next []*placed
	first := o.overdue(nil)
	front := o.order(nil)[:min(len(o.tickets), 5*tellWalk)]
	for _, t := range o.order(first) {
		needs := slices.ContainsFunc(t.wants, func(d demand) bool { return all[d.key] != nil })
		if t != first && (!slices.Contains(front, t) || o.passed(t) || !needs) {
			continue
		}
		if len(walked) == tellWalk {
			break
		}
		walked = append(walked, t)
		if _, isNext := o.cover(t, all); isNext {
			next = append(next, t)
		}
	}
	for _, t := range next {
		if t.due > o.now+tellSooner {
			asked := map[budgetKey]*held{}
			for _, d := range t.wants {
				if all[d.key] != nil {
					asked[d.key] = &held{}
				}
			}
			at, _, _ := o.hint(t, first, asked)
			o.say(t, at)
		}
	}
	for _, t := range next {
		by := max(t.due, o.now) + watchFor
		others := slices.DeleteFunc(slices.Clone(walked), func(w *placed) bool { return w.Process == t.Process })
		if len(others) > 0 && !slices.ContainsFunc(others, func(w *placed) bool { return w.due <= by }) {
			o.say(others[0], by)
		}
	}
}

func (o *lineOracle) say(t *placed, at int64) {
	if at+tellSooner < t.due {
		t.due = at
		o.state.Messages++
		o.told = append(o.told, turn{t.Process, micros(at - o.now)})
	}
}

func (o *lineOracle) settle(s Settlement) {
	for i, p := range o.open[s.ID].parts {
		f := s.Final[i]
		if s.Cancel {
			f.Admitted = 0
		}
		o.budget(f.Limit).settle(s.ID, p, f, o.open[s.ID].at, 0, o.now)
	}
	delete(o.open, s.ID)
	g := tag{s.Class, s.Tenant}
	if f, ok := o.tags[g]; ok && s.Extra > 0 {
		o.tags[g] += shareOf(s.Extra, s.Weight)
	} else if ok && s.Extra < 0 {
		o.tags[g] = max(f-shareOf(-s.Extra, s.Weight), 0)
	}
}
