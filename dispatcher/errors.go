package dispatcher

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// ErrShed is what every ShedError is.
var ErrShed = errors.New("dispatcher: shed")

// Reason is why a job was shed.
type Reason uint8

const (
	// QueueFull: as many jobs wait as may.
	QueueFull Reason = iota
	// TenantQueueFull: as many jobs of the tenant wait as may.
	TenantQueueFull
	// Background: the queue is too long already for work that is not urgent.
	Background
	// Evicted: a more urgent job took the place.
	Evicted
	// Hopeless: the job could not start before its deadline.
	Hopeless
	// Expired: the job's deadline passed while it waited.
	Expired
	// Closing: the dispatcher is shutting down.
	Closing
)

var reasonNames = [...]string{"queue_full", "tenant_queue_full", "background", "evicted", "hopeless", "expired", "closing"}

// String returns the reason's name in metrics and messages.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", r)
}

// ShedError refuses a job that was not run and cost nothing.
type ShedError struct {
	Reason Reason
	// RetryAfter is how long the backlog ahead will take at the rate at which
	// this process was lately granted; at least a second.
	RetryAfter time.Duration
	// Limit is the key of the limit that the job last waited for; "" when it was
	// not refused by one.
	Limit string
	// Own says that the tenant's own queue or limit is the reason: others could
	// be served.
	Own bool
	// LedgerDown says that the ledger does not answer: nobody's budget is the
	// reason.
	LedgerDown bool
}

func (e *ShedError) Error() string {
	s := "dispatcher: shed: " + e.Reason.String()
	if e.Limit != "" {
		s += fmt.Sprintf(" (waited for limit %.64q)", e.Limit)
	}
	if e.LedgerDown {
		s += " (the ledger does not answer)"
	}
	return s + fmt.Sprintf("; retry in %v", e.RetryAfter)
}

// Is reports whether target is ErrShed.
func (e *ShedError) Is(target error) bool { return target == ErrShed }

// TooLargeError refuses a job that a limit can never hold. Retrying is no use.
type TooLargeError struct {
	Limit *ledger.Limit
	// Charge is what the job needs, in the limit's unit.
	Charge int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("dispatcher: job needs %d %s, and limit %.64q takes at most %d at once",
		e.Charge, e.Limit.Unit, e.Limit.Key, e.Limit.Largest())
}

// ErrSpec is wrapped by every complaint about a job.Spec.
var ErrSpec = errors.New("dispatcher: bad job")

// PanicError is the error of a job whose function panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("dispatcher: job panicked: %v", e.Value) }

// ErrGoexit is the error of a job whose function ended its goroutine.
var ErrGoexit = errors.New("dispatcher: job called runtime.Goexit")

func newPanicError(v any) error { return &PanicError{Value: v, Stack: debug.Stack()} }
