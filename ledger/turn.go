package ledger

import (
	"math"
	"slices"
	"time"
)

// view is what a limit has left behind those who are in front.
type view struct {
	budget      *budget
	free, spare int64
	// What those in front need who can go now: it counts in full. See floor.
	sure, sureSpare int64
	claimed         bool // by a ticket that is short of it
}

func (b *budget) view() view { return view{budget: b, free: b.free, spare: b.spare} }

func (v *view) fits(amount int64) bool { return v.budget.fitsIn(amount, v.free, v.spare) }

func (v *view) wait(amount, now int64) int64 { return v.budget.waitIn(amount, v.free, v.spare, now) }

func (v *view) hold(amount int64, sure bool) {
	spare := min(amount, v.budget.shape.Burst)
	v.free -= amount
	v.spare -= spare
	if sure {
		v.sure += amount
		v.sureSpare += spare
	}
}

// floor returns the view that a request for amount has. What those in front need
// counts at most up to the capacity minus its own, so that a full limit is never left
// unused, but for those of them who can go now, and will. cut says that more than
// that is needed.
func (v view) floor(amount int64) (w view, cut bool) {
	b := v.budget
	free := b.free - max(b.amount-amount, v.sure)
	spare := b.spare - max(b.shape.Burst-min(amount, b.shape.Burst), v.sureSpare)
	cut = v.free < free || b.window != nil && b.shape.Burst > 0 && v.spare < spare
	w.budget, w.free, w.spare = b, max(v.free, free), max(v.spare, spare)
	return w, cut
}

// back is how long the limit takes at most to gain an amount again: a window gives
// it back when it has passed, and a lease that nobody renews has ended by then.
func (b *budget) back(amount int64) float64 {
	if b.window == nil || b.shape.Burst == 0 || b.amount == 0 {
		return float64(b.limit.Window.Microseconds())
	}
	return float64(amount) * float64(b.shape.Ticks) / float64(b.amount) * float64(b.shape.Tick)
}

// cover sets aside what a ticket in front needs of the limits in views. One that
// fits everywhere is covered. One that does not holds its demand on the limits that
// it is short of, and on the others only if it can start no later than those need to
// gain that demand again. start is when it can start; behind says that a ticket in
// front has claimed one of the limits that it is short of, as it does now.
func (t *ticket) cover(views []view, now int64) (start int64, behind bool) {
	var at [MaxCharges]*view
	var short [MaxCharges]bool
	start = now
	for i, d := range t.demand {
		v := find(views, d.key)
		if at[i] = v; v == nil {
			start = max(start, d.ready)
		} else if !v.fits(d.amount) {
			start = max(start, now+v.wait(d.amount, now))
			short[i] = true
			behind = behind || v.claimed
			v.claimed = true
		}
	}
	for i, d := range t.demand {
		v := at[i]
		if v != nil && (start == now || short[i] || float64(start-now) <= v.budget.back(d.amount)) {
			v.hold(d.amount, start == now)
		}
	}
	return start, behind
}

func find(views []view, key budgetKey) *view {
	for i := range views {
		if views[i].budget.key == key {
			return &views[i]
		}
	}
	return nil
}

// queue decides a request that stands in the line.
func (m *Memory) queue(r *Request, budgets *[MaxCharges]*budget, now int64) Decision {
	x, p := &m.line, &r.Place
	mine := x.tickets[p.key()]

	// Who is short of a limit that is its tenant's own, or that is long in coming back,
	// holds nothing, and is in no line.
	var own *Limit
	longest, closed := int64(0), false
	var room [MaxCharges]view
	var amounts [MaxCharges]int64
	views, charges := room[:0], m.waiting[:0]
	for i, c := range r.Charges {
		if c.Overdraw {
			continue
		}
		amounts[len(views)] = c.Amount
		views, charges = append(views, budgets[i].view()), append(charges, c)
		if w := budgets[i].wait(c.Amount, now); (c.Limit.Own || w > awayAfter) && w > longest {
			own, longest, closed = c.Limit, w, budgets[i].opens > 0
		}
	}
	m.waiting = charges
	if own != nil {
		if mine != nil && p.Ticket {
			x.drop(mine, false)
			x.rest()
		}
		return Decision{Outcome: Denied, Limit: own, Wait: micros(longest), Closed: closed}
	}

	start, seq := x.startOf(tag{p.Class, p.Tenant}), int64(math.MaxInt64)
	if mine != nil && p.Ticket {
		start, seq = mine.start, mine.seq
	}
	first, aged := x.overdue(p, now)
	inverted, far := false, false
	if !aged {
		if !p.Ticket {
			mine = nil
		}
		inverted, far = m.ahead(p.Class, start, seq, amounts, views, first, mine, now)
	}
	fits := true
	for i, c := range charges {
		views[i], _ = views[i].floor(c.Amount)
		fits = fits && views[i].fits(c.Amount)
	}
	if fits {
		m.granted(p, mine, start, aged, inverted)
		return m.take(r, budgets, now)
	}
	d := Decision{Outcome: Denied}
	demands := make([]demand, len(charges))
	for i, c := range charges {
		w := views[i].wait(c.Amount, now)
		demands[i] = demand{views[i].budget.key, c.Amount, now + w}
		if w > longest {
			d.Limit, longest, d.Closed = c.Limit, w, views[i].budget.opens > 0
		}
	}
	longest = x.hint(p.Process, longest, far, d.Closed)
	d.Wait = micros(longest)
	if p.Ticket {
		x.put(p, demands, now+longest, now)
	}
	return d
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// ahead covers those in front of a place, which wants the amounts of the views. It
// reports whether one of them that fits has been told long ago, and whether there are
// more than can be reckoned.
func (m *Memory) ahead(class int, start, seq int64, amounts [MaxCharges]int64, views []view, first, mine *ticket, now int64) (inverted, far bool) {
	x := &m.line
	// cover reports whether the request needs to look no further: a limit is cut,
	// and does not fit.
	cover := func(t *ticket) bool {
		if at, _ := t.cover(views, now); at == now && t.due < now-slowAfter {
			inverted = true
		}
		for i := range views {
			if w, cut := views[i].floor(amounts[i]); cut && !w.fits(amounts[i]) {
				return true
			}
		}
		return false
	}
	if first != nil && first != mine && cover(first) {
		return inverted, true
	}
	for _, t := range x.order {
		if !t.before(class, start, seq) {
			break
		}
		if t == mine || t == first || t.passed(now) {
			continue
		}
		if cover(t) {
			return inverted, true
		}
	}
	return inverted, false
}

// granted keeps the line after a request was granted.
func (m *Memory) granted(p *Place, mine *ticket, start int64, aged, inverted bool) {
	x := &m.line
	if len(x.order) == 0 {
		return
	}
	share := shareOf(p.Cost, p.Weight)
	if mine != nil && p.Ticket {
		x.finish[mine.tag] += share - mine.share
		x.drop(mine, true)
	} else {
		x.finish[tag{p.Class, p.Tenant}] = start + share
	}
	x.granted(p, start, aged)
	if inverted {
		x.state.Inversions++
	}
	x.rest()
}

// tell tells the processes whose tickets are next, and may go sooner than they were
// told: those that fit, and on each limit the first that does not. A ticket is told
// only what it would hear if it asked, so that it does not ask in vain.
func (m *Memory) tell(now int64) {
	x := &m.line
	if len(x.order) == 0 {
		return
	}
	views := m.views[:0]
	for _, b := range m.touched {
		b.advance(now)
		views = append(views, b.view())
	}
	m.views = views
	first, _ := x.overdue(nil, now)
	walked, next := m.walked[:0], m.next[:0]
	claim := func(t *ticket) {
		walked = append(walked, t)
		m.hears(t, now)
		if _, behind := t.cover(views, now); !behind {
			next = append(next, t)
		}
	}
	if first != nil {
		claim(first)
	}
	for _, t := range x.order[:min(len(x.order), 5*tellWalk)] {
		if len(walked) == tellWalk {
			break
		}
		if t != first && !t.passed(now) && t.needs(views) {
			claim(t)
		}
	}
	m.walked, m.next = walked, next
	for _, t := range next {
		if t.due > now+tellSooner {
			m.hears(t, now)
			m.say(t, now+m.judge(t, first, now), now)
		}
	}
	for _, t := range next {
		m.watched(t, now)
	}
}

// hears has the limits as closed as they are to the ticket's process.
func (m *Memory) hears(t *ticket, now int64) {
	for _, b := range m.touched {
		b.opens = b.notes.opening(t.key.process, false, now)
	}
}

// needs says whether a ticket needs one of the limits in views.
func (t *ticket) needs(views []view) bool {
	return slices.ContainsFunc(t.demand, func(d demand) bool { return find(views, d.key) != nil })
}

// watched has another process look when a ticket has not come in its turn: those
// further behind sleep for long, and nobody would notice.
func (m *Memory) watched(t *ticket, now int64) {
	var other *ticket
	by := max(t.due, now) + watchFor
	for _, o := range m.walked {
		if o.process == t.process {
			continue
		}
		if o.due <= by {
			return
		}
		if other == nil {
			other = o
		}
	}
	if other != nil {
		m.say(other, by, now)
	}
}

// say tells a ticket's process when it may go, if that is sooner than it knows.
func (m *Memory) say(t *ticket, at, now int64) {
	if at+tellSooner < t.due {
		m.line.due = remove(m.line.due, t, byDue)
		t.due = at
		m.line.due = insert(m.line.due, t, byDue)
		m.line.state.Messages++
		m.told = append(m.told, turn{t.key.process, micros(at - now)})
	}
}

// judge is how long a ticket would be told to wait if it asked.
func (m *Memory) judge(t, first *ticket, now int64) int64 {
	var room [MaxCharges]view
	var amounts [MaxCharges]int64
	views, longest := room[:0], int64(0)
	for _, d := range t.demand {
		if v := find(m.views, d.key); v != nil {
			amounts[len(views)] = d.amount
			views = append(views, v.budget.view())
		} else {
			longest = max(longest, d.ready-now)
		}
	}
	far := false
	if t != first {
		_, far = m.ahead(t.tag.class, t.start, t.seq, amounts, views, first, t, now)
	}
	for i := range views {
		v, _ := views[i].floor(amounts[i])
		longest = max(longest, v.wait(amounts[i], now))
	}
	if far {
		longest = max(longest, farWait)
	}
	return longest
}

// turn is what a process is told.
type turn struct {
	process string
	in      time.Duration
}
