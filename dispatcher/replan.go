package dispatcher

import "slices"

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
		g := d.group(t)
		if g.name == t.Group {
			continue
		}
		if t.state == queued {
			d.queue.Remove(&t.Job)
		}
		t.Group, t.Shared = g.name, g.shared
		if t.state == queued {
			d.push(t)
		}
	}
}
