package dispatcher

import (
	"context"
	"slices"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// version is that of the plan.
func (d *Dispatcher) version() uint64 {
	if p, ok := d.cfg.Plan.(Changing); ok {
		return p.Version()
	}
	return 0
}

// replan charges the jobs that wait anew when the plan has changed. None is reserving
// then. One that the plan refuses now keeps its charges, of which the ledger judges.
func (d *Dispatcher) replan() {
	v := d.version()
	if v == d.planned {
		return
	}
	d.planned = v
	clear(d.groups)
	var moved []*task
	for _, t := range slices.Concat(d.timers, d.fresh) { // who is queued or paused is in one of them
		if t.version == v || t.state != queued && t.state != paused {
			continue
		}
		t.version = v
		charges, err := d.cfg.Plan.Charges(&t.spec, t.estimate)
		if err != nil {
			continue
		}
		t.charges = charges
		if d.line == nil { // which tells when a limit has room
			for _, c := range charges {
				d.queue.Free(c.Limit.Key)
			}
		}
		if d.group(t).name == t.Group {
			continue
		}
		if t.state == queued {
			d.queue.Remove(&t.Job)
		}
		moved = append(moved, t)
	}
	for t := range d.leased {
		d.chargeLate(t)
	}
	if d.line != nil && len(moved) > 0 {
		d.left = d.withdrawn(job.Classes) // by the names of the lanes that ended
	}
	for _, t := range moved {
		g := d.group(t)
		t.Group, t.Shared = g.name, g.shared
		if t.state == queued {
			d.push(t)
		}
	}
}

// chargeLate charges a job that runs to the limits that were unknown when it was
// granted: the provider counted it.
func (d *Dispatcher) chargeLate(t *task) {
	v := d.version()
	if t.version == v {
		return
	}
	t.version = v
	charges, err := d.cfg.Plan.Charges(&t.spec, t.estimate)
	if err != nil {
		return
	}
	r := ledger.Request{ID: ledger.ID{Job: newID(), Attempt: 1}}
	for _, c := range charges {
		known := slices.ContainsFunc(t.charges, func(o ledger.Charge) bool { return o.Limit.Key == c.Limit.Key })
		if !known && c.Limit.Unit != ledger.InFlight {
			c.Overdraw = true
			r.Charges = append(r.Charges, c)
		}
	}
	if len(r.Charges) > 0 {
		d.late = append(d.late, r)
	}
}

// catchUp hands late charges to the ledger. One that it does not hear of shows as
// somebody else's in what the provider tells.
func (d *Dispatcher) catchUp(ctx context.Context, late []ledger.Request) {
	for batch := range slices.Chunk(late, maxBatch) {
		since := d.now()
		call, cancel := context.WithTimeout(ctx, d.cfg.LedgerTimeout)
		_, err := d.cfg.Ledger.Reserve(call, batch)
		cancel()
		d.called("reserve", since, err)
		for _, r := range batch {
			d.settler.add(unsettled{ledger.Settlement{ID: r.ID, Final: final(nil, r.Charges, job.Usage{})}, r.Charges})
		}
	}
}
