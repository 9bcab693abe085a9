package sched

// key orders the items of a heap: by first, then by second.
type key struct{ first, second int64 }

func (k key) less(o key) bool {
	return k.first < o.first || k.first == o.first && k.second < o.second
}

// heap is a min-heap whose items know their place in it, so that any of them
// can be moved or taken out in O(log n).
//
// It is not container/heap because of what that costs in a million lanes, where
// BenchmarkQueue takes twice as long with it: every level is an item whose place
// is written to memory that is in no cache. With eight children to a node, side by
// side, there are a third as many levels. The keys lie in the slice, so that
// comparing follows no pointer.
type heap[T any] struct {
	items []item[T]
	place func(*T) *int32 // where a T keeps its index plus one; 0: not in here
}

type item[T any] struct {
	key
	of *T
}

const children = 8

func (h *heap[T]) len() int { return len(h.items) }

// set puts v in, or moves it to where its new key belongs.
func (h *heap[T]) set(v *T, k key) {
	i := int(*h.place(v)) - 1
	switch {
	case i < 0:
		h.items = append(h.items, item[T]{})
		h.up(len(h.items)-1, item[T]{k, v})
	case k.less(h.items[i].key):
		h.up(i, item[T]{k, v})
	case h.items[i].key.less(k):
		h.down(i, item[T]{k, v})
	}
}

// remove takes v out, if it is in.
func (h *heap[T]) remove(v *T) {
	at := h.place(v)
	i := int(*at) - 1
	if i < 0 {
		return
	}
	*at = 0
	n := len(h.items) - 1
	last := h.items[n]
	h.items[n] = item[T]{}
	h.items = h.items[:n]
	switch {
	case i == n:
	case i > 0 && last.key.less(h.items[(i-1)/children].key):
		h.up(i, last)
	default:
		h.down(i, last)
	}
}

// up fills the hole at i with it, or with its parents for as long as they are
// greater.
func (h *heap[T]) up(i int, it item[T]) {
	for i > 0 {
		parent := (i - 1) / children
		if !it.less(h.items[parent].key) {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, it)
}

// down fills the hole at i with it, or with the least child for as long as that
// is less.
func (h *heap[T]) down(i int, it item[T]) {
	for {
		first := i*children + 1
		if first >= len(h.items) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(h.items)); c++ {
			if h.items[c].less(h.items[least].key) {
				least = c
			}
		}
		if !h.items[least].less(it.key) {
			break
		}
		h.put(i, h.items[least])
		i = least
	}
	h.put(i, it)
}

func (h *heap[T]) put(i int, it item[T]) {
	h.items[i] = it
	*h.place(it.of) = int32(i + 1)
}
