package main

import (
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
)

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if got, err := scenarioNamed(s.name); err != nil || got.about != s.about {
				t.Errorf("found %q, %v", got.about, err)
			}
			if s.about == "" || len(s.tenants) == 0 || len(s.streams) == 0 {
				t.Error("incomplete")
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
				for j, p := range st.phases {
					if p.load <= 0 || (p.minutes == 0) != (j == len(st.phases)-1) {
						t.Errorf("stream %d, phase %d: load %g for %g minutes", i, j, p.load, p.minutes)
					}
				}
			}
		})
	}
}

func TestClassPortions(t *testing.T) {
	const n, seed = 100_000, 3
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	got := make(map[job.Priority]float64)
	for range n {
		got[stream{classes: fifthPaid}.class(r)]++
	}
	within(t, "paid part", got[job.Paid]/n, 0.2, 0.02)
	within(t, "free part", got[job.Free]/n, 0.8, 0.02)
}

func TestSurgePhase(t *testing.T) {
	o := parse(t, "-scenario", "surge", "-minute", "10s")
	sc, err := scenarioNamed("surge")
	if err != nil {
		t.Fatal(err)
	}
	from, to, ok := sc.surge(o)
	if !ok || from != 20*time.Second || to != 23*time.Second {
		t.Errorf("surge from %v to %v, %v", from, to, ok)
	}
	if _, _, ok := (scenario{streams: []stream{{backlog: 1}, {phases: []phase{{0, 3}}}}}).surge(o); ok {
		t.Error("an endless flood is no surge")
	}
}

func TestOptions(t *testing.T) {
	if o := parse(t, "-minute", "6s"); o.Duration != 30*time.Second || o.Procs != 4 || o.TPM != 200_000 || o.RPM != 500 {
		t.Errorf("defaults are %+v", o)
	}
	for _, args := range [][]string{
		{"-scenario", "none"},
		{"-strategy", "none"},
		{"-procs", "0"},
		{"-dispatchers", "0"},
		{"-enforcer", "none"},
		{"-settle", "none"},
		{"-minute", "1ms"},
		{"-minute", "6s", "-duration", "12s"},
		{"-kill-at", "1h"},
		{"-kill-at", "1s", "-procs", "1"},
		{"-tpm", "20000"},
		{"-inflight", "-1"},
		{"-rpm", "0"},
		{"surge"},
	} {
		if _, err := parseOptions(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want a complaint about the flags", args, err)
		}
	}
	if _, err := parseOptions([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}
