package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ID names a reservation: a job and the number of its attempt. Reserve and
// Settle are idempotent by it.
type ID struct {
	Job     [16]byte
	Attempt uint32
}

// Charge is what a job takes from one limit.
type Charge struct {
	Limit  *Limit
	Amount int64
	// Overdraw takes the amount also when the limit is short: the job counts
	// there, but only others wait.
	Overdraw bool
}

// Request asks for all the charges of one attempt of one job, or none.
type Request struct {
	ID ID
	// Charges are at most MaxCharges, on different limits.
	Charges []Charge
	// Guard is the time that this process measured between a grant and the
	// first byte of the answer; it raises the guard of the limits.
	Guard time.Duration
	// Place is where it stands in the line, if it does. Ledgers that keep no line
	// do not look at it.
	Place Place
}

// MaxCharges is the largest number of charges in one request.
const MaxCharges = 16

// Outcome is what became of a request.
type Outcome uint8

const (
	// Denied means not now: wait and ask again. Nothing was taken.
	Denied Outcome = iota
	// Granted means that every charge was taken.
	Granted
	// TooLarge means never, as long as the limit is what it is.
	TooLarge
	// Refused means that the id was cancelled or settled before it asked.
	Refused
)

var outcomeNames = [...]string{"denied", "granted", "too_large", "refused"}

// String returns the outcome's name in metrics and messages.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", o)
}

// Decision is the answer to a Request.
type Decision struct {
	Outcome Outcome
	// Limit is the limit that binds: for Denied the one with the longest wait,
	// for TooLarge the one that can never hold the charge. Otherwise nil.
	Limit *Limit
	// Wait is, for Denied, how long until the charges would fit if nobody took
	// anything but those in front of it in the line, at least a microsecond. For a limit of calls in flight it is
	// when a lease ends on its own: a release comes sooner.
	Wait time.Duration
	// Closed says that the provider closed that limit, so that nothing can come sooner.
	Closed bool
}

// Final is what one charge of a reservation comes to.
type Final struct {
	Limit *Limit
	// Admitted counts at the time of the grant, and Late counts now: output that
	// the provider charges as it is produced. Both in the limit's unit.
	Admitted, Late int64
}

// Settlement replaces a reservation by what was really used.
type Settlement struct {
	ID ID
	// Final has one entry per charge of the reservation, in the same order and
	// with the same limits, also when Cancel is set.
	Final []Final
	// Counted is the time from the grant until the provider is known to have
	// counted the call, which is the first byte of its answer; 0 when nobody
	// knows. Below the guard it lets the charge leave that much sooner.
	Counted time.Duration
	// Cancel gives everything back, whatever Final says, and refuses the id if
	// it has not asked yet.
	Cancel bool
	// Tenant, Class, Weight are those of the request's Place, and Extra is by how
	// much what was used differs from its Cost: the tenant's next turn is so much
	// later, or sooner.
	Tenant        string
	Class         int
	Weight, Extra int64
}

// Ledger holds the balances of all limits.
//
// A call that returns an error may or may not have taken effect. Asking again
// with the same ids is safe, and tells. A ledger keeps nothing of a batch after the
// call but the limits: the caller uses its memory again.
type Ledger interface {
	// Reserve decides the batch in order, and returns one decision per request.
	// A request that is denied holds its demand on the limits that it is short
	// of against the rest of the batch, or by its ticket if it has a Place: what is
	// behind it can not pass it. Otherwise each decision is what the request would
	// have got alone.
	// A denial changes no balance.
	Reserve(ctx context.Context, batch []Request) ([]Decision, error)
	// Settle applies each settlement once: repeating it changes nothing.
	Settle(ctx context.Context, batch []Settlement) error
}

// NonBlocking is a Ledger that never waits for anything, so that it may be
// called from a goroutine that must not stop.
type NonBlocking interface {
	Ledger
	NeverBlocks()
}

// Lease is the place of one running call in a limit of calls in flight.
type Lease struct {
	ID    ID
	Limit *Limit
}

// Renewer keeps leases alive. The owner of running calls renews them a few times
// per lease; a lease that ended because its owner was paused comes back, since
// the call still runs. A settled call's lease is not renewed.
type Renewer interface {
	Renew(ctx context.Context, leases []Lease) error
}

// Balance is the state of a limit at one time.
type Balance struct {
	Limit *Limit
	// Used is what the window holds now, in units; more than the amount after
	// overuse.
	Used int64
	// Available is what could be taken at once: the least of what the window and
	// the pacing bucket have left. It is negative after overuse.
	Available int64
	// Margin is how much of the amount is in use, of FullMargin: see Feedback.
	Margin int64
}

// Snapshotter reads balances, for metrics and headers. It changes nothing.
type Snapshotter interface {
	Snapshot(ctx context.Context, limits []*Limit) ([]Balance, error)
}

// ErrRequest is wrapped by every complaint about a request or a settlement.
var ErrRequest = errors.New("ledger: bad request")

// CheckBatch validates requests. Implementations call it first, so that a bad
// one changes nothing.
func CheckBatch(batch []Request) error {
	for i := range batch {
		r := &batch[i]
		if len(r.Charges) > MaxCharges {
			return fmt.Errorf("%w %d: %d charges, at most %d", ErrRequest, i, len(r.Charges), MaxCharges)
		}
		if r.Guard < 0 {
			return fmt.Errorf("%w %d: Guard must not be negative, not %v", ErrRequest, i, r.Guard)
		}
		if err := r.Place.validate(); err != nil {
			return fmt.Errorf("%w %d: %w", ErrRequest, i, err)
		}
		for j, c := range r.Charges {
			if c.Limit == nil {
				return fmt.Errorf("%w %d: charge %d has no Limit", ErrRequest, i, j)
			}
			if c.Amount < 0 || c.Amount > MaxAmount {
				return fmt.Errorf("%w %d: charge %d on %.64q must be from 0 to %d, not %d", ErrRequest, i, j, c.Limit.Key, MaxAmount, c.Amount)
			}
			if c.Limit.Unit == InFlight && c.Amount != 1 {
				return fmt.Errorf("%w %d: charge %d on %.64q: a call is 1 in flight, not %d", ErrRequest, i, j, c.Limit.Key, c.Amount)
			}
			if err := c.Limit.Validate(); err != nil {
				return fmt.Errorf("%w %d: charge %d: %w", ErrRequest, i, j, err)
			}
			for _, d := range r.Charges[:j] {
				if keyOf(d.Limit) == keyOf(c.Limit) {
					return fmt.Errorf("%w %d: two charges on limit %.64q", ErrRequest, i, c.Limit.Key)
				}
			}
		}
	}
	return nil
}

// CheckSettlements validates settlements. Implementations call it first.
func CheckSettlements(batch []Settlement) error {
	for i := range batch {
		s := &batch[i]
		if len(s.Final) > MaxCharges {
			return fmt.Errorf("%w: settlement %d has %d final amounts, at most %d", ErrRequest, i, len(s.Final), MaxCharges)
		}
		if s.Class < 0 || s.Class >= classes || len(s.Tenant) > maxKey {
			return fmt.Errorf("%w: settlement %d: Class must be from 0 to %d, and Tenant at most %d bytes", ErrRequest, i, classes-1, maxKey)
		}
		if s.Counted < 0 {
			return fmt.Errorf("%w: settlement %d: Counted must not be negative, not %v", ErrRequest, i, s.Counted)
		}
		for j, f := range s.Final {
			if f.Limit == nil {
				return fmt.Errorf("%w: settlement %d: final amount %d has no Limit", ErrRequest, i, j)
			}
			if f.Admitted < 0 || f.Late < 0 || f.Admitted > MaxAmount || f.Late > MaxAmount {
				return fmt.Errorf("%w: settlement %d: amounts on %.64q must be from 0 to %d", ErrRequest, i, f.Limit.Key, MaxAmount)
			}
			if err := f.Limit.Validate(); err != nil {
				return fmt.Errorf("%w: settlement %d: %w", ErrRequest, i, err)
			}
		}
	}
	return nil
}

// CheckLeases validates leases to renew. Implementations call it first.
func CheckLeases(leases []Lease) error {
	for i, l := range leases {
		if l.Limit == nil {
			return fmt.Errorf("%w: lease %d has no Limit", ErrRequest, i)
		}
		if l.Limit.Unit != InFlight {
			return fmt.Errorf("%w: lease %d: %.64q counts %v, not calls in flight", ErrRequest, i, l.Limit.Key, l.Limit.Unit)
		}
		if err := l.Limit.Validate(); err != nil {
			return fmt.Errorf("%w: lease %d: %w", ErrRequest, i, err)
		}
	}
	return nil
}

// CheckLimits validates limits to look at. Implementations call it first.
func CheckLimits(limits []*Limit) error {
	for i, l := range limits {
		if l == nil {
			return fmt.Errorf("%w: limit %d is nil", ErrRequest, i)
		}
		if err := l.Validate(); err != nil {
			return fmt.Errorf("%w: limit %d: %w", ErrRequest, i, err)
		}
	}
	return nil
}
