package dispatcher

import (
	"context"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// renewer keeps the leases of running jobs alive, three times per lease. While
// there are none it sleeps.
func (d *Dispatcher) renewer(ctx context.Context) {
	ledg, ok := d.cfg.Ledger.(ledger.Renewer)
	if !ok {
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	backoff := firstBackoff
	for {
		select {
		case <-d.renew:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		leases, every := d.leases()
		if every == 0 {
			continue
		}
		since := d.now()
		call, cancel := context.WithTimeout(ctx, d.cfg.LedgerTimeout)
		err := ledg.Renew(call, leases)
		cancel()
		d.called("renew", since, err)
		if err != nil {
			every = min(every, backoff)
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = firstBackoff
		}
		timer.Reset(every)
	}
}

// lease keeps a job's leases alive from now on, if it has any. The renewer is told
// when it would come too late for them.
func (d *Dispatcher) lease(t *task) {
	every := renewal(t)
	if every == 0 {
		return
	}
	d.leased[t] = struct{}{}
	if d.renewal == 0 || every < d.renewal {
		d.renewal = every
		select {
		case d.renew <- struct{}{}:
		default:
		}
	}
}

// leases returns the leases of all running jobs, and how often to renew them; 0
// when there are none.
func (d *Dispatcher) leases() (all []ledger.Lease, every time.Duration) {
	d.mu.Lock()
	defer d.unlock()
	for t := range d.leased {
		for _, c := range t.charges {
			if c.Limit.Unit == ledger.InFlight {
				all = append(all, ledger.Lease{ID: t.id(), Limit: c.Limit})
			}
		}
		if third := renewal(t); every == 0 || third < every {
			every = third
		}
	}
	d.renewal = every
	return all, every
}

// renewal is how often a job's leases have to be renewed: a third of the shortest.
// 0 means that it has none.
func renewal(t *task) (every time.Duration) {
	for _, c := range t.charges {
		if c.Limit.Unit != ledger.InFlight {
			continue
		}
		third := time.Duration(c.Limit.Shape(0).Window) * time.Microsecond / 3
		if every == 0 || third < every {
			every = third
		}
	}
	return every
}

func hasLease(t *task) bool { return renewal(t) > 0 }
