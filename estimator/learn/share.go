package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Store keeps small values for all processes, by name. Package redisledger has one.
type Store interface {
	// Values returns all that there are.
	Values(ctx context.Context) (map[string][]byte, error)
	// SwapValue makes the value with a name another one, if it is still the old one; an
	// empty old one is none. It reports whether it did.
	SwapValue(ctx context.Context, name string, old, value []byte) (bool, error)
}

// How often processes share what they learnt, and how often one of them tries to add
// to a value that others change at the same time.
const (
	shareEvery = 10 * time.Second
	shareTries = 4
	shareFor   = 2 * time.Second // is the time for one exchange
)

// Share keeps the factors of all processes with the same Store alike, until ctx ends: it
// reads what is known at once, so that a new process does not begin with nothing, and
// every ten seconds or so adds what was learnt here and takes what was learnt elsewhere.
// While the Store fails, which log hears, each process has what it learns itself.
func (f *Factors) Share(ctx context.Context, s Store, log *slog.Logger) {
	for failed := false; ; {
		err := f.Sync(ctx, s)
		if err != nil && !failed && ctx.Err() == nil {
			log.Warn("what was learnt about token counts is not shared", "error", err)
		}
		failed = err != nil
		select {
		case <-time.After(shareEvery/2 + rand.N(shareEvery)):
		case <-ctx.Done():
			_ = f.Sync(context.WithoutCancel(ctx), s)
			return
		}
	}
}

// Sync is one exchange of Share. It takes at most two seconds; what could not be told is
// kept for the next one.
func (f *Factors) Sync(ctx context.Context, s Store) error {
	ctx, cancel := context.WithTimeout(ctx, shareFor)
	defer cancel()
	values, err := s.Values(ctx)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	for name, news := range f.news() {
		if err == nil {
			values, err = add(ctx, s, values, name, news)
		}
		if err != nil { // the next time, then
			f.keep(name, news)
		}
	}
	for name, value := range values {
		f.take(name, decode(value))
	}
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	return nil
}

// add adds news to a value of the store. It returns the values as they are then.
func add(ctx context.Context, s Store, values map[string][]byte, name string, news Factor) (map[string][]byte, error) {
	for range shareTries {
		value, err := decode(values[name]).Merge(news).MarshalBinary()
		if err != nil {
			return values, err
		}
		swapped, err := s.SwapValue(ctx, name, values[name], value)
		if err != nil {
			return values, err
		}
		if swapped {
			if values == nil {
				values = make(map[string][]byte)
			}
			values[name] = value
			return values, nil
		}
		if values, err = s.Values(ctx); err != nil {
			return values, err
		}
	}
	return values, fmt.Errorf("%q is changed by others all the time", name)
}

// decode reads a value; what is none, or is from another version, says nothing.
func decode(value []byte) (f Factor) {
	_ = f.UnmarshalBinary(value)
	return f
}

// news returns what was learnt since the last time, by names, and forgets that it was.
func (f *Factors) news() map[string]Factor {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]Factor)
	for level, t := range f.level {
		for k, it := range t.items {
			if it.value.news.n > 0 {
				out[k.name(level)] = it.value.news
				it.value.news = Factor{}
			}
		}
	}
	return out
}

// keep is for news that could not be told.
func (f *Factors) keep(name string, news Factor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.find(name); v != nil {
		v.news = v.news.Merge(news)
	}
}

// take makes a factor what all have learnt, and what was learnt here since.
func (f *Factors) take(name string, all Factor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.find(name); v != nil && all.n > 0 {
		v.Factor = all.Merge(v.news)
	}
}

// find returns the factor with a name, a new one if there is room for it.
func (f *Factors) find(name string) *learnt {
	var parts []string
	if json.Unmarshal([]byte(name), &parts) != nil || len(parts) == 0 || len(parts) > len(f.level) {
		return nil
	}
	level := len(parts) - 1
	parts = append(parts, "", "")
	k, t := Key{parts[0], parts[1], parts[2]}, f.level[level]
	if v := t.get(k); v != nil {
		return v
	}
	if !k.short() || len(t.items) >= t.max {
		return nil
	}
	return t.observed(k)
}

// name says which factor it is, and of which level.
func (k Key) name(level int) string {
	name, _ := json.Marshal([]string{k.Provider, k.Model, k.Route}[:level+1]) // strings can be encoded
	return string(name)
}
