package main

import (
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
)

// TestAged works out by hand what ageing did, with a bound of 20 s and a slack of 2.5 s.
func TestAged(t *testing.T) {
	o := parse(t, "-scenario", "starve", "-minute", "10s")
	const s = time.Second
	free := func(submitted, granted, ended time.Duration, out outcome, reason string) record {
		return record{Class: job.Free, Submitted: submitted, Granted: granted, Ended: ended, Outcome: out, Reason: reason}
	}
	r := o.report(scenarioOf(t, o), observed{
		histories: []history{{records: []record{
			free(1*s, 23*s, 24*s, done, ""),      // 22 s: within the slack
			free(1*s, 24*s, 25*s, done, ""),      // over, 23 s
			free(5*s, 0, 6*s, shed, "evicted"),   // over, after 1 s
			free(5*s, 0, 9*s, shed, "expired"),   // over, after 4 s
			free(5*s, 0, 7*s, failed, ""),        // over, after 2 s
			free(7*s, 0, 7*s, shed, "hopeless"),  // was not let in
			free(170*s, 0, 200*s, withdrawn, ""), // over, after 30 s
			free(190*s, 0, 200*s, withdrawn, ""), // 10 s
			{Class: job.Paid, Submitted: 1 * s, Granted: 99 * s, Ended: 100 * s, Outcome: done},
		}}},
		stats: simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)},
	})
	if want := (agedReport{BoundS: 20, SlackS: 2.5, P99S: 30, MaxS: 30, Violations: 5}); r.Aged == nil || *r.Aged != want {
		t.Errorf("aged %+v, want %+v", r.Aged, want)
	}
	o = parse(t, "-scenario", "flood")
	if r := o.report(scenarioOf(t, o), observed{stats: simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)}}); r.Aged != nil {
		t.Error("a flood reports ageing")
	}
}

func TestRelate(t *testing.T) {
	run := func(scenario, strategy string, p50, p99 float64) *report {
		return &report{Scenario: scenario, Strategy: strategy, Classes: []groupReport{
			{Name: "paid", WaitS: waitReport{P50: p50, P99: p99}},
			{Name: "free", WaitS: waitReport{P50: 100, P99: 100}},
		}}
	}
	reports := []*report{run("aged", "poll", 7, 7), run("aged", "paceline", 3, 6), run("flood", "paceline", 1, 1), run("fresh", "paceline", 2, 3)}
	if lines := relate(reports); len(lines) != 1 {
		t.Errorf("said %q", lines)
	}
	if want := (ratioReport{1.5, 2}); reports[1].AgedToFresh == nil || *reports[1].AgedToFresh != want {
		t.Errorf("ratio %+v, want %+v", reports[1].AgedToFresh, want)
	}
	if reports[0].AgedToFresh != nil || reports[3].AgedToFresh != nil {
		t.Error("a run without its fellow has a ratio")
	}
}
