package dispatcher

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/internal/sched"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

type state uint8

const (
	queued   state = iota
	arriving       // not let in yet
	paused         // waiting for its next attempt, out of the queue
	reserving
	running
	done
)

// task is a job on its way. What is above the line does not change once it is
// queued; what is below is guarded by Dispatcher.mu.
type task struct {
	sched.Job
	spec     job.Spec
	ctx      context.Context
	estimate job.Estimate
	charges  []ledger.Charge
	deadline time.Duration

	// A job that was submitted has a function and a place for its result. One
	// that somebody waits for in Do is told on turn, which holds one value: nil
	// to run, or why it will not.
	f       job.Func
	results chan job.Result
	turn    chan error

	behind    *task // of those who arrive
	state     state
	ticket    bool // stays in line when it is denied
	attempt   int
	renewed   bool          // a stale grant of this attempt was given back
	version   uint64        // of the plan that it is charged by
	ask       uint32        // number of its reservation, part of the id
	at        time.Duration // when its timer fires
	timer     int           // place in timers, from 1
	asked     time.Duration // when the reservation was asked for
	wait      time.Duration // from arrival to grant
	period    uint64        // of its class in which the queue counted the grant; 0: it did not
	usage     job.Usage     // of the attempt before
	result    job.Result    // of the attempt that runs on the caller's goroutine
	cancelled error         // why it was cancelled while reserving or running
	cancel    context.CancelCauseFunc
	stop      func() bool // ends watching ctx; nil when nobody watches

	// Room for one call of a ledger that does not keep what it is given.
	final   [4]ledger.Final
	settle  [1]ledger.Settlement
	request [1]ledger.Request
}

// borrow returns a task to be waited for.
func (d *Dispatcher) borrow() *task {
	if t, ok := d.tasks.Get().(*task); ok {
		return t
	}
	return &task{turn: make(chan error, 1)}
}

// recycle takes back a task that nobody else looks at any more.
func (d *Dispatcher) recycle(t *task) {
	*t = task{turn: t.turn}
	d.tasks.Put(t)
}

func (t *task) id() ledger.ID { return ledger.ID{Job: t.spec.ID, Attempt: t.ask} }

// Ticket is a submitted job.
type Ticket struct {
	d *Dispatcher
	t *task
}

// ID names the job.
func (t *Ticket) ID() uuid.UUID { return t.t.spec.ID }

// Result is where the job's one result arrives. Nobody has to read it.
func (t *Ticket) Result() <-chan job.Result { return t.t.results }

// Cancel takes the job out of the queue, or ends its context when it runs. It may
// be called at any time and more than once.
func (t *Ticket) Cancel() { t.d.cancelTask(t.t, context.Canceled) }
