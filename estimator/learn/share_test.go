package learn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// store is a Store in the process. Before it swaps a value, other may change it.
type store struct {
	mu     sync.Mutex
	values map[string][]byte
	fails  error
	other  func(values map[string][]byte)
}

func (s *store) Values(context.Context) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values), s.fails
}

func (s *store) SwapValue(_ context.Context, name string, old, value []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.other != nil {
		s.other(s.values)
	}
	if s.fails != nil || string(s.values[name]) != string(old) {
		return false, s.fails
	}
	if s.values == nil {
		s.values = make(map[string][]byte)
	}
	s.values[name] = value
	return true, nil
}

func exchange(t *testing.T, f *Factors, s Store) {
	t.Helper()
	if err := f.Sync(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func TestFactorsAreShared(t *testing.T) {
	s := new(store)
	k := Key{"p", "m", "route \xff \"quoted\""}
	a, b := NewFactors(0), NewFactors(0)
	for range 10 {
		a.Observe(k, 1000, 2000)
		b.Observe(k, 1000, 3000)
	}
	exchange(t, a, s)
	exchange(t, b, s)
	exchange(t, a, s)
	fresh := NewFactors(0)
	exchange(t, fresh, s)
	both := 2.449 // the geometric mean
	for name, f := range map[string]*Factors{"a": a, "b": b, "a new process": fresh} {
		if got := f.Scale(Key{"p", "m", "another"}); !near(got.Mean, both, .001) || got.P95 < 3 || got.P95 > 3.2 {
			t.Errorf("%s: %+v, want %v", name, got, both)
		}
	}
	// What is known is not news: nothing grows by being told again.
	before := maps.Clone(s.values)
	for range 5 {
		for _, f := range []*Factors{a, b, fresh} {
			exchange(t, f, s)
		}
	}
	for name, v := range s.values {
		if string(before[name]) != string(v) {
			t.Errorf("%s changed", name)
		}
	}
	// The model changes, and one process sees it.
	for range 40 {
		a.Observe(k, 1000, 1000)
	}
	exchange(t, a, s)
	exchange(t, fresh, s)
	if got := fresh.Scale(k).Mean; got > 1.6 {
		t.Errorf("still %v", got)
	}
}

// Two processes add to a value at once, and nothing is lost.
func TestFactorsAreSharedAtOnce(t *testing.T) {
	k := Key{"p", "m", "r"}
	a, b := NewFactors(0), NewFactors(0)
	a.Observe(k, 1000, 2000)
	b.Observe(k, 1000, 3000)
	s := new(store)
	once := true
	s.other = func(values map[string][]byte) {
		if once {
			once = false
			inner := &store{values: values}
			if values == nil {
				inner.values = make(map[string][]byte)
				s.values = inner.values
			}
			exchange(t, b, inner)
		}
	}
	exchange(t, a, s)
	fresh := NewFactors(0)
	exchange(t, fresh, s)
	if got := fresh.Scale(k); got.Seen != 2 {
		t.Errorf("%+v, want two observations", got)
	}
}

func TestFactorsWithoutTheStore(t *testing.T) {
	k := Key{"p", "m", "r"}
	f := NewFactors(0)
	f.Observe(k, 1000, 2000)
	s := &store{fails: errors.New("down")}
	if err := f.Sync(t.Context(), s); !errors.Is(err, s.fails) {
		t.Errorf("%v", err)
	}
	// One that changes all the time is an error too, and all is told when it is over.
	n := 0
	s.fails, s.other = nil, func(map[string][]byte) {
		n++
		s.values = map[string][]byte{`["p"]`: fmt.Append(nil, n), `["p","m"]`: fmt.Append(nil, n), `["p","m","r"]`: fmt.Append(nil, n)}
	}
	if err := f.Sync(t.Context(), s); err == nil || n > 4*shareTries {
		t.Errorf("%v after %d tries", err, n)
	}
	s.other = nil
	exchange(t, f, s) // over values that nobody can read
	fresh := NewFactors(0)
	exchange(t, fresh, s)
	if got := fresh.Scale(k); !near(got.Mean, 2, .8) || got.Seen != 1 {
		t.Errorf("%+v", got)
	}
	// Names that nobody can have chosen, and more than there is room for.
	s.values = map[string][]byte{"": nil, "x": nil, "[]": nil, `["a","b","c","d"]`: nil, `["` + strings.Repeat("x", 1000) + `"]`: nil}
	var one Factor
	one.Observe(1, 2)
	good, err := one.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxModels {
		s.values[Key{"p", fmt.Sprint(i), ""}.name(1)] = good
	}
	exchange(t, fresh, s)
	if got := len(fresh.level[1].items); got != maxModels {
		t.Errorf("%d models, want %d", got, maxModels)
	}
}

func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := Key{"p", "m", "r"}
		s := new(store)
		a, b := NewFactors(0), NewFactors(0)
		ctx, stop := context.WithCancel(t.Context())
		var both sync.WaitGroup
		for _, f := range []*Factors{a, b} {
			both.Go(func() { f.Share(ctx, s, slog.New(slog.DiscardHandler)) })
		}
		a.Observe(k, 1000, 2000)
		time.Sleep(2 * shareEvery)
		time.Sleep(2 * shareEvery)
		if got := b.Scale(k); got.Seen != 1 {
			t.Errorf("%+v", got)
		}
		a.Observe(k, 1000, 2000)
		stop() // what was learnt last is told, too
		both.Wait()
		fresh := NewFactors(0)
		exchange(t, fresh, s)
		if got := fresh.Scale(k); got.Seen != 2 {
			t.Errorf("%+v", got)
		}
	})
}
