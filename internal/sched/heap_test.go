package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// temporalio/temporal#9370: random pushes, removals and moves, with the index of
// every item compared with its position after each.
func TestHeap(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	type thing struct {
		key
		at int32
	}
	h := heap[thing]{place: func(v *thing) *int32 { return &v.at }}
	in := map[*thing]bool{}
	all := make([]thing, 300)
	for range 20_000 {
		v := &all[rnd.IntN(len(all))]
		if rnd.IntN(3) == 0 {
			h.remove(v)
			delete(in, v)
		} else {
			v.key = key{rnd.Int64N(50), rnd.Int64N(3)}
			h.set(v, v.key)
			in[v] = true
		}
		if err := h.check(func(v *thing) key { return v.key }); err != nil {
			t.Fatal(err)
		}
		if h.len() != len(in) || in[v] != (v.at != 0) {
			t.Fatalf("%d items, want %d", h.len(), len(in))
		}
	}
	var got []key
	for h.len() > 0 {
		got = append(got, h.items[0].key)
		h.remove(h.items[0].of)
	}
	if !slices.IsSortedFunc(got, func(a, b key) int {
		if a.less(b) {
			return -1
		}
		return 1
	}) {
		t.Error("items left out of order")
	}
}
