package main

import (
	"context"
	"sync"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
)

// rival is the frame of the strategies that paceline is compared with: a gate, and
// behind it an SDK that tries again what the provider refuses. It has paceline's
// bounds, and its words for jobs that are shed. A job that was refused keeps its
// worker, as a caller of an SDK waits in its call.
type rival struct {
	gate    gate
	sdk     sdk
	options options
	places  chan struct{} // of those who wait for the gate or a worker
	workers chan struct{}
	closed  chan struct{} // no more jobs come
	ended   chan struct{} // Run has returned
	close   func()
	jobs    sync.WaitGroup
}

// gate is where jobs wait for leave to call.
type gate interface {
	// pass returns nil when the job may call, or an error when ctx ended first.
	pass(ctx context.Context, t *task) error
	// run does what the gate has to do in the background, until ctx ends.
	run(ctx context.Context)
}

func newRival(s setup, sc scenario, g gate) *rival {
	o := s.Options
	r := &rival{
		gate: g, sdk: sdk{o.Minute / 60}, options: o,
		places:  make(chan struct{}, o.maxQueue(sc)),
		workers: make(chan struct{}, o.workers()),
		closed:  make(chan struct{}),
		ended:   make(chan struct{}),
	}
	r.close = sync.OnceFunc(func() { close(r.closed) })
	return r
}

func (r *rival) Run(ctx context.Context) error {
	defer close(r.ended)
	open, stop := context.WithCancel(ctx)
	var gate sync.WaitGroup
	gate.Go(func() { r.gate.run(open) })
	<-r.closed
	r.jobs.Wait()
	stop()
	gate.Wait()
	return nil
}

// Submit must not be called any more when Shutdown is.
func (r *rival) Submit(ctx context.Context, s job.Spec, f job.Func) (<-chan job.Result, error) {
	select {
	case r.places <- struct{}{}:
	default:
		return nil, &dispatcher.ShedError{Reason: dispatcher.QueueFull}
	}
	results := make(chan job.Result, 1)
	r.jobs.Go(func() {
		err := r.admit(ctx, s.Request.(*task))
		<-r.places
		if err != nil {
			results <- job.Result{Err: err}
			return
		}
		defer func() { <-r.workers }()
		results <- r.sdk.do(ctx, s.Request.(*task), f)
	})
	return results, nil
}

// admit waits for the gate and a worker, as long as jobs may.
func (r *rival) admit(ctx context.Context, t *task) error {
	expired := &dispatcher.ShedError{Reason: dispatcher.Expired}
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.maxWait(), expired)
	defer cancel()
	if err := r.gate.pass(ctx, t); err != nil {
		return err
	}
	select {
	case r.workers <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Shutdown leaves it to the calls' own context to end them: see worker.run.
func (r *rival) Shutdown(ctx context.Context) error {
	r.close()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// noGate lets all pass.
type noGate struct{}

func (noGate) pass(context.Context, *task) error { return nil }

func (noGate) run(context.Context) {}

// newRetry sends everything at once, and lets the SDK try again.
func newRetry(s setup, sc scenario, _ shared) (strategy, error) {
	return newRival(s, sc, noGate{}), nil
}
