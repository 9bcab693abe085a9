package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// final works out what each charge of an attempt comes to, in room if it is enough.
//
// A request that was sent stays counted as a request. What a provider does not
// correct stays as it was reserved, and so does everything that nobody knows.
func final(room []ledger.Final, charges []ledger.Charge, u job.Usage) []ledger.Final {
	out := room[:0]
	input, output := tokens(u)
	cached := min(max(u.Cached, 0), input)
	written := min(max(u.CacheWrite, 0), input-cached)
	for i, c := range charges {
		out = append(out, ledger.Final{Limit: c.Limit, Admitted: c.Amount})
		if u.Known != job.Metered || c.Limit.Settle == ledger.SettleFinal {
			continue
		}
		produced := c.Limit.Settle == ledger.SettleProduced
		input, output := min(c.Limit.Counts.InputOf(input, cached, written), ledger.MaxAmount), min(c.Limit.Counts.OutputOf(output), ledger.MaxAmount)
		switch c.Limit.Unit {
		case ledger.Tokens:
			out[i].Admitted = input
			if produced {
				out[i].Late = output
			} else {
				out[i].Admitted = min(input+output, ledger.MaxAmount)
			}
		case ledger.InputTokens:
			out[i].Admitted = input
		case ledger.OutputTokens:
			out[i].Admitted = output
			if produced {
				out[i].Admitted, out[i].Late = 0, output
			}
		}
	}
	return out
}

// tokens is the usage as far as it can be true: a ledger refuses the rest, and with
// it the settlement.
func tokens(u job.Usage) (input, output int64) {
	return min(max(u.Input, 0), ledger.MaxAmount), min(max(u.Output, 0), ledger.MaxAmount)
}

// spent is what fairness counts of an attempt.
func spent(t *task, u job.Usage) int64 {
	switch u.Known {
	case job.Metered:
		input, output := tokens(u)
		return input + output
	case job.NotSent:
		return 0
	}
	return t.Cost
}

// charged is what of a settlement is tokens, as cost is of the charges.
func charged(f []ledger.Final) (parts int64) {
	for _, f := range f {
		switch f.Limit.Unit {
		case ledger.Tokens:
			return f.Admitted + f.Late
		case ledger.InputTokens, ledger.OutputTokens:
			parts += f.Admitted + f.Late
		}
	}
	return parts
}

// cancelled is the settlement that gives an attempt's reservation back.
func cancelled(t *task) unsettled {
	return unsettled{ledger.Settlement{ID: t.id(), Final: final(nil, t.charges, job.Usage{}), Cancel: true}, t.charges}
}

// settle hands an attempt's settlement to the ledger. The caller's context has no
// say.
func (d *Dispatcher) settle(t *task, u *unsettled) {
	if !d.direct {
		d.settler.add(*u)
		return
	}
	t.settle[0] = u.Settlement
	if err := d.cfg.Ledger.Settle(context.Background(), t.settle[:]); err != nil {
		u.Final = slices.Clone(u.Final) // what it was made in is used again
		d.settler.add(*u)
	}
}

// unsettled is a settlement on its way, with what was reserved.
type unsettled struct {
	ledger.Settlement
	charges []ledger.Charge
}

// settler sends settlements to a ledger that may block, in batches, and repeats
// them until the ledger has answered: settling twice is harmless.
type settler struct {
	d    *Dispatcher
	wake chan struct{}

	mu      sync.Mutex
	waiting []unsettled
	sending []unsettled // written by run only
	lost    int         // given up since that was last logged
}

const (
	// maxUnsettled bounds what is kept while the ledger is away. What is more is
	// given up: its reservations stand.
	maxUnsettled = 1 << 17
	// flushFor is how long settlements are still tried after all else ended.
	flushFor = 2 * time.Second
)

func newSettler(d *Dispatcher) *settler {
	return &settler{d: d, wake: make(chan struct{}, 1)}
}

func (s *settler) add(x unsettled) {
	s.mu.Lock()
	if len(s.waiting) < maxUnsettled {
		s.waiting = append(s.waiting, x)
	} else {
		s.lost++
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *settler) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) + len(s.sending)
}

// run sends until ctx ends, and then what is left for a little longer.
func (s *settler) run(ctx context.Context) {
	for {
		select {
		case <-s.wake:
			s.drain(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), flushFor)
			defer cancel()
			s.drain(last)
			if n := s.pending(); n > 0 {
				s.d.cfg.Logger.Error("the ledger did not take the last settlements; their reservations stand", "count", n)
			}
			return
		}
	}
}

// drain sends what there is until nothing is left or ctx ends.
func (s *settler) drain(ctx context.Context) {
	backoff := firstBackoff
	for {
		s.mu.Lock()
		if len(s.sending) == 0 {
			n := min(len(s.waiting), maxBatch)
			s.sending = append(s.sending, s.waiting[:n]...)
			clear(s.waiting[:n])
			s.waiting = s.waiting[n:]
		}
		lost := s.lost
		s.lost = 0
		s.mu.Unlock()
		if lost > 0 {
			s.d.cfg.Logger.Error("too many settlements wait for the ledger; the reservations of the rest stand", "count", lost)
		}
		if len(s.sending) == 0 {
			return
		}
		batch := make([]ledger.Settlement, len(s.sending))
		for i := range batch {
			batch[i] = s.sending[i].Settlement
		}
		since := s.d.now()
		// A call under way is not cut off when all else has ended: it has a
		// deadline of its own.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.d.cfg.LedgerTimeout)
		err := s.d.cfg.Ledger.Settle(call, batch)
		cancel()
		s.d.called("settle", since, err)
		if err != nil {
			select {
			case <-time.After(backoff):
				backoff = min(2*backoff, maxBackoff)
				continue
			case <-ctx.Done():
				return
			}
		}
		backoff = firstBackoff
		s.d.settled(s.sending)
		s.mu.Lock()
		clear(s.sending)
		s.sending = s.sending[:0]
		s.mu.Unlock()
	}
}

// settled lets jobs ask again that were denied by limits on which something came
// back.
func (d *Dispatcher) settled(batch []unsettled) {
	d.mu.Lock()
	defer d.unlock()
	if d.waiting.Load() == 0 {
		return
	}
	freed := false
	for i := range batch {
		freed = d.came(&batch[i]) || freed
	}
	if freed {
		d.look()
	}
}

// came lets the jobs ask again that were denied by a limit on which something came
// back, and reports whether anything did.
func (d *Dispatcher) came(u *unsettled) bool {
	freed := false
	for i, c := range u.charges {
		if u.free(i) && (d.line == nil || c.Limit.Own) {
			d.queue.Free(c.Limit.Key)
			d.freed[c.Limit.Key] = struct{}{}
			freed = true
		}
	}
	return freed
}

// free reports whether something comes back on the limit of a charge.
func (u *unsettled) free(i int) bool {
	c, f := u.charges[i], u.Final[i]
	return u.Cancel || c.Limit.Unit == ledger.InFlight || f.Admitted+f.Late < c.Amount
}

func (u *unsettled) frees() bool {
	for i := range u.charges {
		if u.free(i) {
			return true
		}
	}
	return false
}
