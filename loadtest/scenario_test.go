package main

import (
	"math"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
)

func TestScenarios(t *testing.T) {
	for _, s := range scenarios([]int64{4, 2, 1}) {
		t.Run(s.name, func(t *testing.T) {
			if got := scenarioOf(t, parse(t, "-scenario", s.name)); got.about != s.about {
				t.Errorf("found %q", got.about)
			}
			if s.about == "" || len(s.tenants) == 0 || len(s.streams) == 0 {
				t.Error("incomplete")
			}
			var parts float64
			names := make(map[string]bool)
			for _, tn := range s.tenants {
				parts += tn.part
				names[tn.name] = true
				if tn.weight < 1 || tn.part <= 0 {
					t.Errorf("tenant %+v", tn)
				}
			}
			if math.Abs(parts-1) > 1e-9 || len(names) != len(s.tenants) {
				t.Errorf("%d names of %d tenants, parts sum to %g", len(names), len(s.tenants), parts)
			}
			for i, st := range s.streams {
				var sum float64
				for _, p := range st.classes {
					sum += p.part
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Errorf("stream %d: portions sum to %g", i, sum)
				}
				if (st.backlog > 0) == (len(st.phases) > 0) {
					t.Errorf("stream %d: wants a backlog or phases", i)
				}
				if st.tenant != "" && !names[st.tenant] {
					t.Errorf("stream %d: no tenant %q", i, st.tenant)
				}
				for j, p := range st.phases {
					if p.load <= 0 || (p.minutes == 0) != (j == len(st.phases)-1) {
						t.Errorf("stream %d, phase %d: load %g for %g minutes", i, j, p.load, p.minutes)
					}
				}
			}
		})
	}
}

// TestScenarioLoads holds what the brief of each scenario says of its load: tokens
// in multiples of the limit, by class or tenant.
func TestScenarioLoads(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want map[string]float64
		home map[string]int
	}{
		{[]string{"-scenario", "flood"}, map[string]float64{"free": 3, "paid": 0.2}, map[string]int{"paid": 1}},
		{[]string{"-scenario", "fleet"}, map[string]float64{"free": 3, "paid": 0.5}, nil},
		{[]string{"-scenario", "starve"}, map[string]float64{"free": 0.1, "paid": 1.5}, nil},
		{[]string{"-scenario", "aged"}, map[string]float64{"free": 3, "paid": 0.5}, nil},
		{[]string{"-scenario", "fresh"}, map[string]float64{"free": 3, "paid": 0.5}, nil},
		{[]string{"-scenario", "tenants"}, map[string]float64{"flooder": 0.5, "small": 0.5, "middling": 0.5}, map[string]int{"small": 2, "middling": 3}},
		{[]string{"-scenario", "tenants", "-weights", "4:2:1"}, map[string]float64{"flooder": 6. / 7, "small": 3. / 7, "middling": 1.5 / 7}, map[string]int{"small": 2, "middling": 3}},
		{[]string{"-scenario", "neighbours", "-weights", "1:2:4"}, map[string]float64{"flooder": 1.5, "small": 1. / 7, "middling": 2. / 7}, map[string]int{"small": 2, "middling": 3}},
	} {
		sc := scenarioOf(t, parse(t, tt.args...))
		if len(sc.streams) != len(tt.want) {
			t.Errorf("%q: %d streams", tt.args, len(sc.streams))
		}
		for _, st := range sc.streams {
			name := st.tenant
			if name == "" {
				name = st.classes[0].class.String()
			}
			within(t, "load of "+name, st.phases[0].load, tt.want[name], 1e-9)
			if st.home != tt.home[name] {
				t.Errorf("%q: %s is at home in %d", tt.args, name, st.home)
			}
		}
	}
}

func TestWeightsReachTheDispatchers(t *testing.T) {
	sc := scenarioOf(t, parse(t, "-scenario", "tenants", "-weights", "4:2:1"))
	for name, want := range map[string]int64{"flooder": 4, "small": 2, "middling": 1, "nobody": 1} {
		if got := sc.weight(name); got != want {
			t.Errorf("weight of %s is %d, want %d", name, got, want)
		}
	}
}

func TestSurgePhase(t *testing.T) {
	o := parse(t, "-scenario", "surge", "-minute", "10s")
	from, to, ok := scenarioOf(t, o).surge(o)
	if !ok || from != 20*time.Second || to != 23*time.Second {
		t.Errorf("surge from %v to %v, %v", from, to, ok)
	}
	if _, _, ok := (scenario{streams: []stream{{backlog: 1}, {phases: always(3)}}}).surge(o); ok {
		t.Error("an endless flood is no surge")
	}
}

// TestBacklogsAge works out from the bounds how old free work is when it is served:
// overdue in aged, and not in fresh.
func TestBacklogsAge(t *testing.T) {
	for name, overdue := range map[string]bool{"aged": true, "fresh": false} {
		o := parse(t, "-scenario", name, "-minute", "6s")
		sc := scenarioOf(t, o)
		queued := float64(o.maxQueue(sc)*o.Procs*o.Dispatchers) / o.jobsPerMinute(usual) // minutes of the limit
		age := o.minutes(queued / (1 - sc.streams[0].phases[0].load))
		if bound := o.agingBound(); overdue && age < 3*bound || !overdue && age > bound*2/3 {
			t.Errorf("%s: served at the age of %v, the bound is %v", name, age, bound)
		}
		if age >= o.maxWait() {
			t.Errorf("%s: jobs of age %v time out", name, age)
		}
		if o.Duration < 10*o.agingBound() {
			t.Errorf("%s lasts for %v, less than ten bounds", name, o.Duration)
		}
	}
}

func TestClassPortions(t *testing.T) {
	const n, seed = 100_000, 3
	t.Logf("seed %d", seed)
	r := seeded(seed)
	got := make(map[job.Priority]float64)
	for range n {
		got[stream{classes: fifthPaid}.class(r)]++
	}
	within(t, "paid part", got[job.Paid]/n, 0.2, 0.02)
	within(t, "free part", got[job.Free]/n, 0.8, 0.02)
}
