package main

import (
	"math"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
)

// TestSeries works out a run by hand: a minute of 10 s, so a bin of 2.5 s.
func TestSeries(t *testing.T) {
	o := parse(t, "-scenario", "flood", "-minute", "10s", "-duration", "30s")
	const s = time.Second
	got := seriesOf(o, scenarioOf(t, o), []history{
		{records: []record{
			{Class: job.Paid, Charge: 50_000, Submitted: 1 * s, Granted: 2 * s, Sent: 500 * time.Millisecond, Counted: s, Ended: 3 * s, Outcome: done},
			{Class: job.Paid, Charge: 100_000, Submitted: 1 * s, Granted: 6 * s, Counted: 1, Ended: 8 * s, Outcome: done, Refused: []time.Duration{2 * s, 29 * s, 31 * s}},
			{Class: job.Paid, Charge: 200_000, Submitted: 29 * s, Ended: 30 * s, Outcome: withdrawn}, // never admitted
		}},
		{records: []record{
			{Class: job.Free, Charge: 50_000, Submitted: 3 * s, Granted: 4 * s, Counted: 1, Ended: 5 * s, Outcome: done, Refused: []time.Duration{2400 * time.Millisecond}},
		}},
	})
	if len(got.waits) != 2 || len(got.waits["paid"]) != 12 || len(got.refusals) != 12 || len(got.use) != 30 {
		t.Fatalf("%d waits of %d bins, refusals of %d, %d uses", len(got.waits), len(got.waits["paid"]), len(got.refusals), len(got.use))
	}
	for _, tt := range []struct {
		what      string
		got, x, y point
	}{
		{what: "paid wait", got: got.waits["paid"][0], x: point{x: 0.125}, y: point{y: 0.15}},
		{what: "paid wait so far", got: got.waits["paid"][1], x: point{x: 0.375}, y: point{y: 0.4}},
		{what: "later paid wait", got: got.waits["paid"][2], x: point{x: 0.625}, y: point{y: 0.5}},
		{what: "free wait", got: got.waits["free"][1], x: point{x: 0.375}, y: point{y: 0.1}},
		{what: "refusals at first", got: got.refusals[0], x: point{x: 0.125}, y: point{y: 8}},
		{what: "refusals at last", got: got.refusals[11], x: point{x: 2.875}, y: point{y: 4}},
		{what: "use before the first", got: got.use[1], x: point{x: 0.2}},
		{what: "use after the first", got: got.use[2], x: point{x: 0.3}, y: point{y: 0.25}},
		{what: "use of all", got: got.use[9], x: point{x: 1}, y: point{y: 1}},
		{what: "use without the first", got: got.use[12], x: point{x: 1.3}, y: point{y: 0.75}},
		{what: "use at last", got: got.use[29], x: point{x: 3}},
	} {
		if math.Abs(tt.got.x-tt.x.x) > 1e-9 || math.Abs(tt.got.y-tt.y.y) > 1e-9 {
			t.Errorf("%s is %g at %g, want %g at %g", tt.what, tt.got.y, tt.got.x, tt.y.y, tt.x.x)
		}
	}
	for what, p := range map[string]point{"without jobs": got.waits["free"][0], "when all are served": got.waits["paid"][5]} {
		if !math.IsNaN(p.y) {
			t.Errorf("a time %s has the wait %g", what, p.y)
		}
	}
}
