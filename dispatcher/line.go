package dispatcher

import (
	"context"
	"strconv"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// maxTickets is how many lanes of a class stand in line at once for a limit. With one of
// all, a tenant with work in many processes would have that many times its share.
const maxTickets = 8

// place is where the job stands in the line, but for its lane's name: only tickets
// need that.
func (d *Dispatcher) place(t *task) ledger.Place {
	p := ledger.Place{
		Process: d.name, Tenant: t.Tenant, Class: t.Class, Weight: 1, Cost: t.Cost,
		AgingStep: d.cfg.AgingStep, AgedShare: int64(d.cfg.AgedShare),
	}
	if d.cfg.Weight != nil {
		p.Weight = d.cfg.Weight(t.Tenant)
	}
	return p
}

func lane(t *task) string { return strconv.Itoa(t.Class) + t.Tenant + "\x00" + t.Group }

// nextInLine is sched's Next for a ledger that keeps the line. The lanes with
// tickets ask when they are told to. Others ask only if they do not wait for the same
// behind those, but for the oldest job of each class, so that it can become overdue.
func (d *Dispatcher) nextInLine(now time.Duration, worst int) *sched.Job {
	q := d.queue
	if j := q.NextTicket(worst); j != nil {
		return j
	}
	if j := q.NextBeside(now, worst, maxTickets); j != nil {
		return j
	}
	if d.cfg.AgingStep > 0 {
		for c := range min(worst, job.Classes-1) + 1 {
			if j := q.NextOldest(c); j != nil {
				return j
			}
		}
	}
	return nil
}

// turned is called by the ledger when a ticket may go sooner than it was told.
func (d *Dispatcher) turned(in time.Duration) {
	at := d.now() + in
	d.mu.Lock()
	sooner := at < d.turn
	d.turn = min(d.turn, at)
	d.unlock()
	if sooner {
		d.look()
	}
}

// watcher hears whose turn it is for as long as ctx lasts.
func (d *Dispatcher) watcher(ctx context.Context) {
	for backoff := firstBackoff; ctx.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		since := d.now()
		err := d.line.Watch(ctx, d.name, d.turned)
		if ctx.Err() != nil {
			return
		}
		d.called("watch", since, err)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
}

// withdraw takes tickets out of the line. What the ledger does not hear it forgets
// a little later by itself.
func (d *Dispatcher) withdraw(ctx context.Context, requests []ledger.Request) {
	if len(requests) == 0 {
		return
	}
	since := d.now()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.LedgerTimeout)
	defer cancel()
	err := d.line.Withdraw(call, requests)
	d.called("withdraw", since, err)
}

// withdrawn are the tickets that have to leave the line: of lanes that ended, also by a
// changed plan, and of the classes from class on.
func (d *Dispatcher) withdrawn(class int) []ledger.Request {
	requests := d.left
	d.left = nil
	for _, j := range d.queue.Withdraw(class) {
		t := j.Value.(*task)
		r := ledger.Request{ID: t.id(), Charges: t.charges, Place: d.place(t)}
		r.Place.Lane = lane(t)
		requests = append(requests, r)
	}
	return requests
}
