package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// arrivalsOf are all jobs of a stream of one dispatcher within so many minutes.
func arrivalsOf(o options, sc scenario, proc, dispatcher, index int, minutes float64) []arrival {
	var all []arrival
	source := newArrivals(o, sc, proc, dispatcher, index)
	for {
		a, ok := source.next()
		if !ok || a.at >= o.minutes(minutes) {
			return all
		}
		all = append(all, a)
	}
}

// TestArrivalsAreDetermined checks that what comes depends on the seed and the
// place, and on no strategy.
func TestArrivalsAreDetermined(t *testing.T) {
	for _, name := range []string{"flood", "tenants", "mixed"} {
		o := parse(t, "-scenario", name)
		sc := scenarioOf(t, o)
		for i := range sc.streams {
			want := arrivalsOf(o, sc, 1, 0, i, 4)
			if len(want) < 10 {
				t.Fatalf("%s, stream %d: only %d jobs", name, i, len(want))
			}
			if !slices.IsSortedFunc(want, func(a, b arrival) int { return int(a.at - b.at) }) {
				t.Errorf("%s, stream %d: out of order", name, i)
			}
			for _, s := range strategies {
				again := parse(t, "-scenario", name, "-strategy", s.name, "-quiet", "-inflight", "7", "-json", "x")
				if got := arrivalsOf(again, sc, 1, 0, i, 4); !slices.Equal(got, want) {
					t.Errorf("%s, stream %d: %s gets other jobs", name, i, s.name)
				}
			}
			other := parse(t, "-scenario", name, "-seed", "2")
			if slices.Equal(arrivalsOf(other, sc, 1, 0, i, 4), want) || slices.Equal(arrivalsOf(o, sc, 0, 0, i, 4), want) {
				t.Errorf("%s, stream %d: the seed or the place does not matter", name, i)
			}
		}
	}
}

// TestArrivalRates sums up what a fleet is sent.
func TestArrivalRates(t *testing.T) {
	t.Parallel()
	const minutes = 60
	for _, tt := range []struct {
		name      string
		tolerance float64
	}{
		{"flood", 0.05}, {"fleet", 0.05}, {"starve", 0.1}, {"tenants", 0.1}, {"neighbours", 0.1},
		{"mixed", 0.3}, // half of the time of code completion is in one gap of two hundred
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := parse(t, "-scenario", tt.name)
			o.Dispatchers = min(o.Dispatchers, 2)
			sc := scenarioOf(t, o)
			t.Logf("seed %d", o.Seed)
			for i, st := range sc.streams {
				var tokens float64
				senders := 0
				for proc := range o.Procs {
					if !st.in(proc, o.Procs) {
						continue
					}
					senders++
					for d := range o.Dispatchers {
						for _, a := range arrivalsOf(o, sc, proc, d, i, minutes) {
							tokens += float64(a.size.charge())
						}
					}
				}
				if want := map[bool]int{true: o.Procs, false: 1}[st.home == 0]; senders != want {
					t.Errorf("stream %d: %d processes send, want %d", i, senders, want)
				}
				within(t, "load", tokens/float64(o.TPM)/minutes, st.phases[0].load, tt.tolerance)
			}
		})
	}
}

// TestSurgeArrivals checks that a phase has its rate, and the next one begins where
// it ends.
func TestSurgeArrivals(t *testing.T) {
	o := parse(t, "-scenario", "surge")
	sc := scenarioOf(t, o)
	var before, during, after float64
	for seed := range uint64(200) {
		o.Seed = seed
		for _, a := range arrivalsOf(o, sc, 0, 0, 0, 4) {
			switch at := a.at.Minutes(); {
			case at < 2:
				before++
			case at < 2.3:
				during++
			default:
				after++
			}
		}
	}
	perMinute := 200 * o.jobsPerMinute(usual) / float64(o.Procs)
	within(t, "before", before, 2*0.1*perMinute, 0.05)
	within(t, "during", during, 0.3*3*perMinute, 0.05)
	within(t, "after", after, 1.7*0.1*perMinute, 0.05)
}

// TestTenantsOfStreams checks whose jobs come.
func TestTenantsOfStreams(t *testing.T) {
	o := parse(t, "-scenario", "tenants")
	sc := scenarioOf(t, o)
	for i, want := range []struct {
		tenant string
		charge int64
	}{{"flooder", 3000}, {"small", 300}, {"middling", 1000}} {
		for _, a := range arrivalsOf(o, sc, i, 0, i, 2) {
			if a.tenant != want.tenant || a.size.charge() != want.charge {
				t.Fatalf("stream %d: %+v", i, a)
			}
		}
	}
	o = parse(t, "-scenario", "mixed")
	sc = scenarioOf(t, o)
	all := arrivalsOf(o, sc, 0, 0, 0, 1000)
	first := 0
	for _, a := range all {
		if a.tenant == sc.tenants[0].name {
			first++
		}
	}
	within(t, "part of the largest tenant", float64(first)/float64(len(all)), 0.42, 0.05)
}

func TestHome(t *testing.T) {
	for _, tt := range []struct {
		home, procs int
		want        []bool
	}{
		{0, 3, []bool{true, true, true}},
		{1, 3, []bool{true, false, false}},
		{3, 3, []bool{false, false, true}},
		{3, 2, []bool{true, false}},
		{2, 1, []bool{true}},
	} {
		for proc, want := range tt.want {
			if got := (stream{home: tt.home}).in(proc, tt.procs); got != want {
				t.Errorf("home %d of %d: process %d has it: %v", tt.home, tt.procs, proc, got)
			}
		}
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	const n, seed = 50_000, 5
	t.Logf("seed %d", seed)
	for name, tr := range map[string]trace{"chat": chat, "code": code, "batches": batches} {
		for what, c := range map[string]curve{"gaps": tr.gaps, "sizes": tr.sizes} {
			if !slices.IsSorted(c[:]) {
				t.Errorf("%s: %s are not quantiles", name, what)
			}
			r := seeded(seed)
			var sum float64
			all := make([]float64, n)
			for i := range all {
				all[i] = c.draw(r)
				sum += all[i]
			}
			slices.Sort(all)
			within(t, name+": mean of "+what, sum/n, c.mean(), 0.05)
			within(t, name+": median of "+what, 1+percentile(all, 50), 1+c[5], 0.05)
			if all[0] < c[0] || all[n-1] > c[len(c)-1] {
				t.Errorf("%s: %s from %g to %g", name, what, all[0], all[n-1])
			}
		}
		if largest := tr.sizes[len(levels)-1]; largest > maxSize*(1+1e-9) || largest < maxSize*(1-1e-9) {
			t.Errorf("%s: the largest size is %g", name, largest)
		}
	}
}
