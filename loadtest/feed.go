package main

import (
	"context"
	"math"
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
	arrivals *arrivals
}

func (f *feeder) run(ctx context.Context) {
	if f.arrivals.stream.backlog > 0 {
		f.keep(ctx)
		return
	}
	f.arrive(ctx)
}

// keep submits a job whenever one has left the queue. The place of a job that was
// shed stays empty for a while: a full queue must not be hammered.
func (f *feeder) keep(ctx context.Context) {
	o, st := f.worker.setup.Options, f.arrivals.stream
	n := max(int(math.Ceil(st.backlog*o.jobsPerMinute(st.lengths())/f.arrivals.parts)), leastBacklog)
	places := make(chan struct{}, n)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		t := f.task(f.arrivals.draw())
		t.record.Submitted = max(f.worker.since(time.Now()), 1)
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

// arrive submits jobs at their times, which do not depend on how they fare. A job
// waits from when it comes, even if this process is late in submitting it.
func (f *feeder) arrive(ctx context.Context) {
	for {
		a, ok := f.arrivals.next()
		if !ok || !f.worker.sleepUntil(ctx, a.at) {
			return
		}
		t := f.task(a)
		t.record.Submitted = max(a.at, 1)
		t.left = func() {}
		f.worker.offer(ctx, f.strategy, t)
	}
}

func (f *feeder) task(a arrival) *task {
	return &task{
		worker: f.worker, size: a.size,
		record: record{Seq: f.worker.seq.Add(1), Class: a.class, Tenant: a.tenant, Charge: a.size.charge()},
	}
}
