package ledger

import (
	"context"
	"fmt"
	"time"
)

// Observation is what a provider's answer to a call says of a limit.
type Observation struct {
	// Limit counts over a window.
	Limit *Limit
	// Amount is the limit as the provider tells it; 0: it does not.
	Amount int64
	// Used is what the provider had counted when it took the call: the limit less what
	// remains; or Untold.
	Used int64
	// Bucket says that the provider refills a bucket, so that Used falls all the time;
	// otherwise it is what the last window counted.
	Bucket bool
	// Ago is the time since the call was granted.
	Ago time.Duration
	// Refused says that the provider refused the call for this limit, although the
	// ledger had granted it.
	Refused bool
	// Close closes the limit to all processes for so long, and then opens it to one
	// after the other within a quarter of that.
	Close time.Duration
	// Slower takes so many percent off what is used of the limit, because traffic
	// grew too quickly.
	Slower int
}

// Untold is the Used of an answer that does not say what remains.
const Untold = -1

// FullMargin is the Margin of a limit of which all is used.
const FullMargin = 1000

// Standing is what the ledger makes of all that was observed of a limit.
type Standing struct {
	// Amount is what the provider told last, by any process; 0: never.
	Amount int64
	// Margin is how much of the limit is used, of FullMargin. A refusal lowers it, and
	// quiet time raises it again.
	Margin int64
	// Used is what the window holds by the ledger's own view, and Others how much of
	// that this observation added for other traffic on the same account.
	Used, Others int64
	// Unsure says that others seem to be there, and the next answers will tell.
	Unsure bool
}

// Feedback is a ledger that listens to the provider. What it hears of a limit it
// keeps until an hour has passed without news of it.
type Feedback interface {
	// Observe takes notice, and returns one standing per observation.
	Observe(ctx context.Context, batch []Observation) ([]Standing, error)
}

// maxClose bounds Close: a quota of a month.
const maxClose = maxWindow

// CheckObservations validates observations. Implementations call it first.
func CheckObservations(batch []Observation) error {
	for i := range batch {
		o := &batch[i]
		if o.Limit == nil {
			return fmt.Errorf("%w: observation %d has no Limit", ErrRequest, i)
		}
		if err := o.Limit.Validate(); err != nil {
			return fmt.Errorf("%w: observation %d: %w", ErrRequest, i, err)
		}
		switch {
		case o.Limit.Unit == InFlight:
			return fmt.Errorf("%w: observation %d: %.64q counts calls in flight, of which providers say nothing", ErrRequest, i, o.Limit.Key)
		case o.Amount < 0 || o.Amount > MaxAmount || o.Used > MaxAmount:
			return fmt.Errorf("%w: observation %d: Amount and Used of %.64q must be at most %d", ErrRequest, i, o.Limit.Key, MaxAmount)
		case o.Ago < 0 || o.Close < 0 || o.Close > maxClose:
			return fmt.Errorf("%w: observation %d: Ago and Close must not be negative, and Close at most %v", ErrRequest, i, maxClose)
		case o.Slower < 0 || o.Slower > 90:
			return fmt.Errorf("%w: observation %d: Slower must be from 0 to 90 percent, not %d", ErrRequest, i, o.Slower)
		}
		for j := range batch[:i] {
			if keyOf(batch[j].Limit) == keyOf(o.Limit) {
				return fmt.Errorf("%w: two observations of limit %.64q", ErrRequest, o.Limit.Key)
			}
		}
	}
	return nil
}
