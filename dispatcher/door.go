package dispatcher

// told is what a job has to be told once nobody holds the lock.
type told struct {
	t        *task
	why      error
	admitted bool // it was in the queue
}

// arrive queues a job for which somebody waits, without ever waiting for the lock:
// whoever holds it lets the job in. If it is shed, that is told on its turn.
func (d *Dispatcher) arrive(t *task) {
	t.state = arriving
	for {
		t.behind = d.arrivals.Load()
		if d.arrivals.CompareAndSwap(t.behind, t) {
			break
		}
	}
	if d.mu.TryLock() {
		d.letIn()
		d.unlock()
	}
}

// letIn queues or sheds all who arrived.
func (d *Dispatcher) letIn() {
	var first *task // the stack has the last on top
	for t := d.arrivals.Swap(nil); t != nil; {
		t.behind, first, t = first, t, t.behind
	}
	for first != nil {
		t := first
		first, t.behind = t.behind, nil
		if t.cancelled != nil {
			t.state = done
			d.tell(t, t.cancelled)
		} else if shed := d.admit(t); shed != nil {
			t.state = done
			d.told = append(d.told, told{t, shed, false})
		}
	}
}

// tell has a job that was queued told why it will not run.
func (d *Dispatcher) tell(t *task, why error) {
	d.told = append(d.told, told{t, why, true})
}

// unlock gives mu back, tells what is to be told, and lets those in who arrived
// while it was held.
func (d *Dispatcher) unlock() {
	for {
		tell := d.told
		d.told = nil
		d.mu.Unlock()
		for _, x := range tell {
			if x.admitted {
				d.gone(x.t, x.why)
			} else {
				d.observeShed(x.t, x.why.(*ShedError))
				x.t.turn <- x.why
			}
		}
		if d.arrivals.Load() == nil || !d.mu.TryLock() {
			return
		}
		d.letIn()
	}
}
