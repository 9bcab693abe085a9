package simprovider

// recent remembers a value for at least the last limit keys that were put, and
// for at most twice as many. It keeps two maps and forgets the older one whole,
// which costs no list and no timestamps.
type recent[K comparable, V any] struct {
	limit      int
	young, old map[K]V
}

func (r *recent[K, V]) get(key K) (V, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	if r.young == nil || len(r.young) >= r.limit {
		r.young, r.old = make(map[K]V), r.young
	}
	r.young[key] = v
}

func (r *recent[K, V]) clear() { r.young, r.old = nil, nil }
