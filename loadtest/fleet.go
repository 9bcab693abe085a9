package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// readyWithin is how long a worker may take to say that it is ready.
	readyWithin = 10 * time.Second
	// startIn is how long before the start of the load the workers are told of it.
	startIn = 100 * time.Millisecond
	// goneWithin is how long a worker may take, after it has drained, to end.
	goneWithin = 10 * time.Second
)

// fleet is the worker processes as their parent sees them.
type fleet struct {
	options options
	members []*member
	start   time.Time
	// tick is called a few times a second while the load lasts.
	tick func(elapsed time.Duration, now counts)
}

// launch starts the workers and tells them what they have to know.
func launch(s setup, start func() (*child, error), tick func(time.Duration, counts)) (*fleet, error) {
	f := &fleet{options: s.Options, tick: tick}
	for s.Proc = range s.Options.Procs {
		c, err := start()
		if err != nil {
			f.close()
			return nil, err
		}
		m := newMember(c)
		f.members = append(f.members, m)
		_ = m.send.Encode(order{Setup: &s}) // one that is gone is noticed by run
	}
	return f, nil
}

// run makes the load: all start together, one is killed if that was asked for,
// all stop. It returns when every worker has ended.
func (f *fleet) run(ctx context.Context) error {
	for i, m := range f.members {
		select {
		case <-m.ready:
		case <-m.gone:
			return fmt.Errorf("loadtest: process %d did not start: %w", i, m.ended)
		case <-time.After(readyWithin):
			return fmt.Errorf("loadtest: process %d is not ready after %v", i, readyWithin)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f.start = time.Now().Add(startIn)
	f.tell(order{Start: &f.start})
	if err := f.load(ctx); err != nil {
		return err
	}
	f.tell(order{Stop: true})
	return f.part(ctx)
}

// tell gives all the same order. One that is gone is noticed by its end.
func (f *fleet) tell(o order) {
	for _, m := range f.members {
		_ = m.send.Encode(o)
	}
}

func (f *fleet) load(ctx context.Context) error {
	end := time.NewTimer(time.Until(f.start.Add(f.options.Duration)))
	defer end.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var kill <-chan time.Time
	if f.options.KillAt > 0 {
		timer := time.NewTimer(time.Until(f.start.Add(f.options.KillAt)))
		defer timer.Stop()
		kill = timer.C
	}
	for {
		select {
		case <-end.C:
			return nil
		case <-kill:
			if err := f.members[0].kill(time.Since(f.start)); err != nil {
				return fmt.Errorf("loadtest: kill: %w", err)
			}
		case <-tick.C:
			f.tick(time.Since(f.start), f.counts())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// part waits for the workers to drain. One that does not is killed, and what it
// has not answered is lost.
func (f *fleet) part(ctx context.Context) error {
	limit := f.options.minutes(drainMinutes) + goneWithin
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var errs []error
	for i, m := range f.members {
		select {
		case <-m.gone:
			if m.killed == 0 && (m.ended != nil || !m.bye) {
				errs = append(errs, fmt.Errorf("%w: process %d: %w", errEarly, i, cmp.Or(m.ended, errNoBye)))
			}
		case <-timer.C:
			return fmt.Errorf("loadtest: process %d did not end within %v", i, limit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// errEarly is a worker that ended by itself. What is known of the others is still
// worth a report.
var errEarly = errors.New("loadtest: a process ended early")

// errNoBye is why, when the process itself named no error.
var errNoBye = errors.New("it did not say bye")

// close ends what is left of the fleet.
func (f *fleet) close() {
	for _, m := range f.members {
		_ = m.child.in.Close()
		_ = m.child.kill()
		<-m.gone
	}
}

// counts sums up the processes that have not been killed.
func (f *fleet) counts() counts {
	var sum counts
	for _, m := range f.members {
		m.mu.Lock()
		if m.killed == 0 {
			sum.waiting += m.counts.waiting
			sum.running += m.counts.running
			sum.ended += m.counts.ended
			sum.refused += m.counts.refused
		}
		m.mu.Unlock()
	}
	return sum
}

// histories are what became of all jobs, by process.
func (f *fleet) histories() []history {
	all := make([]history, len(f.members))
	for i, m := range f.members {
		m.mu.Lock()
		all[i] = history{killed: m.killed, records: make([]record, 0, len(m.records))}
		for _, r := range m.records {
			all[i].records = append(all[i].records, r)
		}
		m.mu.Unlock()
	}
	return all
}
