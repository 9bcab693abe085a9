package main

import (
	"maps"
	"slices"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
)

// history is what became of the jobs of one process.
type history struct {
	records []record
	killed  time.Duration // when it was killed on purpose; 0 for never
}

// observed is everything that a run found out.
type observed struct {
	histories   []history
	stats       simprovider.Stats // with the utilisation of the load
	afterKill   float64
	roundTrips  int64
	leasesAfter int64
}

func (o options) report(sc scenario, ob observed) *report {
	pool := ob.stats.Pools[0]
	r := &report{
		Scenario: o.Scenario, Strategy: o.Strategy, Procs: o.Procs, Dispatchers: o.Dispatchers,
		MinuteS: o.Minute.Seconds(), DurationS: o.Duration.Seconds(),
		Enforcer: o.Enforcer, Settle: o.Settle, Seed: o.Seed,
		Provider: providerReport{
			Accepted:            pool.Accepted,
			Refused:             pool.RefusedRequests + pool.RefusedTokens + pool.RefusedTooLarge,
			TokensCharged:       pool.TokensCharged,
			Utilisation:         pool.TokenUtilisation,
			RequestsUtilisation: pool.RequestUtilisation,
		},
		Duplicated: pool.DuplicateJobs,
	}
	r.Limit.RPM, r.Limit.TPM = o.RPM, o.TPM
	r.Ledger.RoundTripsPerJobServed = share(ob.roundTrips, pool.Accepted)
	r.classes(o, ob.histories)
	r.tenants(o, sc, ob.histories)
	r.delays(o.guard(), ob.histories)
	if o.InFlight > 0 {
		r.InFlight = &inFlightReport{Limit: o.InFlight, Left: ob.leasesAfter}
	}
	for _, h := range ob.histories {
		if h.killed > 0 {
			r.kill(h, ob.afterKill)
		}
	}
	if from, to, ok := sc.surge(o); ok {
		r.surge(o, ob.histories, from, to)
	}
	return r
}

// classes counts the jobs by class, and what they waited.
func (r *report) classes(o options, all []history) {
	reports := make(map[job.Priority]*classReport)
	granted := make(map[job.Priority][]time.Duration)
	others := make(map[job.Priority][]time.Duration) // waits so far of those not granted
	tokens := make(map[job.Priority]int64)
	var total int64
	for _, h := range all {
		end := o.Duration
		if h.killed > 0 {
			end = min(end, h.killed)
		}
		for _, rec := range h.records {
			c := reports[rec.Class]
			if c == nil {
				c = &classReport{Name: rec.Class.String()}
				reports[rec.Class] = c
			}
			c.count(rec, o.Duration, h.killed > 0)
			if rec.Ended == 0 && h.killed == 0 {
				r.Lost++
			}
			if rec.Submitted > o.Minute {
				wait, ok := rec.wait(end)
				if ok {
					granted[rec.Class] = append(granted[rec.Class], wait)
				} else {
					others[rec.Class] = append(others[rec.Class], wait)
				}
			}
			if rec.measured(o) {
				tokens[rec.Class] += rec.Charge
				total += rec.Charge
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(reports)) {
		c := reports[class]
		c.WaitS = waitsOf(granted[class], others[class])
		c.TokenShare = share(tokens[class], total)
		r.Failed += c.Failed
		r.Classes = append(r.Classes, *c)
	}
}

// count puts a job where it belongs when the load ends.
func (c *classReport) count(rec record, end time.Duration, killed bool) {
	c.Jobs++
	switch {
	case rec.Ended == 0 && killed:
		c.Killed++
	case rec.Ended == 0 || rec.Ended > end || rec.Outcome == withdrawn:
		c.Unfinished++
	case rec.Outcome == done:
		c.Done++
	case rec.Outcome == shed:
		c.Shed++
	default:
		c.Failed++
	}
}

// wait is the time from submission to grant; or, if the job was not granted by
// the end, to when it gave up or the end.
func (rec record) wait(end time.Duration) (wait time.Duration, granted bool) {
	if rec.Granted > 0 && rec.Granted <= end {
		return rec.Granted - rec.Submitted, true
	}
	if rec.Ended > 0 {
		end = min(end, rec.Ended)
	}
	return max(end-rec.Submitted, 0), false
}

// measured reports whether the job's tokens count in shares.
func (rec record) measured(o options) bool {
	return rec.Granted > o.Minute && rec.Granted <= o.Duration
}

// waitsOf is the percentiles of the waits. Those who were not granted count at
// least as the median of those who were.
func waitsOf(granted, others []time.Duration) waitReport {
	slices.Sort(granted)
	median := percentile(granted, 50)
	all := slices.Clone(granted)
	for _, w := range others {
		all = append(all, max(w, median))
	}
	slices.Sort(all)
	return waitReport{
		P50: percentile(all, 50).Seconds(), P95: percentile(all, 95).Seconds(),
		P99: percentile(all, 99).Seconds(), Max: percentile(all, 100).Seconds(),
	}
}

func (r *report) tenants(o options, sc scenario, all []history) {
	tokens := make(map[string]int64)
	var total int64
	for _, h := range all {
		for _, rec := range h.records {
			if rec.measured(o) {
				tokens[rec.Tenant] += rec.Charge
				total += rec.Charge
			}
		}
	}
	var weighted []float64
	for _, t := range sc.tenants {
		tr := tenantReport{Name: t.name, TokenShare: share(tokens[t.name], total), Weight: t.weight}
		r.Tenants = append(r.Tenants, tr)
		weighted = append(weighted, tr.TokenShare/float64(t.weight))
	}
	r.Jain = jain(weighted)
}

func (r *report) delays(guard time.Duration, all []history) {
	r.GuardMS = milliseconds(guard)
	var sent, counted []time.Duration
	for _, h := range all {
		for _, rec := range h.records {
			if rec.Counted > 0 {
				sent, counted = append(sent, rec.Sent), append(counted, rec.Counted)
			}
			switch {
			case rec.Sent > guard:
				r.Late.Surely++
			case rec.Counted > guard:
				r.Late.Perhaps++
			}
		}
	}
	r.GrantToSentMS, r.GrantToCountedMS = quantilesOf(sent), quantilesOf(counted)
}

func (r *report) kill(h history, after float64) {
	k := &killReport{AtS: h.killed.Seconds(), Utilisation: after}
	for _, rec := range h.records {
		if rec.Ended == 0 {
			k.Jobs++
			if rec.Granted > 0 {
				k.Running++
			}
		}
	}
	r.Killed = k
}

func (r *report) surge(o options, all []history, from, to time.Duration) {
	s := new(surgeReport)
	var granted, ended time.Duration
	for _, h := range all {
		for _, rec := range h.records {
			if rec.Submitted < from || rec.Submitted >= to {
				continue
			}
			s.Jobs++
			if rec.Outcome == done {
				s.Done++
			}
			granted, ended = max(granted, rec.Granted), max(ended, rec.Ended)
		}
	}
	s.GrantedMinutes = float64(max(granted-to, 0)) / float64(o.Minute)
	s.DoneMinutes = float64(max(ended-to, 0)) / float64(o.Minute)
	r.Surge = s
}
