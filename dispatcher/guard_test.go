package dispatcher

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestGuardKnowsTooLittle(t *testing.T) {
	var g guard
	for i := range 900 {
		if p := g.p999(); p != 0 {
			t.Fatalf("after %d measurements: %v", i, p)
		}
		g.add(time.Second)
	}
	for range 100 {
		g.add(time.Second)
	}
	if p := g.p999(); !near(p, time.Second, 5) || p < time.Second {
		t.Errorf("after 1000: %v", p)
	}
}

// TestGuard compares with a sorted list, over several shapes of latency.
func TestGuard(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for name, draw := range map[string]func() time.Duration{
		"constant":    func() time.Duration { return 300 * time.Millisecond },
		"exponential": func() time.Duration { return time.Duration(rnd.ExpFloat64() * float64(200*time.Millisecond)) },
		"two humps": func() time.Duration {
			if rnd.IntN(200) == 0 {
				return 8*time.Second + time.Duration(rnd.IntN(1000))*time.Millisecond
			}
			return time.Duration(50+rnd.IntN(100)) * time.Millisecond
		},
	} {
		var g guard
		var all []time.Duration
		for range 5000 {
			d := draw()
			g.add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		// The weights differ by a factor of 1.6 over these, so that the place in
		// the list is only about the last five.
		least, most := all[len(all)-20], all[len(all)-1]
		if p := g.p999(); p < least || float64(p) > float64(most)*guardGrowth {
			t.Errorf("seed %d: %s: p99.9 %v, want from %v to %v", seed, name, p, least, most)
		}
	}
}

// Extremes fit, and the old is forgotten: half of it in about 7,000 measurements.
func TestGuardForgets(t *testing.T) {
	var g guard
	g.add(-time.Hour)
	g.add(1000 * time.Hour)
	for range 2000 {
		g.add(5 * time.Second)
	}
	for range 80_000 { // 2,000 of 5 s weigh less than a thousandth then
		g.add(100 * time.Millisecond)
	}
	if p := g.p999(); !near(p, 100*time.Millisecond, 6) {
		t.Errorf("p99.9 %v", p)
	}
	// The weights never overflow: by here they have been scaled back.
	for range 2_400_000 {
		g.add(200 * time.Millisecond)
	}
	if g.weight > 1e100 {
		t.Errorf("weight %v", g.weight)
	}
	if p := g.p999(); !near(p, 200*time.Millisecond, 6) {
		t.Errorf("after scaling: p99.9 %v", p)
	}
}
