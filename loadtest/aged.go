package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
)

// agedReport is about free work behind paid work.
type agedReport struct {
	// BoundS is what a job waits until it is overdue, and SlackS the time that it
	// has to be granted then.
	BoundS float64 `json:"bound_s"`
	SlackS float64 `json:"slack_s"`
	P99S   float64 `json:"p99_s"`
	MaxS   float64 `json:"max_s"`
	// Violations are the free jobs that waited for more than both, or that left
	// the queue without having been served.
	Violations int64 `json:"violations"`
}

// agingSlack is in minutes. No job is granted before it is overdue and there is
// budget: overdue work has a fifth of that, so a few that come together, a
// twentieth of the limit, take a quarter of a minute.
const agingSlack = 0.25

// agingBound is what free work behind paid work waits until it is overdue.
func (o options) agingBound() time.Duration {
	return time.Duration(job.Free.Class()-job.Paid.Class()) * o.agingStep()
}

// aged looks at the free jobs that were let in.
func (r *report) aged(o options, all []history) {
	bound, slack := o.agingBound(), o.minutes(agingSlack)
	a := &agedReport{BoundS: bound.Seconds(), SlackS: slack.Seconds()}
	var waits []time.Duration
	for _, h := range all {
		for _, rec := range h.records {
			if rec.Class != job.Free || rec.turnedAway() {
				continue
			}
			wait, _ := rec.wait(h.end(o))
			waits = append(waits, wait)
			if wait > bound+slack || rec.Outcome == shed || rec.Outcome == failed {
				a.Violations++
			}
		}
	}
	slices.Sort(waits)
	a.P99S, a.MaxS = percentile(waits, 99).Seconds(), percentile(waits, 100).Seconds()
	r.Aged = a
}

// turnedAway reports whether a job was shed at once, having waited for nothing.
func (rec record) turnedAway() bool {
	return rec.Outcome == shed && rec.Reason != dispatcher.Evicted.String() && rec.Reason != dispatcher.Expired.String()
}

// ratioReport is what waits are beside other waits.
type ratioReport struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// relate finds the runs of aged and fresh that belong together, and says what an
// overdue backlog makes of the waits of paid work.
func relate(reports []*report) []string {
	var lines []string
	for _, a := range reports {
		for _, f := range reports {
			if a.Scenario != "aged" || f.Scenario != "fresh" || a.Strategy != f.Strategy {
				continue
			}
			aw, fw := a.paidWaits(), f.paidWaits()
			a.AgedToFresh = &ratioReport{ratio(aw.P50, fw.P50), ratio(aw.P99, fw.P99)}
			lines = append(lines, fmt.Sprintf("%s: waits of paid work beside an aged backlog are %.2f (p50) and %.2f (p99) times those beside a fresh one",
				a.Strategy, a.AgedToFresh.P50, a.AgedToFresh.P99))
		}
	}
	return lines
}

// paidWaits are those of paid work, zero if there was none.
func (r *report) paidWaits() waitReport {
	for _, c := range r.Classes {
		if c.Name == job.Paid.String() {
			return c.WaitS
		}
	}
	return waitReport{}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
