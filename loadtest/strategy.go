package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// strategy decides when each job's call goes out. A worker makes one per
// dispatcher, and it begins a task before its function runs.
type strategy interface {
	// Run owns every goroutine and returns when all are gone, after Shutdown.
	Run(ctx context.Context) error
	// Submit takes a job that leaves when ctx ends while it waits. After a nil
	// error exactly one result arrives. The job's Request is its *task.
	Submit(ctx context.Context, s job.Spec, f job.Func) (<-chan job.Result, error)
	// Shutdown waits for what is left, until ctx ends.
	Shutdown(ctx context.Context) error
}

// shared is what the whole fleet shares; each strategy takes what it needs.
type shared struct {
	ledger ledger.Ledger
	bucket bucket
}

type namedStrategy struct {
	name, about string
	make        func(setup, scenario, shared) (strategy, error)
}

// strategies are the ways to keep the limits, in the order of a comparison.
var strategies = []namedStrategy{
	{"paceline", "a dispatcher over the shared ledger", newPaceline},
	{"retry", "no limiter; what is refused is tried again as OpenAI's SDKs do", newRetry},
	{"local", "a limiter in each dispatcher for its part of the limits", newLocal},
	{"poll", "token buckets in Redis that every dispatcher polls", newPoll},
}

// oracle is no part of a comparison: nobody can do what it does.
var oracle = namedStrategy{"oracle", "paceline that knows beforehand how long each answer will be", newPaceline}

// allStrategies are those that -strategy can name.
func allStrategies() []namedStrategy { return append(slices.Clone(strategies), oracle) }

// strategy makes the one that the flags name.
func (s setup) strategy(sc scenario, sh shared) (strategy, error) {
	for _, st := range allStrategies() {
		if st.name == s.Options.Strategy {
			return st.make(s, sc, sh)
		}
	}
	return nil, fmt.Errorf("%w: -strategy: there is no %q", errUsage, s.Options.Strategy)
}

// paceline is the strategy of this project.
type paceline struct {
	*dispatcher.Dispatcher
	feedback *provider.Feedback // nil unless a provider is imitated
}

func newPaceline(s setup, sc scenario, sh shared) (strategy, error) {
	o := s.Options
	plan, err := o.plan()
	if err != nil {
		return nil, err
	}
	d, err := dispatcher.New(dispatcher.Config{
		Ledger: sh.ledger, Plan: plan, Weight: sc.weight,
		Workers: o.workers(), UrgentWorkers: -1,
		MaxQueue: o.maxQueue(sc), MaxWait: o.maxWait(),
		AgingStep: o.agingStep(),
		Observer:  &observer{},
		Logger:    slog.Default().With("proc", s.Proc),
	})
	if err != nil {
		return nil, err
	}
	p := paceline{Dispatcher: d}
	if l, ok := sh.ledger.(ledger.Feedback); ok && o.Provider != "" {
		p.feedback, err = provider.NewFeedback(provider.FeedbackConfig{
			Profile: o.profile(), Plan: plan, Ledger: l, Minute: o.Minute, Logger: slog.Default().With("proc", s.Proc),
		})
	}
	return p, err
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
	t := s.Request.(*task)
	t.begin(asked, told)
	t.left()
}

func (o *observer) LedgerCalled(op string, took time.Duration, _ error) {
	if op == "reserve" {
		o.asked.Store(time.Now().Add(-took).UnixNano())
	}
}

func (o *observer) Finished(*job.Spec, *job.Result) {}

func (o *observer) Shed(*job.Spec, *dispatcher.ShedError) {}
