package ledger

import (
	"container/list"
	"time"
)

// budgetKey is what makes two limits the same budget. The window is 0 for calls in
// flight: a changed lease is no reason to forget who runs.
type budgetKey struct {
	name   string
	window int64
}

func keyOf(l *Limit) budgetKey {
	if l.Unit == InFlight {
		return budgetKey{l.Key, 0}
	}
	return budgetKey{l.Key, l.Window.Microseconds()}
}

// budget is what Memory keeps of one limit: a window and a bucket, or leases.
type budget struct {
	key     budgetKey
	place   *list.Element // in Memory.idle
	touched int64         // when it was last asked
	// open counts the reservations that are not settled yet: a budget with one
	// is not dropped.
	open int

	window *window
	bucket bucket       // as of the last charge
	leases map[ID]int64 // when each ends
	// soonest is a time before which no lease ends.
	soonest int64

	// The limit and the guard of the last call, and their shape; amount is how much of
	// the limit is in use.
	limit  *Limit
	guard  time.Duration
	shape  Shape
	amount int64

	// charged is the sum of all that was ever charged.
	charged int64
	notes   *notes // nil: the provider has said nothing
	// opens is when the limit opens to the process that asks, or 0: it is open.
	opens int64

	// What the batch with this number may still take of the window and of the
	// bucket, behind the demand that its denied requests hold; and the bucket as
	// of now.
	batch       uint64
	free, spare int64
	now         bucket
}

// plenty stands for what a limit without a bucket has to spare.
const plenty = int64(1) << 62

func newBudget(l *Limit) *budget {
	b := &budget{key: keyOf(l)}
	if l.Unit == InFlight {
		b.leases = make(map[ID]int64)
	} else {
		b.window = new(window)
	}
	return b
}

// adopt makes the limit, as it is now, the one to go by.
func (b *budget) adopt(l *Limit, guard time.Duration) {
	if b.limit == l && b.guard == guard {
		return
	}
	b.limit, b.guard, b.shape, b.amount = l, guard, l.Shape(guard), b.notes.scaled(l.Amount)
	if s := &b.shape; s.Ticks > 0 {
		s.Quot, s.Rest = b.amount/s.Ticks, b.amount%s.Ticks
	}
}

// advance brings the budget to now: what is over leaves, the bucket refills.
func (b *budget) advance(now int64) {
	if b.window == nil {
		b.expire(now)
		b.free, b.spare = b.amount-int64(len(b.leases)), plenty
		return
	}
	s := &b.shape
	b.window.advance(now, s)
	b.now = b.bucket.advance(now, b.amount, s)
	b.free, b.spare = b.amount-b.window.used, plenty
	if s.Burst > 0 {
		b.spare = b.now.level
	}
}

func (b *budget) expire(now int64) {
	if now < b.soonest {
		return
	}
	b.soonest = now + maxWindow.Microseconds()
	for id, end := range b.leases {
		if end <= now {
			delete(b.leases, id)
		} else {
			b.soonest = min(b.soonest, end)
		}
	}
}

// fits says whether a charge may be taken. One above the burst needs a full bucket.
func (b *budget) fits(amount int64) bool { return b.fitsIn(amount, b.free, b.spare) }

// fitsIn is fits when only so much of the window and the bucket may be taken.
func (b *budget) fitsIn(amount, free, spare int64) bool {
	return b.opens == 0 && amount <= free && (amount <= spare || b.shape.Burst <= spare)
}

// wait returns the microseconds until amount fits; 0 means now.
func (b *budget) wait(amount, now int64) int64 { return b.waitIn(amount, b.free, b.spare, now) }

func (b *budget) waitIn(amount, free, spare, now int64) int64 {
	if b.window == nil {
		if amount <= free {
			return 0
		}
		first := now + b.shape.Window
		for _, end := range b.leases {
			first = min(first, end)
		}
		return max(first-now, 1)
	}
	t := max(b.opens-now, 0)
	if short := amount - free; short > 0 {
		t = max(t, b.window.freed(short)*b.shape.Slot-now)
	}
	if short := min(amount, b.shape.Burst) - spare; short > 0 {
		t = max(t, b.now.refill(short, b.amount, &b.shape)-(now-b.now.at))
	}
	return t
}

// hold keeps the demand of a denied request from the rest of the batch.
func (b *budget) hold(amount int64) {
	b.free -= amount
	b.spare -= min(amount, b.shape.Burst)
}

// take charges the budget and returns the slot of the charge.
func (b *budget) take(id ID, amount, now int64) int64 {
	s := &b.shape
	b.open++
	b.free -= amount
	if b.window == nil {
		b.lease(id, now)
		return 0
	}
	slot := leaves(now, s.Guard, s)
	if amount > 0 {
		b.window.add(slot, amount)
		b.charged += amount
		b.now = b.now.take(amount, now, s)
		b.bucket = b.now
		if s.Burst > 0 {
			b.spare -= amount
		}
	}
	return slot
}

// lease counts the call until the lease ends.
func (b *budget) lease(id ID, now int64) {
	end := now + b.shape.Window
	b.leases[id] = end
	b.soonest = min(b.soonest, end)
}

// settle moves the charge p, granted at time at, to what it came to. The budget is
// as of now.
func (b *budget) settle(id ID, p part, f Final, at, counted, now int64) {
	if b.window == nil {
		delete(b.leases, id)
		return
	}
	s := &b.shape
	// A charge whose slot has left gives nothing back and takes nothing more.
	if b.window.add(p.slot, -p.amount) {
		slot := p.slot
		if counted > 0 {
			slot = min(slot, leaves(at, counted, s))
		}
		b.window.add(slot, f.Admitted)
		b.charged += f.Admitted - p.amount
		b.now = b.now.take(f.Admitted-p.amount, now, s)
		b.bucket = b.now
	}
	if f.Late > 0 {
		b.window.add(leaves(now, 0, s), f.Late)
		b.charged += f.Late
		b.now = b.now.take(f.Late, now, s)
		b.bucket = b.now
	}
}

// balance is the state at now by the limit l.
func (b *budget) balance(l *Limit, guard time.Duration, now int64) Balance {
	b.adopt(l, guard)
	b.advance(now)
	return Balance{Limit: l, Used: b.amount - b.free, Available: min(b.free, b.spare), Margin: b.notes.inUse()}
}

// forgettable says that a new budget would be the same: nothing is reserved or
// left in the window, and the bucket is full.
func (b *budget) forgettable(now int64) bool {
	b.advance(now)
	if b.window == nil {
		return b.open == 0 && len(b.leases) == 0
	}
	return b.open == 0 && b.window.used == 0 && b.spare >= b.shape.Burst && b.known(now) == nil
}
