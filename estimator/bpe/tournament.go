package bpe

import "sync"

// tournament merges the parts of a piece. A part is named by where it starts. Its rank
// with the next part competes in a tree in which every four have a parent that holds
// the lowest of them, so that the root holds the lowest of all, and a change goes up
// one level for each factor of four.
func (v *vocabulary) tournament(s string) int {
	t, _ := trees.Get().(*tree)
	if t == nil {
		t = new(tree)
	}
	n := t.merge(v, s)
	// A longer piece is rare: its memory goes back to the runtime.
	if cap(t.next) <= maxKept {
		trees.Put(t)
	}
	return n
}

// trees keeps the memory of merges, at most 39 KB each.
var trees sync.Pool

const maxKept = 2048

const (
	fan      = 4
	maxDepth = 16 // 4^16 bytes, more than a 32-bit index reaches
)

type tree struct {
	// level[0][i] is the rank of the part at i with the next, none where no part
	// starts, and i in the 32 bits below it: of equal ranks the leftmost is the lowest.
	// level[k] holds the lowest of each four of level[k-1]. All are filled up to a
	// length of a multiple of four with none.
	level [maxDepth][]uint64
	depth int
	// next and prev are where the neighbours of a part start.
	next, prev []int32
	memory     []uint64 // of the levels
}

func (t *tree) merge(v *vocabulary, s string) int {
	n := len(s)
	t.reset(n)
	for i := range n - 1 {
		t.set(i, v.pair[pairOf(s, i)])
	}
	for k := 1; k < t.depth; k++ {
		for i := range len(t.level[k-1]) / fan {
			t.level[k][i] = lowest(t.level[k-1], i)
		}
	}
	for parts := n; ; parts-- {
		best := lowest(t.level[t.depth-1], 0)
		if best>>32 == none {
			return parts
		}
		i := int(uint32(best))
		gone := int(t.next[i])
		end := t.next[gone]
		t.next[i] = end
		t.set(gone, none)
		t.set(i, none)
		if int(end) < n {
			t.prev[end] = int32(i)
			t.set(i, v.rank(s[i:t.next[end]]))
		}
		if i > 0 {
			before := int(t.prev[i])
			t.set(before, v.rank(s[before:end]))
			t.update(before)
		}
		t.update(i)
		t.update(gone)
	}
}

// reset makes room for n parts of one byte without ranks.
func (t *tree) reset(n int) {
	var sizes [maxDepth]int
	total := 0
	t.depth = 0
	for size := n; t.depth == 0 || size > 1; t.depth++ {
		size = (size + fan - 1) / fan
		sizes[t.depth] = size * fan
		total += size * fan
	}
	if cap(t.memory) < total {
		t.memory = make([]uint64, total)
	}
	if cap(t.next) < n {
		t.next, t.prev = make([]int32, n), make([]int32, n)
	}
	left := t.memory[:total]
	for i := range left {
		left[i] = none << 32
	}
	for k := range t.depth {
		t.level[k], left = left[:sizes[k]], left[sizes[k]:]
	}
	t.next, t.prev = t.next[:n], t.prev[:n]
	for i := range n {
		t.next[i], t.prev[i] = int32(i+1), int32(i-1)
	}
}

// set changes the rank of a part; update must follow.
func (t *tree) set(i int, rank uint32) { t.level[0][i] = uint64(rank)<<32 | uint64(i) }

// update carries a changed rank up the tree.
func (t *tree) update(i int) {
	for k := 1; k < t.depth; k++ {
		i /= fan
		best := lowest(t.level[k-1], i)
		if t.level[k][i] == best {
			return
		}
		t.level[k][i] = best
	}
}

// lowest returns the lowest of block i of a level.
func lowest(level []uint64, i int) uint64 {
	b := (*[fan]uint64)(level[i*fan:])
	return min(min(b[0], b[1]), min(b[2], b[3]))
}
