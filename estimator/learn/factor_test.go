package learn

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// near reports whether got is within a share of want.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

func TestFactorLearns(t *testing.T) {
	var f Factor
	if f.Mean() != 1 || f.Seen() != 0 || f.Quantile(.95) != maxRatio {
		t.Errorf("zero Factor: %v %v", f.Mean(), f.Quantile(.95))
	}
	r := rand.New(rand.NewPCG(1, 2))
	observe := func(n int, ratio float64) {
		for range n {
			f.Observe(1000, int64(1000*ratio*(0.9+0.2*r.Float64())))
		}
	}
	observe(1, 1.6)
	if !near(f.Mean(), 1.6, .11) {
		t.Errorf("after one call: %v", f.Mean())
	}
	observe(99, 1.6)
	if p95 := f.Quantile(.95); !near(f.Mean(), 1.6, .03) || p95 < 1.6*1.08 || p95 > 1.6*1.16 {
		t.Errorf("after 100 calls: %v, p95 %v", f.Mean(), p95)
	}
	observe(100, .8) // the model was replaced
	if !near(f.Mean(), .8, .03) {
		t.Errorf("after 100 others: %v", f.Mean())
	}
	observe(400, .8)
	if p95 := f.Quantile(.95); p95 > .8*1.16 {
		t.Errorf("p95 after 500 others: %v", p95)
	}
}

func TestFactorIsBounded(t *testing.T) {
	var f Factor
	for _, n := range [][2]int64{{0, 5}, {5, 0}, {-1, 5}, {5, -1}} {
		f.Observe(n[0], n[1])
	}
	if f != (Factor{}) {
		t.Errorf("learnt from nothing: %+v", f)
	}
	for range 1000 {
		f.Observe(1, math.MaxInt64)
	}
	if got := f.Mean(); got > maxRatio*1.0001 || f.Quantile(1) > maxRatio {
		t.Errorf("%v, %v at most", got, f.Quantile(1))
	}
	for range 1000 {
		f.Observe(math.MaxInt64, 1)
	}
	if got := f.Mean(); got < minRatio*.9999 || f.Quantile(.5) < minRatio {
		t.Errorf("%v", got)
	}
}

func TestFactorMerge(t *testing.T) {
	var a, b, both Factor
	for i := range int64(10) {
		a.Observe(100, 200+i)
		both.Observe(100, 200+i)
	}
	for i := range int64(5) {
		b.Observe(100, 100+i)
		both.Observe(100, 100+i)
	}
	m := a.Merge(b)
	if m != b.Merge(a) {
		t.Error("the order matters")
	}
	if m.Seen() != 15 || !near(m.Mean(), both.Mean(), .01) || m.Quantile(.95) != both.Quantile(.95) {
		t.Errorf("merged %v %v, want %v %v", m.Mean(), m.Quantile(.95), both.Mean(), both.Quantile(.95))
	}
	if a.Merge(Factor{}) != a || (Factor{}).Merge(a) != a || (Factor{}).Merge(Factor{}) != (Factor{}) {
		t.Error("nothing is not nothing")
	}
	// Merging again and again has a limit.
	for range 100 {
		m = m.Merge(m)
	}
	for range 60 {
		m.Observe(100, 50)
	}
	if !near(m.Mean(), .5, .1) {
		t.Errorf("%v after 60 observations of 0.5", m.Mean())
	}
}

func TestFactorEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var f Factor
	for n := range 300 {
		b, err := f.MarshalBinary()
		if err != nil || len(b) > 110 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		var g Factor
		if err := g.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if g.Mean() != f.Mean() || g.Seen() != f.Seen() || n > 0 && !near(g.Quantile(.5), f.Quantile(.5), .06) {
			t.Errorf("%+v became %+v", f, g)
		}
		var h struct{ F Factor }
		text, err := json.Marshal(struct{ F Factor }{f})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &h); err != nil || h.F != g {
			t.Fatalf("%s: %v %+v", text, err, h.F)
		}
		f.Observe(1000, int64(1000*math.Exp(r.NormFloat64()/4)))
	}
	good, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "short": good[:20], "long": append(good[:len(good):len(good)], 0),
		"version": append([]byte{9}, good[1:]...), "n": append([]byte{1, 99}, good[2:]...),
		"mean": append([]byte{1, 5, 0, 0, 0xc0, 0x7f}, good[6:]...),
		"huge": append(good[:6:6], []byte(strings.Repeat("\xff\xff\x03", ratios))...),
	} {
		g := f
		if err := g.UnmarshalBinary(b); err == nil || g != f {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := new(Factor).UnmarshalText([]byte("!")); err == nil {
		t.Error("no error for what is not base64")
	}
}

func FuzzFactor(f *testing.F) {
	var x Factor
	x.Observe(2, 3)
	good, err := x.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Factor
		if x.UnmarshalBinary(b) != nil {
			return
		}
		x.Observe(3, 2)
		for _, y := range []float64{x.Mean(), x.Quantile(.95), x.Merge(x).Mean()} {
			if !(y > .3 && y < 4.1) {
				t.Fatalf("%v from %x", y, b)
			}
		}
	})
}

func TestFactorsFallBack(t *testing.T) {
	f := NewFactors(0)
	k := Key{"p", "m", "r"}
	if got := f.Scale(k); got != (Scale{Mean: 1, P95: 1}) {
		t.Errorf("unknown: %+v", got)
	}
	for range 30 {
		f.Observe(k, 1000, 2000)
	}
	if got := f.Scale(k); !near(got.Mean, 2, .001) || got.P95 < 2 || got.P95 > 2.1 || got.Seen != 20 {
		t.Errorf("%+v, want 2", got)
	}
	for _, other := range []Key{{"p", "m", "new"}, {"p", "new", "new"}} {
		if got := f.Scale(other); !near(got.Mean, 2, .001) {
			t.Errorf("%v: %+v, want what the next level knows", other, got)
		}
	}
	if got := f.Scale(Key{"new", "m", "r"}); got.Mean != 1 {
		t.Errorf("another provider: %+v", got)
	}
	// A route that is known a little is half of itself.
	half := Key{"p", "m", "half"}
	for range 10 {
		f.Observe(half, 1000, 1000)
	}
	if got := f.Scale(half).Mean; got <= 1.05 || got >= 1.9 {
		t.Errorf("%v, want something between 1 and 2", got)
	}
	// Its state can be carried elsewhere.
	g := NewFactors(0)
	g.Merge(k, f.Get(k))
	if got := g.Scale(k); got != f.Scale(k) && !near(got.Mean, 2, .001) {
		t.Errorf("carried: %+v", got)
	}
	g.Merge(k, Factor{})
	if f.Get(Key{"x", "y", "z"}) != (Factor{}) {
		t.Error("something known of nothing")
	}
}

// Routes that are made up take little memory, and what real ones have taught stays.
func TestInventedRoutes(t *testing.T) {
	f := NewFactors(100)
	l, err := NewLengths(LengthsConfig{Routes: 100})
	if err != nil {
		t.Fatal(err)
	}
	honest := Key{"p", "m", "real"}
	for range 50 {
		f.Observe(honest, 1000, 3000)
		l.Observe(honest, 4096, 2000, false)
	}
	for i := range 5000 {
		k := Key{fmt.Sprint("p", i%200), fmt.Sprint("m", i), fmt.Sprint("r", i)}
		f.Observe(k, 1000, 1000)
		l.Observe(k, 4096, 10, false)
	}
	f.Observe(Key{"p", "m", strings.Repeat("x", 1000)}, 1, 1)
	for i, n := range []int{len(f.level[0].items), len(f.level[1].items), len(f.level[2].items), len(l.models.items), len(l.routes.items)} {
		if want := []int{maxProviders, maxModels, 100, maxModels, 100}[i]; n != want {
			t.Errorf("table %d has %d items, want %d", i, n, want)
		}
	}
	if got := f.Scale(honest).Mean; !near(got, 3, .01) {
		t.Errorf("factor %v, want 3", got)
	}
	if got := predict(l, honest, 4096); got < 2000 || got > 2100 {
		t.Errorf("predicted %d, want 2000", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	f := NewFactors(10)
	l, err := NewLengths(LengthsConfig{Routes: 10})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				k := Key{"p", "m", fmt.Sprint(i * j % 30)}
				f.Observe(k, 10, 11)
				f.Merge(k, f.Get(k))
				l.Observe(k, 100, 50, j%2 == 0)
				if f.Scale(k).Mean < 1 || predict(l, k, 100) > 100 {
					t.Error("wrong")
				}
			}
		})
	}
	wg.Wait()
}
