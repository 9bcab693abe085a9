package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// errDown is what a ledger says that is not there.
var errDown = errors.New("connection refused")

// audit is a ledger that may block, in front of another one. It checks that each
// reservation is settled exactly once, that nothing is settled that was not
// reserved, and that a settlement that is repeated says the same again.
type audit struct {
	inner *ledger.Memory

	mu     sync.Mutex
	ids    map[ledger.ID]*history
	calls  map[string][]time.Time
	faults []string
	first  func(ctx context.Context, op string) error
	last   func(op string) error
}

// history is what is known of one reservation.
type history struct {
	lost    bool // an answer was lost, so that it may have been granted
	granted bool
	sent    *ledger.Settlement
	settled bool // and the dispatcher knows it
}

// direct is an audit that never blocks.
type direct struct{ *audit }

func (direct) NeverBlocks() {}

// newAudit returns an audit that complains at the end of the test.
func newAudit(t *testing.T, inner *ledger.Memory) *audit {
	a := &audit{inner: inner, ids: make(map[ledger.ID]*history), calls: make(map[string][]time.Time)}
	t.Cleanup(func() {
		for _, f := range a.complaints() {
			t.Error("ledger: ", f)
		}
	})
	return a
}

// before sets what happens before each call: an error means that the ledger did
// not see it.
func (a *audit) before(f func(ctx context.Context, op string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.first = f
}

// after sets what happens after each call: an error means that its answer is lost.
func (a *audit) after(f func(op string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = f
}

// down says that the ledger answers nothing until its caller gives up.
func down(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (a *audit) enter(ctx context.Context, op string) error {
	a.mu.Lock()
	a.calls[op] = append(a.calls[op], time.Now())
	f := a.first
	a.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, op)
}

func (a *audit) leave(op string) error {
	a.mu.Lock()
	f := a.last
	a.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op)
}

// count is how often the ledger was called.
func (a *audit) count(op string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls[op])
}

func (a *audit) of(id ledger.ID) *history {
	if a.ids[id] == nil {
		a.ids[id] = new(history)
	}
	return a.ids[id]
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *audit) Reserve(ctx context.Context, batch []ledger.Request) ([]ledger.Decision, error) {
	err := a.enter(ctx, "reserve")
	var out []ledger.Decision
	if err == nil {
		out, err = a.inner.Reserve(ctx, batch)
		if err == nil {
			a.mu.Lock()
			for i := range batch {
				if out[i].Outcome == ledger.Granted {
					a.of(batch[i].ID).granted = true
				}
			}
			a.mu.Unlock()
			err = a.leave("reserve")
		}
	}
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := range batch {
			a.of(batch[i].ID).lost = true
		}
		return nil, err
	}
	return out, nil
}

func (a *audit) Settle(ctx context.Context, batch []ledger.Settlement) error {
	a.mu.Lock()
	for i := range batch {
		h := a.of(batch[i].ID)
		s := batch[i]
		s.Final = append([]ledger.Final(nil), s.Final...)
		switch {
		case h.settled:
			a.fault("%v settled again", s.ID)
		case h.sent != nil && !reflect.DeepEqual(*h.sent, s):
			a.fault("%v settled with other numbers: %+v, then %+v", s.ID, *h.sent, s)
		case !h.granted && !(s.Cancel && h.lost):
			a.fault("%v settled without a grant", s.ID)
		}
		h.sent = &s
	}
	a.mu.Unlock()
	if err := a.enter(ctx, "settle"); err != nil {
		return err
	}
	if err := a.inner.Settle(ctx, batch); err != nil {
		return err
	}
	if err := a.leave("settle"); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		a.of(batch[i].ID).settled = true
	}
	return nil
}

func (a *audit) Renew(ctx context.Context, leases []ledger.Lease) error {
	if err := a.enter(ctx, "renew"); err != nil {
		return err
	}
	return a.inner.Renew(ctx, leases)
}

// complaints says what is wrong once the dispatcher has ended.
func (a *audit) complaints() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.faults
	for id, h := range a.ids {
		if (h.granted || h.lost) && !h.settled {
			all = append(all, fmt.Sprintf("%v was never settled: %+v", id, *h))
		}
	}
	return all
}
