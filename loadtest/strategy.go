package main

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// strategy decides when each job's call goes out. A worker makes one per
// dispatcher, and calls grant of a task before its function runs.
type strategy interface {
	// Run owns every goroutine and returns when all are gone, after Shutdown.
	Run(ctx context.Context) error
	// Submit takes a job that leaves when ctx ends while it waits. After a nil
	// error exactly one result arrives. The job's Request is its *task.
	Submit(ctx context.Context, s job.Spec, f job.Func) (<-chan job.Result, error)
	// Shutdown waits for what is left, until ctx ends.
	Shutdown(ctx context.Context) error
}

// strategies are made for one process, over the ledger that the process opened.
var strategies = map[string]func(setup, scenario, ledger.Ledger) (strategy, error){
	"paceline": newPaceline,
}

// paceline is the strategy of this project.
type paceline struct{ *dispatcher.Dispatcher }

func newPaceline(s setup, sc scenario, l ledger.Ledger) (strategy, error) {
	o := s.Options
	plan, err := o.plan()
	if err != nil {
		return nil, err
	}
	// Workers never bind: of the calls that run at one time, no more than RPM
	// were sent in each of the minutes that the longest answer takes. The queue
	// holds more than any scenario leaves waiting.
	longest := o.sizes().largest().output
	d, err := dispatcher.New(dispatcher.Config{
		Ledger: l, Plan: plan, Weight: sc.weight,
		Workers:       int(float64(o.RPM) * math.Ceil(float64(o.answerTime(longest))/float64(o.Minute))),
		UrgentWorkers: -1,
		MaxQueue:      max(10_000, int(20*o.jobsPerMinute())),
		MaxWait:       10 * o.Minute,
		AgingStep:     o.Minute / 2,
		Observer:      &observer{},
		Logger:        slog.Default().With("proc", s.Proc),
	})
	if err != nil {
		return nil, err
	}
	return paceline{d}, nil
}

func (p paceline) Submit(ctx context.Context, s job.Spec, f job.Func) (<-chan job.Result, error) {
	t, err := p.Dispatcher.Submit(ctx, s, f)
	if err != nil {
		return nil, err
	}
	return t.Result(), nil
}

// observer tells tasks of their grants.
type observer struct {
	// asked is when the reservation was asked for whose grants are told next, in
	// nanoseconds since the epoch; 0 when the ledger never blocks and is asked just
	// before.
	asked atomic.Int64
}

func (o *observer) Started(s *job.Spec, _ time.Duration) {
	told := time.Now()
	asked := told
	if ns := o.asked.Load(); ns != 0 {
		asked = time.Unix(0, ns)
	}
	s.Request.(*task).grant(asked, told)
}

func (o *observer) LedgerCalled(op string, took time.Duration, _ error) {
	if op == "reserve" {
		o.asked.Store(time.Now().Add(-took).UnixNano())
	}
}

func (o *observer) Finished(*job.Spec, *job.Result) {}

func (o *observer) Shed(*job.Spec, *dispatcher.ShedError) {}
