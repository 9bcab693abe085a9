package ledger_test

import (
	"slices"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// oracle is the ledger as one would first write it: a list of all charges ever made,
// and each question answered by going through the list. Its limits do not change, and
// their windows are short enough for a bucket that ticks in microseconds.
type oracle struct {
	charges []*charge
	buckets map[*ledger.Limit]*fluid
	open    map[ledger.ID]bool
	closed  map[ledger.ID]bool
}

// charge is one charge; a lease is one of amount 1.
type charge struct {
	id     ledger.ID
	limit  *ledger.Limit
	amount int64
	at     int64 // when it was granted
	leaves int64 // the time at which it leaves, or the lease ends
	most   int64 // what was reserved
	late   bool
}

// fluid is a bucket in parts of a unit, as many as the bucket's ticks.
type fluid struct{ at, parts int64 }

func newOracle() *oracle {
	return &oracle{buckets: map[*ledger.Limit]*fluid{}, open: map[ledger.ID]bool{}, closed: map[ledger.ID]bool{}}
}

// roundUp is the end of the slot that t is in.
func roundUp(t, slot int64) int64 { return (t + slot - 1) / slot * slot }

func (o *oracle) used(l *ledger.Limit, now int64) (sum int64) {
	for _, c := range o.charges {
		if c.limit == l && c.leaves > now {
			sum += c.amount
		}
	}
	return sum
}

func (o *oracle) parts(l *ledger.Limit, now int64) int64 {
	s := l.Shape(0)
	b := o.buckets[l]
	if b == nil {
		return s.Burst * s.Ticks
	}
	return min(b.parts+(now-b.at)*l.Amount, s.Burst*s.Ticks)
}

func (o *oracle) pour(l *ledger.Limit, amount, now int64) {
	if s := l.Shape(0); s.Burst > 0 {
		o.buckets[l] = &fluid{now, min(o.parts(l, now)-amount*s.Ticks, s.Burst*s.Ticks)}
	}
}

// held is the demand of requests that were denied earlier in the batch.
type held struct{ window, bucket map[*ledger.Limit]int64 }

func (o *oracle) reserve(batch []ledger.Request, now int64) []ledger.Decision {
	var out []ledger.Decision
	h := held{map[*ledger.Limit]int64{}, map[*ledger.Limit]int64{}}
	for _, r := range batch {
		out = append(out, o.decide(r, h, now))
	}
	return out
}

func (o *oracle) decide(r ledger.Request, h held, now int64) ledger.Decision {
	if o.open[r.ID] {
		return ledger.Decision{Outcome: ledger.Granted}
	}
	if o.closed[r.ID] {
		return ledger.Decision{Outcome: ledger.Refused}
	}
	for _, c := range r.Charges {
		if c.Limit.Amount == 0 || c.Amount > c.Limit.Largest() {
			return ledger.Decision{Outcome: ledger.TooLarge, Limit: c.Limit}
		}
	}
	d := ledger.Decision{Outcome: ledger.Granted}
	var short []ledger.Charge
	for _, c := range r.Charges {
		if wait := time.Duration(o.wait(c, h, now)) * time.Microsecond; wait > 0 {
			short = append(short, c)
			if wait > d.Wait {
				d = ledger.Decision{Outcome: ledger.Denied, Limit: c.Limit, Wait: wait}
			}
		}
	}
	if d.Outcome == ledger.Denied {
		for _, c := range short {
			h.window[c.Limit] += c.Amount
			h.bucket[c.Limit] += min(c.Amount, c.Limit.Shape(0).Burst)
		}
		return d
	}
	o.open[r.ID] = true
	for _, c := range r.Charges {
		s := c.Limit.Shape(0)
		leaves := now + s.Window
		if c.Limit.Unit != ledger.InFlight {
			leaves = roundUp(leaves+s.Guard, s.Slot)
			o.pour(c.Limit, c.Amount, now)
		}
		o.charges = append(o.charges, &charge{r.ID, c.Limit, c.Amount, now, leaves, c.Amount, false})
	}
	return d
}

// wait tries one time after the other at which something leaves.
func (o *oracle) wait(c ledger.Charge, h held, now int64) (wait int64) {
	s := c.Limit.Shape(0)
	times := []int64{now}
	for _, other := range o.charges {
		if other.limit == c.Limit && other.leaves > now {
			times = append(times, other.leaves)
		}
	}
	slices.Sort(times)
	fits := func(t int64) bool {
		return o.used(c.Limit, t)+h.window[c.Limit]+c.Amount <= c.Limit.Amount
	}
	switch i := slices.IndexFunc(times, fits); {
	case c.Limit.Unit == ledger.InFlight:
		if i != 0 {
			wait = min(append(times, now+s.Window)[1]-now, s.Window)
		}
	case i >= 0:
		wait = times[i] - now
	default:
		// What is held keeps the whole window full: until the ring of slots ends.
		wait = (now/s.Slot+272)*s.Slot - now
	}
	if s.Burst > 0 {
		need := (h.bucket[c.Limit] + min(c.Amount, s.Burst)) * s.Ticks
		if short := need - o.parts(c.Limit, now); short > 0 {
			wait = max(wait, (short+c.Limit.Amount-1)/c.Limit.Amount)
		}
	}
	return wait
}

func (o *oracle) settle(st ledger.Settlement, now int64) {
	if !o.open[st.ID] {
		o.closed[st.ID] = o.closed[st.ID] || st.Cancel
		return
	}
	delete(o.open, st.ID)
	o.closed[st.ID] = true
	n := 0
	for _, c := range slices.Clone(o.charges) {
		if c.id != st.ID || c.late {
			continue
		}
		f := st.Final[n]
		n++
		if st.Cancel {
			f.Admitted, f.Late = 0, 0
		}
		s := c.limit.Shape(0)
		if c.limit.Unit == ledger.InFlight {
			c.leaves = now
			continue
		}
		if c.leaves > now {
			o.pour(c.limit, f.Admitted-c.amount, now)
			c.amount = f.Admitted
			if st.Counted > 0 {
				c.leaves = min(c.leaves, roundUp(c.at+st.Counted.Microseconds()+s.Window, s.Slot))
			}
		}
		if f.Late > 0 {
			o.pour(c.limit, f.Late, now)
			o.charges = append(o.charges, &charge{st.ID, c.limit, f.Late, now, roundUp(now+s.Window, s.Slot), 0, true})
		}
	}
}

func (o *oracle) renew(l ledger.Lease, now int64) {
	for _, c := range o.charges {
		if c.id == l.ID && c.limit == l.Limit && o.open[l.ID] {
			c.leaves = now + l.Limit.Shape(0).Window
		}
	}
}

func (o *oracle) balance(l *ledger.Limit, now int64) ledger.Balance {
	used := o.used(l, now)
	b := ledger.Balance{Limit: l, Used: used, Available: l.Amount - used, Margin: ledger.FullMargin}
	if s := l.Shape(0); s.Burst > 0 {
		level := o.parts(l, now)
		whole := level / s.Ticks
		if level < 0 && level%s.Ticks != 0 {
			whole--
		}
		b.Available = min(b.Available, whole)
	}
	return b
}

// granted is what of the limit was granted within one window up to now, after settling
// and without overuse.
func (o *oracle) granted(l *ledger.Limit, now int64) (sum int64) {
	for _, c := range o.charges {
		if c.limit == l && l.Unit != ledger.InFlight && !c.late && c.at > now-l.Shape(0).Window {
			sum += min(c.amount, c.most)
		}
	}
	return sum
}
