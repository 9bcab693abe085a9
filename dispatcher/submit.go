package dispatcher

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Submit queues a job and returns at once: it never waits for room or budget.
// The job runs in the pool with ctx; when ctx ends while it waits, it leaves the
// queue. For fire-and-forget pass context.WithoutCancel(ctx).
//
// The error is a *ShedError, a *TooLargeError, one that wraps ErrSpec, what the
// estimator or the plan said, or ctx's. After a nil error exactly one result
// arrives on the ticket.
func (d *Dispatcher) Submit(ctx context.Context, s job.Spec, f job.Func) (*Ticket, error) {
	if f == nil {
		return nil, fmt.Errorf("%w: no function", ErrSpec)
	}
	t := &task{spec: s, ctx: ctx, f: f, results: make(chan job.Result, 1)}
	if err := d.describe(t); err != nil {
		return nil, err
	}
	d.mu.Lock()
	shed := d.admit(t)
	d.unlock()
	if shed != nil {
		d.observeShed(t, shed)
		return nil, shed
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { d.cancelTask(t, context.Cause(ctx)) })
		d.mu.Lock()
		over := t.state == done
		if !over {
			t.stop = stop
		}
		d.unlock()
		if over {
			stop()
		}
	}
	return &Ticket{d: d, t: t}, nil
}

// admit puts a described job in the queue, or sheds it.
func (d *Dispatcher) admit(t *task) *ShedError {
	shed := d.bounds(t.Class, t.Tenant)
	if shed == nil {
		shed = d.hopeless(t)
	}
	if shed != nil {
		return shed
	}
	g := d.group(t)
	t.Group, t.Shared = g.name, g.shared
	d.makeRoom(t)
	d.rate.look(t.Arrived, false, d.queue.Len() > 0)
	d.push(t)
	d.waiting.Add(1)
	d.fresh = append(d.fresh, t)
	if d.running.Load() < int64(d.cfg.Workers) || t.deadline < d.next {
		d.look()
	}
	return nil
}

// push puts a job in the queue.
func (d *Dispatcher) push(t *task) {
	if d.queue.LenClass(t.Class) == 0 {
		d.periods[t.Class]++
	}
	t.state = queued
	d.queue.Push(&t.Job)
}

// describe fills in what the job will cost, where it belongs and until when it
// may wait.
func (d *Dispatcher) describe(t *task) error {
	s := &t.spec
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case !s.Priority.Valid():
		return fmt.Errorf("%w: Priority: %w", ErrSpec, job.ErrPriority)
	case s.Estimate.Input < 0 || s.Estimate.Output < 0:
		return fmt.Errorf("%w: Estimate must not be negative", ErrSpec)
	}
	if s.ID == uuid.Nil {
		s.ID = newID()
	}
	t.Tenant, t.Class = s.Tenant, s.Priority.Class()
	t.Value, t.attempt, t.ask = t, 1, 1
	if err := d.estimate(t); err != nil {
		return err
	}
	t.version = d.version()
	var err error
	if t.charges, err = d.cfg.Plan.Charges(s, t.estimate); err != nil {
		return err
	}
	for _, c := range t.charges {
		if c.Limit != nil && !c.Overdraw && c.Amount > c.Limit.Largest() {
			return &TooLargeError{Limit: c.Limit, Charge: c.Amount}
		}
	}
	// One request of a batch that the ledger can not read would fail the others.
	t.request[0] = ledger.Request{ID: t.id(), Charges: t.charges}
	if err := ledger.CheckBatch(t.request[:]); err != nil {
		return err
	}
	t.Cost = cost(t.charges, t.estimate)
	if d.line != nil && d.direct {
		t.request[0].Place = d.place(t) // see grantNow
	}
	t.Arrived = d.now()
	wait := d.cfg.MaxWait
	if !s.Deadline.IsZero() {
		wait = time.Until(s.Deadline)
	}
	if at, ok := t.ctx.Deadline(); ok {
		wait = min(wait, time.Until(at))
	}
	t.deadline = t.Arrived + min(wait, never/2) // no deadline is so far that the sum overflows
	return nil
}

// estimate takes the job's own estimate, or asks the estimator. That may cost
// more than everything else, so not for a job that would be shed anyway.
func (d *Dispatcher) estimate(t *task) (err error) {
	t.estimate = t.spec.Estimate
	if t.estimate != (job.Estimate{}) {
		return nil
	}
	if d.cfg.Estimator == nil {
		return fmt.Errorf("%w: it has no Estimate, and the dispatcher no Estimator", ErrSpec)
	}
	d.mu.Lock()
	shed := d.bounds(t.Class, t.Tenant)
	d.unlock()
	if shed != nil {
		d.observeShed(t, shed)
		return shed
	}
	t.estimate, err = d.cfg.Estimator.Estimate(t.spec)
	return err
}

// newID makes a random UUID without asking the kernel: an id must be unique, not
// secret, and the runtime's generator is seeded by the kernel.
func newID() (id uuid.UUID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

// cost is what fairness counts: the tokens that are charged.
func cost(charges []ledger.Charge, e job.Estimate) int64 {
	var parts int64
	for _, c := range charges {
		switch c.Limit.Unit {
		case ledger.Tokens:
			return c.Amount
		case ledger.InputTokens, ledger.OutputTokens:
			parts += c.Amount
		}
	}
	if parts > 0 {
		return parts
	}
	return e.Tokens()
}

// group is a set of jobs that stand in line together.
type group struct {
	name   string
	shared []string
}

type groupKey struct {
	model string
	class int
}

// group finds the job's group: those of its model that are charged to the same shared
// limits. In most plans all jobs of a model and class are.
func (d *Dispatcher) group(t *task) group {
	key := groupKey{t.spec.Model, t.Class}
	g, ok := d.groups[key]
	if !ok || !g.has(t.charges) {
		g = group{}
		for _, c := range t.charges {
			if !c.Limit.Own {
				g.shared = append(g.shared, c.Limit.Key)
			}
		}
		g.name = strings.Join(append([]string{t.spec.Model}, g.shared...), "\x00")
		if len(d.groups) >= 4096 {
			clear(d.groups)
		}
		d.groups[key] = g
	}
	return g
}

// has reports whether the shared limits of the charges are those of the group.
func (g *group) has(charges []ledger.Charge) bool {
	n := 0
	for _, c := range charges {
		if c.Limit.Own {
			continue
		}
		if n >= len(g.shared) || g.shared[n] != c.Limit.Key {
			return false
		}
		n++
	}
	return n == len(g.shared)
}
