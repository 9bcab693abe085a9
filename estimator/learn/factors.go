package learn

import (
	"math"
	"sync"
)

// Factors holds the factors of providers, models and routes. Make one with
// [NewFactors]; it is safe for concurrent use.
type Factors struct {
	mu sync.Mutex
	// level is that of providers, of models, and of routes; guarded by mu.
	level [3]*table[learnt]
}

// learnt is a factor, and what of it was observed here since it was last shared.
type learnt struct {
	Factor
	news Factor
}

func (l *learnt) observe(estimate, actual int64) {
	l.Factor.Observe(estimate, actual)
	l.news.Observe(estimate, actual)
}

// Scale is what to multiply an estimate with.
type Scale struct {
	// Mean is the best guess, and P95 what 95 % of calls stay below: the difference is
	// the safety margin. Both are from 1/3 to 4, and 1 when nothing is known.
	Mean, P95 float64
	// Seen is the number of observations behind them, up to 20, of the most special
	// of provider, model and route that has any.
	Seen int
}

// NewFactors returns an empty set of factors that remembers a number of routes; 0
// means 1024. A route takes 0.6 KB.
func NewFactors(routes int) *Factors {
	if routes <= 0 {
		routes = defaultRoutes
	}
	return &Factors{level: [3]*table[learnt]{
		newTable[learnt](maxProviders), newTable[learnt](maxModels), newTable[learnt](routes)}}
}

// Observe learns from a call that was estimated at a number of tokens, before any
// factor, and had another.
func (f *Factors) Observe(k Key, estimate, actual int64) {
	if estimate < 1 || actual < 1 || !k.short() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, k := range k.levels() {
		f.level[i].observed(k).observe(estimate, actual)
	}
}

// Scale returns the factor of a key. One that has seen fewer than 20 calls is mixed
// with that of the model, and that with the provider's.
func (f *Factors) Scale(k Key) Scale {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s Scale
	var mean, high float64 // logarithms
	for i, k := range k.levels() {
		v := f.level[i].get(k)
		if v == nil || v.n == 0 {
			continue
		}
		share := float64(v.n) / memory
		mean += share * (float64(v.mean) - mean)
		high += share * (math.Log(v.Quantile(.95)) - high)
		s.Seen = v.Seen()
	}
	s.Mean = math.Exp(mean)
	s.P95 = max(s.Mean, math.Exp(high))
	return s
}

// Get returns the factor of a route alone, to store it or send it elsewhere.
func (f *Factors) Get(k Key) Factor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.level[len(f.level)-1].get(k); v != nil {
		return v.Factor
	}
	return Factor{}
}

// Merge adds what was learnt elsewhere about a route, its model and its provider.
func (f *Factors) Merge(k Key, g Factor) {
	if g.n == 0 || !k.short() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, k := range k.levels() {
		v := f.level[i].observed(k)
		v.Factor = v.Merge(g)
	}
}

// levels returns the keys from the most general to the most special.
func (k Key) levels() [3]Key { return [3]Key{k.provider(), k.model(), k} }

// Models returns what is known of each model that has been seen often enough.
func (f *Factors) Models() map[Key]Scale {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[Key]Scale)
	for k, it := range f.level[1].items {
		if v := &it.value; v.n >= memory {
			out[k] = Scale{Mean: v.Mean(), P95: max(v.Mean(), v.Quantile(.95)), Seen: v.Seen()}
		}
	}
	return out
}
