package learn

// Key says what a call has in common with calls before it. Route is the caller's
// choice: the name of an endpoint, a prompt or a tenant. Empty names are names.
type Key struct{ Provider, Model, Route string }

const (
	// enough is the number of observations from which something is relied on.
	enough = 20
	// maxName is how long a name may be, in bytes, to be remembered.
	maxName = 128

	defaultRoutes = 1024
	maxModels     = 256
	maxProviders  = 64
)

func (k Key) short() bool {
	return len(k.Provider) <= maxName && len(k.Model) <= maxName && len(k.Route) <= maxName
}

// model is the key that all routes to a model share, and provider that of all models.
func (k Key) model() Key    { return Key{Provider: k.Provider, Model: k.Model} }
func (k Key) provider() Key { return Key{Provider: k.Provider} }

// table is a map of bounded size.
type table[V any] struct {
	max   int
	items map[Key]*item[V]
	clock int64 // counts the observations
}

type item[V any] struct {
	value V
	seen  int   // observations
	last  int64 // clock of the last one
}

func newTable[V any](size int) *table[V] {
	return &table[V]{max: size, items: make(map[Key]*item[V])}
}

// get returns the value for a key, or nil.
func (t *table[V]) get(k Key) *V {
	if it := t.items[k]; it != nil {
		return &it.value
	}
	return nil
}

// observed returns the value for a key, a new one if there is none, for an
// observation to be added.
func (t *table[V]) observed(k Key) *V {
	it := t.items[k]
	if it == nil {
		if len(t.items) >= t.max {
			t.evict()
		}
		it = new(item[V])
		t.items[k] = it
	}
	t.clock++
	it.seen++
	it.last = t.clock
	return &it.value
}

// evict takes one of a few items out: the one that was not seen for longest, and one
// that was seen often only if all were. To find the very oldest would take a list,
// and a map starts at a random place.
func (t *table[V]) evict() {
	const look = 16
	var (
		out    Key
		oldest *item[V]
		n      int
	)
	for k, it := range t.items {
		if oldest == nil || less(it, oldest) {
			out, oldest = k, it
		}
		if n++; n == look {
			break
		}
	}
	delete(t.items, out)
}

func less[V any](a, b *item[V]) bool {
	if often := a.seen >= enough; often != (b.seen >= enough) {
		return !often
	}
	return a.last < b.last
}
