package ledgertest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// harness is one test's ledger, and steps on it that fail the test when they do not
// go as said.
type harness struct {
	*testing.T
	Ledger
	cfg  Config
	name string

	last atomic.Uint64 // number of the last id
	mu   sync.Mutex
	made map[ledger.ID][]ledger.Charge // by this harness, to settle them
}

func newHarness(t *testing.T, cfg Config) *harness {
	name := fmt.Sprintf("test-%016x", rand.Uint64())
	return &harness{T: t, Ledger: cfg.Open(t, name), cfg: cfg, name: name, made: make(map[ledger.ID][]ledger.Charge)}
}

// process opens another handle on the test's ledger.
func (h *harness) process() Ledger { return h.cfg.Open(h.T, h.name) }

func (h *harness) id() ledger.ID {
	id := ledger.ID{Attempt: 1}
	binary.BigEndian.PutUint64(id.Job[8:], h.last.Add(1))
	return id
}

func of(l *ledger.Limit, amount int64) ledger.Charge { return ledger.Charge{Limit: l, Amount: amount} }

func final(l *ledger.Limit, admitted int64) ledger.Final {
	return ledger.Final{Limit: l, Admitted: admitted}
}

// tokens is a limit over a minute without a bucket, so that a test can take what it
// likes and nothing comes back while it runs.
func tokens(key string, amount int64) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: amount, Window: time.Minute, Unpaced: true}
}

func requests(key string, amount int64) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.Requests, Amount: amount, Window: time.Minute, Unpaced: true}
}

// paced is a limit over a minute with a bucket of the default size.
func paced(key string, amount int64) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: amount, Window: time.Minute}
}

func inFlight(key string, amount int64, lease time.Duration) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.InFlight, Amount: amount, Window: lease}
}

// with returns a limit that differs from l as change says.
func with(l *ledger.Limit, change func(*ledger.Limit)) *ledger.Limit {
	c := *l
	change(&c)
	return &c
}

// perUnit is how often the limit's bucket gains a unit, as a fraction of
// microseconds over units.
func perUnit(l *ledger.Limit) (micros, units int64) {
	s := l.Shape(0)
	return s.Tick * s.Ticks, l.Amount
}

// gains is how long the bucket of l takes to gain n units.
func gains(l *ledger.Limit, n int64) time.Duration {
	micros, units := perUnit(l)
	return time.Duration((n*micros+units-1)/units) * time.Microsecond
}

func (h *harness) decide(batch ...ledger.Request) []ledger.Decision {
	h.Helper()
	ds, err := h.Reserve(h.Context(), batch)
	if err != nil {
		h.Fatal(err)
	}
	if len(ds) != len(batch) {
		h.Fatalf("%d decisions for %d requests", len(ds), len(batch))
	}
	for i, d := range ds {
		h.sound(batch[i], d)
	}
	return ds
}

// sound checks what is true of every decision.
func (h *harness) sound(r ledger.Request, d ledger.Decision) {
	h.Helper()
	named := slices.ContainsFunc(r.Charges, func(c ledger.Charge) bool { return c.Limit == d.Limit })
	switch d.Outcome {
	case ledger.Denied:
		// planningcenter/developers#606, redis/redis#14826 and WeTransfer/prorate#40: a
		// hint of 0 or less is no wait at all.
		if d.Wait < time.Microsecond || !named {
			h.Fatalf("denied: wait %v on limit %v", d.Wait, d.Limit)
		}
	case ledger.TooLarge:
		if d.Wait != 0 || !named {
			h.Fatalf("too large: wait %v on limit %v", d.Wait, d.Limit)
		}
	default:
		if d.Wait != 0 || d.Limit != nil {
			h.Fatalf("%v: wait %v on limit %v", d.Outcome, d.Wait, d.Limit)
		}
	}
}

func (h *harness) try(charges ...ledger.Charge) (ledger.ID, ledger.Decision) {
	h.Helper()
	id := h.id()
	return id, h.tryAs(id, charges...)
}

func (h *harness) tryAs(id ledger.ID, charges ...ledger.Charge) ledger.Decision {
	h.Helper()
	h.mu.Lock()
	h.made[id] = charges
	h.mu.Unlock()
	return h.decide(ledger.Request{ID: id, Charges: charges})[0]
}

func (h *harness) grant(charges ...ledger.Charge) ledger.ID {
	h.Helper()
	id, d := h.try(charges...)
	h.want(d, ledger.Granted)
	return id
}

func (h *harness) deny(charges ...ledger.Charge) ledger.Decision {
	h.Helper()
	_, d := h.try(charges...)
	h.want(d, ledger.Denied)
	return d
}

func (h *harness) want(d ledger.Decision, want ledger.Outcome) {
	h.Helper()
	if d.Outcome != want {
		h.Fatalf("%v (limit %v, wait %v), want %v", d.Outcome, d.Limit, d.Wait, want)
	}
}

func (h *harness) settle(id ledger.ID, finals ...ledger.Final) {
	h.Helper()
	h.settleAll(ledger.Settlement{ID: id, Final: finals})
}

func (h *harness) settleAll(batch ...ledger.Settlement) {
	h.Helper()
	if err := h.Settle(h.Context(), batch); err != nil {
		h.Fatal(err)
	}
}

// cancelled is the settlement that gives back all that id took.
func (h *harness) cancelled(id ledger.ID) ledger.Settlement {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := ledger.Settlement{ID: id, Cancel: true}
	for _, c := range h.made[id] {
		s.Final = append(s.Final, final(c.Limit, c.Amount))
	}
	return s
}

func (h *harness) cancel(id ledger.ID) {
	h.Helper()
	h.settleAll(h.cancelled(id))
}

// end settles id at what it reserved.
func (h *harness) end(id ledger.ID) {
	h.Helper()
	s := h.cancelled(id)
	s.Cancel = false
	h.settleAll(s)
}

func (h *harness) renew(id ledger.ID, l *ledger.Limit) {
	h.Helper()
	if err := h.Renew(h.Context(), []ledger.Lease{{ID: id, Limit: l}}); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) balances(limits ...*ledger.Limit) []ledger.Balance {
	h.Helper()
	bs, err := h.Snapshot(h.Context(), limits)
	if err != nil {
		h.Fatal(err)
	}
	if len(bs) != len(limits) {
		h.Fatalf("%d balances for %d limits", len(bs), len(limits))
	}
	for i, b := range bs {
		if b.Limit != limits[i] {
			h.Fatalf("balance %d is of %v, not of %v", i, b.Limit, limits[i])
		}
		// mailgun/gubernator#87: more remains than the limit.
		if s := b.Limit.Shape(0); b.Available > b.Limit.Amount || s.Burst > 0 && b.Available > s.Burst {
			h.Fatalf("%d available of %+v", b.Available, *b.Limit)
		}
	}
	return bs
}

func (h *harness) used(l *ledger.Limit, want int64) {
	h.Helper()
	if b := h.balances(l)[0]; b.Used != want {
		h.Fatalf("%d used of %q, want %d", b.Used, l.Key, want)
	}
}

func (h *harness) available(l *ledger.Limit, want int64) {
	h.Helper()
	if b := h.balances(l)[0]; b.Available != want {
		h.Fatalf("%d available of %q, want %d", b.Available, l.Key, want)
	}
}

// unchanged returns a check that no balance of these limits moved.
func (h *harness) unchanged(limits ...*ledger.Limit) func() {
	h.Helper()
	before := h.balances(limits...)
	return func() {
		h.Helper()
		if after := h.balances(limits...); !slices.Equal(before, after) {
			h.Fatalf("balances went from %+v to %+v", before, after)
		}
	}
}

func (h *harness) sleep(d time.Duration) { time.Sleep(d) }
