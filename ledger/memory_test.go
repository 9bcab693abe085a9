package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What Memory keeps of tenants that come once is gone soon after, whatever became of
// their calls.
func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		const tenants = 5000
		n := uint64(0)
		ask := func(limits ...*Limit) ID {
			n++
			r := Request{}
			binary.BigEndian.PutUint64(r.ID.Job[:], n)
			for _, l := range limits {
				r.Charges = append(r.Charges, Charge{Limit: l, Amount: 1})
			}
			if ds, err := m.Reserve(t.Context(), []Request{r}); err != nil || ds[0].Outcome != Granted {
				t.Fatal(ds, err)
			}
			return r.ID
		}
		for i := range tenants {
			minute := &Limit{Key: fmt.Sprint(i), Unit: Tokens, Amount: 100, Window: time.Minute}
			day := &Limit{Key: fmt.Sprint(i), Unit: MicroUSD, Amount: 100, Window: 24 * time.Hour, Unpaced: true}
			running := &Limit{Key: fmt.Sprint(i), Unit: InFlight, Amount: 1}
			id := ask(minute, running, day)
			s := Settlement{ID: id, Final: []Final{{Limit: minute, Admitted: 1}, {Limit: running}, {Limit: day}}}
			switch i % 4 {
			case 0:
				s.Final = s.Final[:1] // the day's charge stands, the lease ends on its own
			case 1:
				s.Cancel = true
			case 2:
				continue // its process died
			}
			if err := m.Settle(t.Context(), []Settlement{s}); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.budgets) != 3*tenants {
			t.Fatalf("%d budgets of %d", len(m.budgets), 3*tenants)
		}
		one := &Limit{Key: "one", Unit: Tokens, Amount: MaxAmount, Window: time.Minute, Unpaced: true}
		left := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			for range 3 * tenants {
				ask(one)
			}
			if len(m.budgets) > want+1 || m.idle.Len() != len(m.budgets) {
				t.Fatalf("%d budgets after %v, want %d", len(m.budgets), after, want)
			}
		}
		left(11*time.Second, 3*tenants)
		// A window is over: the days of those that were charged are left, and all of
		// those that never settled.
		left(2*time.Minute, tenants)
		left(2*time.Hour, tenants/2)
		left(25*time.Hour, 0)
	})
}

// A caller that went away must not leak budget: Instawork/llm-proxy#40, where the
// settlement went by the context of a request whose client had left.
func TestMemorySettlesForOneWhoLeft(t *testing.T) {
	m := NewMemory()
	l := &Limit{Key: "tpm", Unit: Tokens, Amount: 100, Window: time.Minute, Unpaced: true}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := m.Reserve(ctx, []Request{{Charges: []Charge{{Limit: l, Amount: 100}}}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := m.Settle(ctx, []Settlement{{Final: []Final{{Limit: l}}}}); err != nil {
		t.Fatal(err)
	}
	if bs, err := m.Snapshot(t.Context(), []*Limit{l}); err != nil || bs[0].Used != 0 {
		t.Fatal(bs, err)
	}
}

// x/time/rate's TestLimiterJumpBackwards, and spring-cloud/spring-cloud-gateway#2412: a
// caller with an older time refills the same second again.
func TestClockGoesBack(t *testing.T) {
	l := &Limit{Key: "tpm", Unit: Tokens, Amount: 6100, Window: time.Minute, Burst: 1000, Guard: 765625 * time.Microsecond}
	s := l.Shape(0) // 100 a second
	const second = int64(time.Second / time.Microsecond)
	k := bucket{}.advance(10*second, l.Amount, &s).take(1000, 10*second, &s)
	for _, step := range []struct{ at, level int64 }{{11, 100}, {10, 100}, {10, 100}, {11, 100}, {9, 100}, {12, 200}, {11, 200}} {
		if k = k.advance(step.at*second, l.Amount, &s); k.level != step.level {
			t.Fatalf("%d at %d s, want %d", k.level, step.at, step.level)
		}
	}
	var w window
	w.advance(10*second, &s)
	w.add(leaves(10*second, s.Guard, &s), 100)
	for _, step := range []struct{ at, used int64 }{{11, 100}, {10, 100}, {72, 0}, {10, 0}, {71, 0}} {
		if w.advance(step.at*second, &s); w.used != step.used {
			t.Fatalf("%d at %d s, want %d", w.used, step.at, step.used)
		}
	}
	if w.add(leaves(10*second, s.Guard, &s), -100) {
		t.Fatal("a charge that left came back with the clock")
	}
}
