package job

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Spec says what a job is, before it runs. Only Model is needed by most plans;
// the zero value of every other field has a meaning.
type Spec struct {
	// ID names the job for ever: with the number of the attempt it names a
	// reservation, which is what makes a repeated reserve or settle harmless.
	// The zero UUID asks the dispatcher to make one.
	ID uuid.UUID
	// Tenant is who the budget is shared between. The empty tenant is a tenant.
	Tenant string
	// Model is the provider's model name.
	Model string
	// Priority is the job's class; Unset counts as Free.
	Priority Priority
	// Deadline is when the job must have been started. It leaves the queue
	// then. The zero time: the dispatcher's longest wait. A deadline of the
	// context counts too; the earlier one holds.
	Deadline time.Time
	// Request is what the dispatcher's estimator reads, in a type the estimator
	// names. It is not looked at when Estimate is given.
	Request any
	// Estimate is the expected cost. The zero Estimate asks the estimator.
	Estimate Estimate
}

// Estimate is what a job is expected to use.
type Estimate struct {
	// Input and Output are tokens. Output is the most that the provider may
	// charge at admission: the largest of the declared caps, times the number
	// of choices.
	Input, Output int64
	// Expected is the output that the call is likely to stay within, where that is
	// known and less than Output; otherwise 0.
	Expected int64
	// Declared says that the client declared the output cap. A default that
	// nobody declared may be lowered to fit a small limit; a declared cap may not.
	Declared bool
	// Upper is a bound on Input that is sure to hold, or holds in 99 of 100 when Input
	// is sampled; 0 when Input is exact.
	Upper int64
	// Method is how Input was found, for metrics: "exact", "sampled", "bound",
	// "weighted" for a model of another maker, "fallback" for one that is not known,
	// "given".
	Method string
}

// Tokens is the sum of input and output.
func (e Estimate) Tokens() int64 { return e.Input + e.Output }

// Known says what a Usage knows.
type Known uint8

const (
	// Unknown: the call may have been counted by the provider and nobody can
	// say how much. The reservation stands.
	Unknown Known = iota
	// Metered: the provider reported the usage.
	Metered
	// NotSent: the call never left; everything comes back, requests included.
	NotSent
)

// Usage is what one attempt used. The zero value knows nothing, and what was
// reserved stands: a call that ended badly must not give back what the provider
// may have counted.
type Usage struct {
	Known Known
	// Input and Output are tokens as the provider reports them: what is billed.
	Input, Output int64
	// Cached and CacheWrite are the parts of Input that were read from a cache and
	// written to one; limits may count them otherwise.
	Cached, CacheWrite int64
	// Cut says that a cap ended the output (finish_reason length): it would have been
	// longer.
	Cut bool
	// FirstByte is when the first byte of a streamed answer arrived; zero when
	// the answer was not streamed. By then the provider had counted the call, so
	// its charge may leave the window that much earlier.
	FirstByte time.Time
}

// Used is a usage that the provider reported, in tokens.
func Used(input, output int64) Usage {
	return Usage{Known: Metered, Input: input, Output: output}
}

// Func is one attempt of a job. It is called at most once per attempt, in a
// goroutine of the dispatcher's pool, with a context that ends when the caller's
// does or when the dispatcher gives up draining. A panic becomes the job's error.
type Func func(ctx context.Context) (any, Usage, error)

// Result is how a job ended. Exactly one is delivered per accepted job.
type Result struct {
	Value any
	Err   error
	// Usage is that of the last attempt; Unknown when none ran.
	Usage Usage
	// Estimate is what the job was expected to use.
	Estimate Estimate
	// Reserved is the tokens that were charged for an attempt before it ran, and
	// Charged those that the last attempt counted in the end, by the provider's
	// rules. Usage is what is billed.
	Reserved, Charged int64
	// Wait is the time from submission to the grant of the last attempt.
	Wait time.Duration
	// Attempts counts the attempts that were granted.
	Attempts int
}

// RetryError, returned (or wrapped) by a Func, sends the job back to its old
// place in the queue as a new attempt, if it has attempts left. It is for
// refusals that arrived before a byte reached the caller.
type RetryError struct {
	Err error
	// After is the least time to wait, as the provider asked; 0 for none.
	After time.Duration
	// Closed says that the limit that refused the call is closed until it may be tried
	// again: the job waits for that in its place, and the attempt does not count.
	Closed bool
}

func (e *RetryError) Error() string {
	if e.Err == nil {
		return "job: attempt refused"
	}
	return "job: attempt refused: " + e.Err.Error()
}

func (e *RetryError) Unwrap() error { return e.Err }
