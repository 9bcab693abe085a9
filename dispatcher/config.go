package dispatcher

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Plan says which limits a job is charged to. It is called on the submitter's
// goroutine, must be safe for concurrent use, and must give jobs of one model,
// tenant and class the same limits.
type Plan interface {
	// Charges returns what one attempt takes from which limits. An error
	// refuses the job.
	Charges(s *job.Spec, e job.Estimate) ([]ledger.Charge, error)
}

// Changing is a Plan whose limits may become others, say when the provider tells them.
// Jobs that wait are then charged anew.
type Changing interface {
	Plan
	// Version rises with each change.
	Version() uint64
}

// Estimator says what a job will cost. It is called on the submitter's goroutine,
// after the bounds of the queue, and must be safe for concurrent use.
type Estimator interface {
	Estimate(s job.Spec) (job.Estimate, error)
}

// Learner is an Estimator that is told what became of its estimates: what each attempt
// that succeeded used, as far as the provider reported it, on the goroutine that ran it.
type Learner interface {
	Estimator
	Learn(s job.Spec, u job.Usage)
}

// Config is what a dispatcher is made of. Ledger and Plan are needed; every other
// field has a default.
type Config struct {
	Ledger ledger.Ledger
	Plan   Plan
	// Estimator is asked for jobs that bring no estimate. Without one such jobs
	// are refused. If it is a Learner it is told what they used.
	Estimator Estimator

	// Workers is how many jobs run at once. 0 means 64.
	Workers int
	// UrgentWorkers is how many of them are kept for classes 0 to 2. 0 means a
	// tenth of Workers; -1 means none.
	UrgentWorkers int

	// MaxQueue is how many jobs may wait. 0 means 10,000.
	MaxQueue int
	// MaxTenantQueue is how many jobs of one tenant may wait. 0 means MaxQueue.
	MaxTenantQueue int
	// MaxBackgroundQueue is how many may wait when a job of class 8 or 9 is
	// still let in. 0 means half of MaxQueue.
	MaxBackgroundQueue int
	// MaxWait is how long a job waits that brings no deadline. 0 means 60 s.
	MaxWait time.Duration
	// MaxAttempts is how often a job is tried that comes back with a
	// job.RetryError. 0 means 3.
	MaxAttempts int

	// AgingStep is how long a job waits, for every class between it and the most
	// urgent one waiting, until it is overdue. 0 means 10 s; negative means
	// that nothing ages.
	AgingStep time.Duration
	// AgedShare is the part of what is granted, in percent of the tokens, that
	// overdue work may take before more urgent work, and the part of the queue
	// that eviction leaves each class. 0 means 20.
	AgedShare int
	// Weight is a tenant's share of its class. nil means that all are equal.
	Weight func(tenant string) int64

	// LedgerTimeout bounds each call of a ledger that may block. 0 means 250 ms.
	LedgerTimeout time.Duration

	// Observer is told what happens. nil means nobody is.
	Observer Observer
	// Logger takes what an operator should know. nil means slog.Default.
	Logger *slog.Logger
}

// ErrConfig is wrapped by every complaint about a Config.
var ErrConfig = errors.New("dispatcher: bad configuration")

// fill returns the configuration with its defaults, or an error that names the
// field.
func (c Config) fill() (Config, error) {
	bad := func(format string, a ...any) (Config, error) {
		return Config{}, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	if c.Ledger == nil {
		return bad("Ledger is missing; ledger.NewMemory() serves one process")
	}
	if c.Plan == nil {
		return bad("Plan is missing")
	}
	for _, f := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"Workers", &c.Workers, 64},
		{"MaxQueue", &c.MaxQueue, 10_000},
		{"MaxTenantQueue", &c.MaxTenantQueue, 0},
		{"MaxBackgroundQueue", &c.MaxBackgroundQueue, 0},
		{"MaxAttempts", &c.MaxAttempts, 3},
		{"AgedShare", &c.AgedShare, 20},
	} {
		if *f.value < 0 {
			return bad("%s must not be negative, not %d", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	if c.MaxTenantQueue == 0 {
		c.MaxTenantQueue = c.MaxQueue
	}
	if c.MaxBackgroundQueue == 0 {
		c.MaxBackgroundQueue = (c.MaxQueue + 1) / 2
	}
	if c.AgedShare > 100 {
		return bad("AgedShare is in percent, at most 100, not %d", c.AgedShare)
	}
	switch {
	case c.UrgentWorkers == 0:
		c.UrgentWorkers = c.Workers / 10
	case c.UrgentWorkers == -1:
		c.UrgentWorkers = 0
	case c.UrgentWorkers < -1 || c.UrgentWorkers >= c.Workers:
		return bad("UrgentWorkers must leave others a worker: from -1 to Workers-1 = %d, not %d", c.Workers-1, c.UrgentWorkers)
	}
	if c.MaxWait < 0 {
		return bad("MaxWait must not be negative, not %v", c.MaxWait)
	}
	if c.MaxWait == 0 {
		c.MaxWait = time.Minute
	}
	if c.AgingStep == 0 {
		c.AgingStep = 10 * time.Second
	}
	if steps := time.Duration(job.Free.Class() - job.Paid.Class()); c.AgingStep > (c.MaxWait-1)/steps {
		return bad("free work behind paid work is overdue after %d times AgingStep = %v, which a job that may wait MaxWait = %v "+
			"does not live to see; lower the one or raise the other", steps, c.AgingStep, c.MaxWait)
	}
	if c.LedgerTimeout < 0 {
		return bad("LedgerTimeout must not be negative, not %v", c.LedgerTimeout)
	}
	if c.LedgerTimeout == 0 {
		c.LedgerTimeout = 250 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}
