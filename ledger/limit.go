package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Unit is what a limit counts.
type Unit uint8

// The units of the limits that providers have, and of our own.
const (
	Requests Unit = iota
	Tokens
	InputTokens
	OutputTokens
	MicroUSD
	// InFlight counts calls that are running now. A call holds a lease, which
	// ends when the call is settled or when nobody renews it.
	InFlight
)

var unitNames = [...]string{"requests", "tokens", "input_tokens", "output_tokens", "micro_usd", "in_flight"}

// String returns the unit's name in metrics and messages.
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("unit(%d)", u)
}

// Rule says how a provider's counter moves after admission.
type Rule uint8

const (
	// SettleActual: the charge is corrected to the reported usage at the end.
	SettleActual Rule = iota
	// SettleFinal: what was charged at admission stays.
	SettleFinal
	// SettleProduced: input is charged at admission, output as it is produced.
	SettleProduced
)

// Limit is one budget. The same Key and Window is the same budget in every
// process that shares the ledger, for calls in flight the same Key; all other fields travel with each call, so a
// changed limit holds from the next call on and what was used stays used.
//
// A Limit is read-only once it has been handed to a ledger or a plan, and is
// passed by pointer to be cheap.
type Limit struct {
	// Key names the budget within the ledger: any bytes, at most 4 KiB.
	Key  string
	Unit Unit
	// Amount is how much the window holds, in units. 0 takes nothing, not even a
	// charge of 0: every request is TooLarge until the limit is another one.
	Amount int64
	// Window is the length of the sliding window, from 10 ms to 32 days. For
	// InFlight it is the lease: how long a call counts after it was last
	// renewed; 0 means 15 s.
	Window time.Duration
	// Unpaced leaves out the pacing bucket. Days and money want this; for a
	// window of a minute it means that a burst repeats every minute.
	Unpaced bool
	// Burst is the size of the pacing bucket, in units. 0 means 4 % of Amount,
	// and at least 1. A charge above it goes when the bucket is full, and leaves
	// the bucket in debt.
	Burst int64
	// Guard is how long after the grant the provider may still count the call;
	// a charge stays that much longer. 0 means 1/60 of the window; more than
	// 1/20 counts as 1/20.
	Guard time.Duration
	// MaxCharge is the largest charge the limit takes; more is TooLarge. 0
	// means Amount. Shared limits want a fraction, since a call that needs most
	// of the window has to drain it first.
	MaxCharge int64
	// Settle is the provider's rule. It is for whoever works out the final
	// amounts; the ledger only moves what it is told.
	Settle Rule
	// Counts is how much of a call's tokens the limit counts, likewise for whoever
	// works out the amounts. The zero value counts each token once.
	Counts Counts
	// Own says that the budget belongs to one tenant: no other tenant's jobs
	// are ever charged to it.
	Own bool
}

// Counts says what a token is worth to a limit, in percent, by what it is: some
// providers leave out what they read from a cache, or count output several times.
type Counts struct {
	// Input is that of neither kind of cache.
	Input, Cached, CacheWrite, Output int64
}

// maxPercent bounds a weight: a hundred times each token.
const maxPercent = 10_000

// InputOf is what input comes to, of which cached was read from a cache and written
// was written to one, in tokens rounded up.
func (c Counts) InputOf(input, cached, written int64) int64 {
	if c == (Counts{}) {
		return input
	}
	fresh := max(input-cached-written, 0)
	return weigh(fresh, c.Input) + weigh(cached, c.Cached) + weigh(written, c.CacheWrite)
}

// OutputOf is what output comes to, in tokens rounded up.
func (c Counts) OutputOf(output int64) int64 {
	if c == (Counts{}) {
		return output
	}
	return weigh(output, c.Output)
}

// weigh never overflows: an amount beyond what any limit holds stays there.
func weigh(n, percent int64) int64 {
	n = min(max(n, 0), MaxAmount)
	return min(n/100*percent+(n%100*percent+99)/100, MaxAmount)
}

// ErrLimit is wrapped by every complaint about a Limit.
var ErrLimit = errors.New("ledger: bad limit")

const (
	defaultLease = 15 * time.Second
	minWindow    = 10 * time.Millisecond
	maxWindow    = 32 * 24 * time.Hour
	// MaxAmount bounds Amount and every charge. Redis counts in doubles, which
	// are exact up to 2^53.
	MaxAmount = int64(1) << 50
	maxKey    = 4 << 10
)

// Validate returns an error that names the field, or nil.
func (l *Limit) Validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w %.64q: %s", ErrLimit, l.Key, fmt.Sprintf(format, a...))
	}
	switch {
	case l.Key == "" || len(l.Key) > maxKey:
		return bad("Key must have 1 to %d bytes, not %d", maxKey, len(l.Key))
	case int(l.Unit) >= len(unitNames):
		return bad("unknown Unit %d", l.Unit)
	case l.Amount < 0 || l.Amount > MaxAmount:
		return bad("Amount must be from 0 to %d, not %d", MaxAmount, l.Amount)
	case l.Unit == InFlight && l.Window != 0 && (l.Window < minWindow || l.Window > maxWindow),
		l.Unit != InFlight && (l.Window < minWindow || l.Window > maxWindow):
		return bad("Window must be from %v to %v, not %v", minWindow, maxWindow, l.Window)
	case l.Burst < 0 || l.Burst > MaxAmount:
		return bad("Burst must not be negative, not %d", l.Burst)
	case l.Guard < 0:
		return bad("Guard must not be negative, not %v", l.Guard)
	case l.MaxCharge < 0 || l.MaxCharge > MaxAmount:
		return bad("MaxCharge must not be negative, not %d", l.MaxCharge)
	case min(l.Counts.Input, l.Counts.Cached, l.Counts.CacheWrite, l.Counts.Output) < 0,
		max(l.Counts.Input, l.Counts.Cached, l.Counts.CacheWrite, l.Counts.Output) > maxPercent:
		return bad("Counts must be from 0 to %d percent, not %+v", maxPercent, l.Counts)
	case l.Settle > SettleProduced:
		return bad("unknown Settle rule %d", l.Settle)
	}
	return nil
}

// CanHold says whether a charge can ever be taken from the limit as it is now.
func (l *Limit) CanHold(amount int64) bool {
	return l.Amount > 0 && amount <= l.Largest()
}

// Largest returns the largest charge that the limit can ever take.
func (l *Limit) Largest() int64 {
	if l.MaxCharge > 0 && l.MaxCharge < l.Amount {
		return l.MaxCharge
	}
	return l.Amount
}

// Slots is the number of parts a window is cut into. A charge leaves with its
// part, so it stays at most 1/256 of a window too long: 0.4 % of the limit.
const Slots = 256

// Shape is what the ledgers derive from a limit; every implementation works with
// these numbers, so that all agree to the unit. Times are whole microseconds.
type Shape struct {
	// Window is the length of the window, or of the lease for InFlight.
	Window int64
	// Slot is the length of one part of the window.
	Slot int64
	// Guard is how long a charge stays beyond its window.
	Guard int64
	// Tick and Ticks pace the bucket: it gains Amount per Ticks ticks of Tick
	// microseconds, which is the rate that the window sustains: a charge holds
	// its place for window + guard + at most one slot. Ticks is at most 9e7, so
	// that a product of two of them is exact in a double.
	Tick, Ticks int64
	// Quot and Rest are Amount / Ticks and Amount % Ticks.
	Quot, Rest int64
	// Burst is the size of the bucket; 0 means that there is none.
	Burst int64
}

// Shape works out the limit's shape, with a guard of at least the one measured.
func (l *Limit) Shape(measured time.Duration) Shape {
	w := l.Window.Microseconds()
	if l.Unit == InFlight {
		if w == 0 {
			w = defaultLease.Microseconds()
		}
		return Shape{Window: w}
	}
	guard := l.Guard.Microseconds()
	if guard == 0 {
		guard = w / 60
	}
	guard = min(max(guard, measured.Microseconds()), w/20)
	s := Shape{Window: w, Slot: (w + Slots - 1) / Slots, Guard: guard}
	if l.Unpaced {
		return s
	}
	const most = 90_000_000
	period := w + guard + s.Slot
	s.Tick = (period + most - 1) / most
	s.Ticks = (period + s.Tick - 1) / s.Tick
	s.Quot, s.Rest = l.Amount/s.Ticks, l.Amount%s.Ticks
	s.Burst = l.Burst
	if s.Burst == 0 {
		s.Burst = (l.Amount + 24) / 25
	}
	s.Burst = max(s.Burst, 1)
	return s
}
