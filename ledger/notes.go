package ledger

import (
	"context"
	"math"
	"slices"
)

// notes are what a budget has heard of the provider. Times are microseconds.
type notes struct {
	at     int64 // of the last observation
	amount int64 // as told, or 0
	margin int64 // in thousandths

	// moved is when the margin was last changed.
	moved int64
	// The limit is closed until shut, and then opens to one process after the other
	// within span, in the order in which they asked.
	shut, span int64
	asked      []string

	// What the provider's bucket lacked when it took the call that was granted at
	// seen, and what had been charged by then; debt is how much more than that it
	// lacks, of what was not filed as the charges of others.
	lacked, seen, charged, debt int64
}

const (
	leastMargin = 50
	// A refusal takes lessMargin; after quietWindows without one each window brings
	// moreMargin back.
	lessMargin, moreMargin = 20, 10
	quietWindows           = 10
	// notesFor is how long notes are kept after the last observation.
	notesFor = int64(3600e6)
	// askedMost is to how many processes a closed limit opens at times of their own.
	askedMost = 64
)

// known returns the notes that still count, or nil.
func (b *budget) known(now int64) *notes {
	if n := b.notes; n != nil && now > max(n.at+notesFor, n.shut+n.span) {
		b.notes, b.limit = nil, nil // its shape is another one
	}
	return b.notes
}

func (n *notes) inUse() int64 {
	if n == nil {
		return FullMargin
	}
	return n.margin
}

// scaled is how much of an amount is in use.
func (n *notes) scaled(amount int64) int64 {
	m := n.inUse()
	return amount/FullMargin*m + amount%FullMargin*m/FullMargin
}

// opening is when the limit opens to a process, or 0 if it is open. A process that
// asks for the first time while it is closed gets its turn, if it really asks.
func (n *notes) opening(process string, asks bool, now int64) int64 {
	if n == nil || n.shut+n.span <= now {
		return 0
	}
	i := slices.Index(n.asked, process)
	if i < 0 {
		i = len(n.asked)
		if asks && i < askedMost {
			n.asked = append(n.asked, process)
		}
	}
	at := n.shut + n.span*turnOf(i)/askedMost
	if at <= now {
		return 0
	}
	return at
}

// turnOf spreads the processes from 0 to askedMost, however many they are: the first
// at the begin, the second at the end, and each further one in the middle of a gap.
func turnOf(i int) int64 {
	if i == 0 {
		return 0
	}
	if i == 1 || i >= askedMost {
		return askedMost
	}
	turn := 0
	for n, bit := i-1, askedMost/2; bit > 0; n, bit = n/2, bit/2 {
		turn += n % 2 * bit
	}
	return int64(turn)
}

// observe takes notice of an observation. The budget is as of now.
func (b *budget) observe(o *Observation, now int64) Standing {
	n := b.known(now)
	if n == nil {
		n = &notes{margin: FullMargin, seen: -1}
		b.notes = n
	}
	n.at = now
	if o.Amount > 0 {
		n.amount = o.Amount
	}
	granted := now - o.Ago.Microseconds()
	others := int64(0)
	if o.Used >= 0 {
		others = b.others(n, o, granted, now)
		if others > 0 {
			b.window.add(leaves(now, b.shape.Guard, &b.shape), others)
			b.now = b.now.take(others, now, &b.shape)
			b.bucket = b.now
			b.charged += others
			n.charged += others
		}
	}
	b.judge(n, o, granted, now)
	if o.Close > 0 {
		if n.shut+n.span <= now {
			n.asked = nil
		}
		if until := now + o.Close.Microseconds(); until > n.shut {
			n.shut, n.span = until, o.Close.Microseconds()/4
		}
	}
	// Its shape is another one from now on.
	b.bucket, b.limit = b.now, nil
	b.adopt(o.Limit, b.guard)
	b.advance(now)
	return Standing{Amount: n.amount, Margin: n.margin, Used: b.window.used, Others: others}
}

// later is what was charged by calls that were granted after a time.
func (b *budget) later(at int64) int64 {
	s := &b.shape
	sum := int64(0)
	for i := max(leaves(at, s.Guard, s), b.window.gone) + 1; i <= b.window.gone+ringSize-1; i++ {
		sum += b.window.slots[i%ringSize]
	}
	return sum
}

// others is what others than this fleet have been charged beyond what is filed. Calls
// of our own that the provider may not have counted yet are never taken for it, so it
// is mostly too little, by what is on its way; it comes closest when that is least.
func (b *budget) others(n *notes, o *Observation, granted, now int64) int64 {
	s := &b.shape
	amount := o.Limit.Amount
	if n.amount > 0 {
		amount = n.amount
	}
	// What a window has counted: ours as of the grant, for calls sent a little later
	// may have come sooner; and what has left since then.
	more := int64(0)
	if ago := now - granted; ago <= s.Window/8 {
		more = o.Used - (b.window.used - b.later(granted+s.Guard)) - gained(amount, ago, s)
	}
	if !o.Bucket {
		return max(more, 0)
	}
	// What a bucket lacks says nothing of how much ran through it; from one answer to
	// the next it does.
	charged := b.charged - b.later(granted)
	if n.seen >= 0 && granted > n.seen && granted-n.seen < s.Window {
		n.debt += o.Used - max(n.lacked-gained(amount, granted-n.seen, s), 0) - (charged - n.charged)
		n.debt = max(n.debt, -max(s.Burst, amount/32))
	}
	if granted > n.seen {
		n.lacked, n.seen, n.charged = o.Used, granted, charged
	}
	more = max(more, n.debt, 0)
	n.debt = min(n.debt, 0)
	return more
}

// gained is what a limit of that amount gains in a time, as Redis reckons it: in doubles.
func gained(amount, in int64, s *Shape) int64 {
	return int64(math.Floor(float64(amount) * float64(in) / float64(s.Window)))
}

// judge moves the margin.
func (b *budget) judge(n *notes, o *Observation, granted, now int64) {
	s := &b.shape
	switch {
	case o.Slower > 0 && granted > n.moved:
		n.margin, n.moved = max(n.margin*int64(100-o.Slower)/100, leastMargin), now
	case o.Refused && granted > n.moved:
		less := n.margin - lessMargin
		if o.Used < 0 && n.amount == 0 && o.Limit.Amount > 0 {
			// Nothing tells how large the limit is, but this: so much was too much.
			seen := b.window.used - b.later(granted)
			less = min(less, max(seen*FullMargin/o.Limit.Amount-lessMargin/2, n.margin/2))
		}
		n.margin, n.moved = max(less, leastMargin), now
	case n.margin < FullMargin && now-n.moved > quietWindows*s.Window:
		n.margin = min(n.margin+moreMargin, FullMargin)
		n.moved = now - (quietWindows-1)*s.Window
	}
}

// Observe implements Feedback. It fails only for a bad observation.
func (m *Memory) Observe(_ context.Context, batch []Observation) ([]Standing, error) {
	if err := CheckObservations(batch); err != nil {
		return nil, err
	}
	out := make([]Standing, len(batch))
	m.mu.Lock()
	now := m.begin()
	for i := range batch {
		out[i] = m.budget(batch[i].Limit, now).observe(&batch[i], now)
	}
	m.end(now)
	return out, nil
}
