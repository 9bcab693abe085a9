package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// predict returns what is predicted.
func predict(l *Lengths, k Key, declared int64) int64 {
	n, _ := l.Predict(k, declared)
	return n
}

func newLengthsOf(t testing.TB, cfg LengthsConfig) *Lengths {
	t.Helper()
	l, err := NewLengths(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// logNormal draws outputs as measured of real traffic.
func logNormal(r *rand.Rand, median, sigma float64) int64 {
	return max(1, int64(median*math.Exp(sigma*r.NormFloat64())))
}

func TestBuckets(t *testing.T) {
	for _, n := range []int64{-1, 0, 1, 2, 3, 10, 500, 4096, 16_384, 200_000} {
		end := bucketEnd(bucketOf(n))
		if n > 0 && (end < n || float64(end) > float64(n)*bucketStep+1) {
			t.Errorf("%d is in the bucket up to %d", n, end)
		}
	}
	if b := bucketOf(math.MaxInt64); b != buckets-1 {
		t.Errorf("bucket %d", b)
	}
}

func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l histogram
	if n, known := l.quantile(.95); n != 1 || known || l.seen != 0 {
		t.Errorf("zero histogram: %d %v", n, known)
	}
	var all []int64
	for range 500 {
		n := logNormal(r, 250, 1)
		all = append(all, n)
		l.observe(n, false, false, .05)
	}
	slices.Sort(all)
	for _, q := range []float64{.5, .9, .95, .99} {
		want := float64(all[int(q*500)])
		if n, known := l.quantile(q); !known || !near(float64(n), want, .15) {
			t.Errorf("q %v: %d, want about %v", q, n, want)
		}
	}
	if n, known := l.quantile(1); !known || n < all[499] {
		t.Errorf("the most: %d %v, want %d", n, known, all[499])
	}
	for range 100_000 { // and the weights are scaled down
		l.observe(7, false, false, .05)
	}
	if n, _ := l.quantile(.999); n > 8 || l.seen != 100_500 {
		t.Errorf("%d after 100,000 outputs of 7, %d seen", n, l.seen)
	}
}

// Half of the calls cap the output at 100, which cuts most of them: what the other
// half shows must not be lost.
func TestCutOutputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l histogram
	for range 4000 {
		n := logNormal(r, 250, 1)
		limit := int64(100)
		if r.IntN(2) == 0 {
			limit = 16_384
		}
		l.observe(min(n, limit), n > limit, false, 1)
	}
	if n, known := l.quantile(.95); !known || !near(float64(n), 250*math.Exp(1.645), .2) {
		t.Errorf("p95 %d, want about %v", n, 250*math.Exp(1.645))
	}
	if n, known := l.quantile(.5); !known || !near(float64(n), 250, .15) {
		t.Errorf("median %d, want 250", n)
	}

	all := newLengthsOf(t, LengthsConfig{Default: 300})
	for range 100 {
		all.Observe(Key{}, 100, 100, true)
	}
	for declared, want := range map[int64]int64{50: 50, 100: 100, 4096: 4096, 0: 300} {
		if got := predict(all, Key{}, declared); got != want {
			t.Errorf("all were cut: predicted %d of %d, want %d", got, declared, want)
		}
	}
}

func TestColdStart(t *testing.T) {
	l := newLengthsOf(t, LengthsConfig{Default: 300})
	k := Key{Model: "m", Route: "r"}
	for declared, want := range map[int64]int64{0: 300, 100: 100, 4096: 300} {
		if got := predict(l, k, declared); got != want {
			t.Errorf("nothing known: predicted %d of %d, want %d", got, declared, want)
		}
	}
	for range 19 {
		l.Observe(k, 4096, 1000, false)
	}
	if got := predict(l, k, 4096); got != 300 {
		t.Errorf("19 seen: %d", got)
	}
	l.Observe(k, 4096, 1000, false)
	if got := predict(l, k, 4096); got < 1000 || got > 1050 {
		t.Errorf("20 seen: %d, want 1000", got)
	}
	if got := predict(l, Key{Model: "m", Route: "new"}, 4096); got < 1000 || got > 1050 {
		t.Errorf("a new route: %d, want what the model has", got)
	}
	if got, learnt := l.Predict(Key{Model: "new", Route: "r"}, 4096); got != 300 || learnt {
		t.Errorf("a new model: %d %v", got, learnt)
	}
	if _, learnt := l.Predict(k, 4096); !learnt {
		t.Error("what was learnt is not said to be")
	}
	l.Observe(k, 10, -5, false)
}

// The share that is under-reserved is what was asked for, and after a jump it soon is
// again.
func TestPredictionsHold(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		quantile  float64
		low, high float64 // share of outputs that are longer
	}{{0, .02, .09}, {.9, .05, .15}, {.99, 0, .03}} {
		r := rand.New(rand.NewPCG(seed, 0))
		l := newLengthsOf(t, LengthsConfig{Quantile: c.quantile})
		k := Key{Model: "m", Route: "r"}
		run := func(n int, median float64) float64 {
			missed := 0
			for range n {
				used := min(logNormal(r, median, 1), 16_384)
				if used > predict(l, k, 16_384) {
					missed++
				}
				l.Observe(k, 16_384, used, used == 16_384)
			}
			return float64(missed) / float64(n)
		}
		run(500, 250)
		steady := run(2000, 250)
		jump := run(100, 900)
		after := run(500, 900)
		t.Logf("quantile %v: %.1f %% too small, %.1f %% in the 100 calls after a jump, %.1f %% then",
			l.cfg.Quantile, 100*steady, 100*jump, 100*after)
		if steady < c.low || steady > c.high || after > c.high+.03 {
			t.Errorf("quantile %v: %v, after a jump %v", l.cfg.Quantile, steady, after)
		}
	}
}

func TestLengthsConfig(t *testing.T) {
	for _, cfg := range []LengthsConfig{{Quantile: 1}, {Quantile: -1}, {Quantile: math.NaN()}, {Default: -1}, {Routes: -1}} {
		if l, err := NewLengths(cfg); err == nil || l != nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestLowerCap(t *testing.T) {
	for _, c := range []struct{ declared, predicted, want int64 }{
		{0, 500, 0}, {100, 500, 100}, {200, 10, 200}, {4096, 10, 256}, {4096, 500, 2000}, {4096, 1024, 4096},
		{4096, 5000, 4096}, {1 << 53, 500, 2000}, {math.MaxInt64, math.MaxInt64 / 3, math.MaxInt64},
	} {
		if got := LowerCap(c.declared, c.predicted, 4); got != c.want {
			t.Errorf("LowerCap(%d, %d) = %d, want %d", c.declared, c.predicted, got, c.want)
		}
	}
}

func BenchmarkLengths(b *testing.B) {
	l := newLengthsOf(b, LengthsConfig{})
	k := Key{Model: "m", Route: "r"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		l.Observe(k, 4096, logNormal(r, 250, 1), false)
	}
	b.Run("Observe", func(b *testing.B) {
		for b.Loop() {
			l.Observe(k, 4096, 300, false)
		}
	})
	b.Run("Predict", func(b *testing.B) {
		for b.Loop() {
			l.Predict(k, 4096)
		}
	})
}

func BenchmarkFactors(b *testing.B) {
	f := NewFactors(0)
	k := Key{"p", "m", "r"}
	b.Run("Observe", func(b *testing.B) {
		for b.Loop() {
			f.Observe(k, 1000, 1100)
		}
	})
	b.Run("Scale", func(b *testing.B) {
		for b.Loop() {
			f.Scale(k)
		}
	})
}
