package ledger

import (
	"reflect"
	"testing"
	"time"
)

// The line and its oracle get the same random calls of a few processes. They must agree
// on every decision and every wait, on who is told what, and on what the line has come to.
func TestLineAgreesWithOracle(t *testing.T) {
	aged := 0
	seeded(t, 4, func(t *testing.T, seed uint64) {
		c, m, o := newLineCalls(seed), NewMemory(), newLineOracle()
		var told []turn
		for _, p := range c.processes {
			m.watchers[p] = func(in time.Duration) { told = append(told, turn{p, in}) }
		}
		for range 800 {
			k := c.next()
			time.Sleep(k.pause)
			told, o.told, o.now = nil, nil, m.now()
			same := func(what string, got, want any) {
				t.Helper()
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s at %d by %+v:\n%+v, want\n%+v", what, o.now, k, got, want)
				}
			}
			ds, err := k.on(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			same("decisions", ds, o.call(k))
			same("told", told, o.told)
			state, _ := m.Inspect(t.Context())
			same("state", state, o.state)
			c.decided(k.reserve, ds)
		}
		if s := o.state; s.Grants < 80 || s.Messages < 50 {
			t.Errorf("%+v: it shows little", s)
		}
		aged += o.aged
	})
	if aged == 0 {
		t.Error("no grant was overdue")
	}
}

// What is decided does not depend on how the calls of one time are cut into batches.
func TestLineCutAnyhow(t *testing.T) {
	seeded(t, 2, func(t *testing.T, seed uint64) {
		for trial := range uint64(60) {
			c, whole, single := newLineCalls(seed+trial), NewMemory(), NewMemory()
			for range 30 + c.rng.IntN(60) {
				k := c.next()
				time.Sleep(k.pause)
				ds, _ := k.on(t.Context(), whole)
				_, _ = k.on(t.Context(), single)
				c.decided(k.reserve, ds)
			}
			k := lineCall{reserve: c.batch()}
			got, _ := k.on(t.Context(), whole)
			var want []Decision
			for i := range k.reserve {
				one := lineCall{reserve: k.reserve[i : i+1]}
				ds, _ := one.on(t.Context(), single)
				want = append(want, ds...)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("trial %d: %+v:\n%+v, want\n%+v", trial, k.reserve, got, want)
			}
		}
	})
}
