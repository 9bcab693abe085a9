package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Dispatcher queues jobs and runs each when its turn and its budget have come.
// Make it with New, start it with Run. All methods are safe for concurrent use.
type Dispatcher struct {
	cfg     Config
	start   time.Time
	direct  bool        // the ledger never blocks
	line    ledger.Line // nil: the ledger keeps no line
	learner Learner     // nil: nobody learns
	name    string      // in the line
	settler *settler

	wake    chan struct{} // to the dispatcher goroutine: look again
	asks    chan asks     // to the reserving goroutine; unused when direct
	renew   chan struct{} // to the renewing goroutine: sooner than it thinks
	drained chan struct{} // closed when nothing is left after closing
	once    sync.Once     // closes drained
	ended   chan struct{} // closed when Run returns
	base    context.Context
	stop    context.CancelFunc // ends base, and with it what runs

	// Written with mu held, but for what grantNow and its concluded do: a job that
	// finds nobody waiting takes a worker and gives it back without the lock.
	running atomic.Int64 // holding a worker: reserving or running
	waiting atomic.Int64 // queued, paused or reserving
	started atomic.Bool
	closing atomic.Bool

	// tasks has those that Do is done with. It is not shared with other
	// dispatchers: a channel made in a bubble of testing/synctest must stay there.
	tasks sync.Pool

	measured   atomic.Int64 // the guard's p99.9, in nanoseconds
	complained atomic.Int64 // when a failing ledger was last logged

	// Slices to use again. They belong to the dispatcher goroutine when the
	// ledger never blocks, and otherwise requests to the reserving one.
	batch    []*task
	requests []ledger.Request

	arrivals atomic.Pointer[task] // to be let in, the last on top

	// mu is never held across I/O, a channel operation that may block, or a
	// callback. It is given back by unlock.
	mu      sync.Mutex
	told    []told // to be told when mu is given back
	planned uint64 // version of the plan that who waits is charged by
	queue   *sched.Queue
	left    []ledger.Request // tickets of lanes that a changed plan ended
	late    []ledger.Request // what runs, by limits that were unknown when it began
	fresh   []*task          // submitted since the last round: they have no timer yet
	timers  timers
	next    time.Duration // when the dispatcher goroutine looks again by itself
	asking  bool          // a batch is on its way to the ledger
	most    int           // how large the next batch may be
	turn    time.Duration // when lanes in line were told to ask
	pause   time.Duration // no reservation before this: the ledger is away
	backoff time.Duration
	rate    rate
	guard   guard
	groups  map[groupKey]group
	periods [job.Classes]uint64 // how often jobs began to wait: fairness is of one such period
	paused  [job.Classes]int    // jobs between two attempts
	freed   map[string]struct{} // limits on which something came back since the last batch was picked
	live    map[*task]struct{}  // running jobs whose contexts can be ended
	leased  map[*task]struct{}  // running jobs that hold a lease
	renewal time.Duration       // how often the leases are renewed; 0: there are none
}

// New validates cfg and returns a dispatcher. It starts nothing: jobs may be
// submitted, and wait for Run.
func New(cfg Config) (*Dispatcher, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	_, direct := cfg.Ledger.(ledger.NonBlocking)
	line, _ := cfg.Ledger.(ledger.Line)
	learner, _ := cfg.Estimator.(Learner)
	base, stop := context.WithCancel(context.Background())
	d := &Dispatcher{
		cfg:     cfg,
		start:   time.Now(),
		direct:  direct,
		line:    line,
		learner: learner,
		name:    newID().String(),
		wake:    make(chan struct{}, 1),
		asks:    make(chan asks, 1),
		renew:   make(chan struct{}, 1),
		drained: make(chan struct{}),
		ended:   make(chan struct{}),
		base:    base,
		stop:    stop,
		queue:   sched.New(sched.Config{AgingStep: max(cfg.AgingStep, 0), AgedShare: int64(cfg.AgedShare), Weight: cfg.Weight}),
		next:    never,
		turn:    never,
		most:    maxBatch,
		groups:  make(map[groupKey]group),
		freed:   make(map[string]struct{}),
		live:    make(map[*task]struct{}),
		leased:  make(map[*task]struct{}),
	}
	d.settler = newSettler(d)
	return d, nil
}

const never = time.Duration(1<<63 - 1)

func (d *Dispatcher) now() time.Duration { return time.Since(d.start) }

// look wakes the dispatcher goroutine. One pending call is enough for any number
// of reasons to look.
func (d *Dispatcher) look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// acquire takes a worker for a job of the class, if one is free for it.
func (d *Dispatcher) acquire(class int) bool {
	most := int64(d.cfg.Workers)
	if class > urgent {
		most -= int64(d.cfg.UrgentWorkers)
	}
	for {
		n := d.running.Load()
		if n >= most {
			return false
		}
		if d.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// urgent is the last of the classes that UrgentWorkers are kept for.
const urgent = 2

// release gives a worker back. Whoever waits may have it.
func (d *Dispatcher) release() {
	d.running.Add(-1)
	if d.waiting.Load() > 0 {
		d.look()
	}
	d.closeIfDrained()
}

// closeIfDrained tells Run and Shutdown when nothing is left after closing.
func (d *Dispatcher) closeIfDrained() {
	if d.closing.Load() && d.waiting.Load() == 0 && d.running.Load() == 0 {
		d.once.Do(func() { close(d.drained) })
	}
}
