package main

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// leastBacklog is what a dispatcher keeps waiting at least, so that a large fleet
// has work everywhere.
const leastBacklog = 8

// feeder submits the jobs of one stream to one dispatcher, until the load ends.
type feeder struct {
	worker   *worker
	strategy strategy
	stream   stream
	fleet    float64 // dispatchers in the whole fleet
	rng      *rand.Rand
}

func (f *feeder) run(ctx context.Context) {
	if f.stream.backlog > 0 {
		f.keep(ctx)
		return
	}
	f.arrive(ctx)
}

// keep submits a job whenever one has left the queue. The place of a job that was
// shed stays empty for a while: a full queue must not be hammered.
func (f *feeder) keep(ctx context.Context) {
	o := f.worker.setup.Options
	n := max(int(math.Ceil(f.stream.backlog*o.jobsPerMinute()/f.fleet)), leastBacklog)
	places := make(chan struct{}, n)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		t := f.task()
		t.left = sync.OnceFunc(func() {
			if t.record.Outcome == shed {
				time.AfterFunc(o.minutes(0.01), func() { <-places })
				return
			}
			<-places
		})
		f.worker.offer(ctx, f.strategy, t)
	}
}

// arrive submits jobs at random times, which do not depend on how they fare.
func (f *feeder) arrive(ctx context.Context) {
	o := f.worker.setup.Options
	var at, end float64 // minutes since the start
	for _, p := range f.stream.phases {
		end += p.minutes
		if p.minutes == 0 {
			end = math.Inf(1)
		}
		rate := p.load * o.jobsPerMinute() / f.fleet
		for {
			// Memoryless: at the border of a phase the wait begins anew.
			at += f.rng.ExpFloat64() / rate
			if at >= end {
				at = end
				break
			}
			if !f.worker.sleepUntil(ctx, o.minutes(at)) {
				return
			}
			t := f.task()
			t.left = func() {}
			f.worker.offer(ctx, f.strategy, t)
		}
	}
}

// task draws a job.
func (f *feeder) task() *task {
	t := &task{worker: f.worker, size: f.worker.setup.Options.sizes().draw(f.rng)}
	tenants := f.worker.scenario.tenants
	t.record = record{
		Seq:    f.worker.seq.Add(1),
		Class:  f.stream.class(f.rng),
		Tenant: tenants[f.rng.IntN(len(tenants))].name,
		Charge: t.size.charge(),
	}
	return t
}
