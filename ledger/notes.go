package ledger

import (
	"cmp"
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

	// others is what others have in the provider's window; run is what would make it
	// another number, if it lasts.
	others int64
	run    run
	trend  trend
	// gone is what had left our window at some times, the oldest first: what has left
	// since then was in the provider's.
	gone []sample
	// What the provider's bucket lacked when it took the call that was granted at
	// seen, and what had been charged by then; debt is how much more than that it
	// lacks, of what was not filed as the charges of others.
	lacked, seen, charged, debt int64
}

// run is a number of observations in a row that were all above or all below: up is 1 or
// -1, times how many there were since when, and mild the one that was least so.
type run struct{ up, times, since, mild int64 }

// trend is how quickly others' traffic grows: they had base in the window at a time, and
// slope more in each window.
type trend struct{ base, at, slope int64 }

// sample is the sum of all that had ever left the window at a time.
type sample struct{ at, left int64 }

const (
	leastMargin = 50
	// A refusal takes lessMargin; after quietWindows without one each window brings
	// moreMargin back.
	lessMargin, moreMargin = 20, 10
	// Of a limit that is never told the first refusal leaves seenMargin of what is used,
	// and each further one takes unknownMargin.
	seenMargin, unknownMargin = 800, 50
	// What others are seen to have is a little old, and grows by so many parts.
	moreForOthers = 12
	// How quickly they grow shows over so large a part of a window.
	trendOver = 16
	// Others who have so large a part of the limit more than was known explain a refusal.
	explains     = 50
	quietWindows = 10
	// Refusals within so large a part of a window after the last one do not count.
	lessOften = 16
	// Samples are so large a part of a window apart, and so many are kept.
	sampleOver, samples = 128, 32
	// notesFor is how long notes are kept after the last observation.
	notesFor = int64(3600e6)
	// askedMost is to how many processes a closed limit opens at times of their own.
	askedMost = 64
)

// known returns the notes that still count, or nil.
func (b *budget) known(now int64) *notes {
	if n := b.notes; n != nil && now > max(n.at+notesFor, n.shut+n.span) {
		b.notes, b.limit = nil, nil // its shape is another one
	} else if n != nil && n.others > 0 && now > n.at+b.shape.Window {
		n.others, b.limit = 0, nil
	}
	return b.notes
}

func (n *notes) inUse() int64 {
	if n == nil {
		return FullMargin
	}
	return n.margin
}

// scaled is how much of an amount is in use, by us.
func (n *notes) scaled(amount int64) int64 {
	if n == nil {
		return amount
	}
	return max(amount/FullMargin*n.margin+amount%FullMargin*n.margin/FullMargin-n.others, 0)
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
		if amount := cmp.Or(n.amount, o.Limit.Amount); o.Bucket {
			others = b.ofBucket(n, o, amount, granted, now)
		} else {
			n.follow(b.beyond(o, amount, granted, now), granted, now, b.shape.Window)
			n.sample(now, b.left(), b.shape.Window)
			others = n.others
		}
	}
	if !o.Refused || !b.explain(n, o, granted, now) {
		b.judge(n, o, granted, now)
	}
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
	return Standing{Amount: n.amount, Margin: n.margin, Used: b.window.used, Others: others, Unsure: n.run.times > 0}
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

// beyond is what the provider's window held beyond ours when it counted the call: ours
// are what was granted by then, and had not left there. A charge leaves ours later than
// the provider's, by about what the call took. Negative: nobody can say.
func (b *budget) beyond(o *Observation, amount, granted, now int64) int64 {
	s := &b.shape
	ago := now - granted
	ours, known := b.leftSince(granted + min(ago, s.Guard))
	if !known {
		if ago > s.Window/8 {
			return -1
		}
		ours = gained(amount, max(ago-s.Guard, 0), s) // the most that it can be
	}
	for i := b.window.gone + 1; i <= min(leaves(granted, s.Guard, s), b.window.gone+ringSize-1); i++ {
		ours += b.window.slots[i%ringSize]
	}
	return max(o.Used-ours, 0)
}

// left is the sum of all that has ever left the window.
func (b *budget) left() int64 { return b.charged - b.window.used }

// leftSince is what has left the window since a time at most, if samples go back so far.
func (b *budget) leftSince(at int64) (sum int64, known bool) {
	for _, s := range slices.Backward(b.notes.gone) {
		if s.at <= at {
			return b.left() - s.left, true
		}
	}
	return 0, false
}

// sample notes what has left by now.
func (n *notes) sample(now, left, window int64) {
	if len(n.gone) > 0 && now-n.gone[len(n.gone)-1].at < window/sampleOver {
		return
	}
	if len(n.gone) == samples {
		n.gone = slices.Delete(n.gone, 0, 1)
	}
	n.gone = append(n.gone, sample{now, left})
}

// follow moves what others are reckoned to have to what observations show, when three
// in a row do: one call that was late on its way looks like others, but not for long.
func (n *notes) follow(seen, granted, now, window int64) {
	if seen < 0 {
		return
	}
	seen += seen/moreForOthers + n.trend.since(seen, granted, now, window)
	up := int64(cmp.Compare(seen, n.others))
	r := &n.run
	if up == 0 || up != r.up {
		*r = run{up: up, since: now, mild: seen}
	}
	if up == 0 {
		return
	}
	if up > 0 {
		r.mild = min(r.mild, seen)
	} else {
		r.mild = max(r.mild, seen)
	}
	if r.times++; r.times >= 3 && now-r.since >= window/64 {
		n.others, *r = r.mild, run{}
	}
}

// since is by how much others have grown, if they go on, since they were seen.
func (t *trend) since(seen, granted, now, window int64) int64 {
	switch ago := granted - t.at; {
	case t.at == 0 || ago > window/2:
		*t = trend{seen, granted, 0}
	case ago >= window/trendOver:
		t.slope = (t.slope + scaledBy(max(seen-t.base, 0), window, ago)) / 2
		t.base, t.at = seen, granted
	}
	return scaledBy(t.slope, now-granted, window)
}

// explain says whether others are why the provider refused a call: its window was full,
// with less of ours than the limit. Then they have the rest.
func (b *budget) explain(n *notes, o *Observation, granted, now int64) bool {
	if o.Bucket || n.amount == 0 {
		return false
	}
	full := *o
	full.Used = n.amount
	seen := b.beyond(&full, n.amount, granted, now)
	if seen <= n.others+n.amount/explains {
		return false
	}
	n.others, n.run = seen, run{}
	return true
}

// ofBucket files what others have taken out of the provider's bucket as a charge, and
// returns it. What a bucket lacks does not say how much ran through it, but what it lacks
// more from one answer to the next does, beyond what we were charged. Calls that overtake
// each other make that wrong in turns: the sum counts.
func (b *budget) ofBucket(n *notes, o *Observation, amount, granted, now int64) int64 {
	s := &b.shape
	charged := b.charged - b.later(granted)
	switch {
	case n.seen < 0:
		n.debt = max(b.beyond(o, amount, granted, now), 0)
	case granted > n.seen && granted-n.seen < s.Window:
		n.debt += o.Used - max(n.lacked-gained(amount, granted-n.seen, s), 0) - (charged - n.charged)
		n.debt = max(n.debt, -max(s.Burst, amount/32))
	}
	if granted > n.seen {
		n.lacked, n.seen, n.charged = o.Used, granted, charged
	}
	others := max(n.debt, 0)
	n.debt -= others
	if others > 0 {
		b.window.add(leaves(now, s.Guard, s), others)
		b.now = b.now.take(others, now, s)
		b.bucket = b.now
		b.charged += others
		n.charged += others
	}
	return others
}

// gained is what a limit of that amount gains in a time.
func gained(amount, in int64, s *Shape) int64 { return scaledBy(amount, in, s.Window) }

// scaledBy is of an amount what n is of whole, as Redis reckons it: in doubles.
func scaledBy(amount, n, whole int64) int64 {
	return int64(math.Floor(float64(amount) * float64(n) / float64(whole)))
}

// judge moves the margin.
func (b *budget) judge(n *notes, o *Observation, granted, now int64) {
	s := &b.shape
	switch {
	case o.Slower > 0 && granted > n.moved:
		n.margin, n.moved = max(n.margin*int64(100-o.Slower)/100, leastMargin), now
	case o.Refused && o.Used < 0 && n.amount == 0 && o.Limit.Amount > 0:
		if granted <= n.moved {
			break
		}
		// Nothing tells how large the limit is, but this: so much was too much, and what
		// runs may have been reserved at more than the provider does.
		less := n.margin - unknownMargin
		if n.margin == FullMargin {
			seen := b.window.used - b.later(granted)
			less = min(less, max(seen*seenMargin/o.Limit.Amount, FullMargin/4))
		}
		n.margin, n.moved = max(less, leastMargin), now
	case o.Refused && granted > n.moved+s.Window/lessOften:
		n.margin, n.moved = max(n.margin-lessMargin, leastMargin), now
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
