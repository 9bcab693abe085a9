package main

import (
	"maps"
	"slices"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// history is what became of the jobs of one process.
type history struct {
	records []record
	killed  time.Duration // when it was killed on purpose; 0 for never
}

// end is when the load ended for the process.
func (h history) end(o options) time.Duration {
	if h.killed > 0 {
		return min(h.killed, o.Duration)
	}
	return o.Duration
}

// observed is everything that a run found out.
type observed struct {
	histories   []history
	stats       simprovider.Stats // with the utilisation of the load
	afterKill   float64
	roundTrips  int64
	leasesAfter int64
	line        *ledger.LineState // nil when the ledger keeps no line
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
		about:      sc.about,
		overTime:   seriesOf(o, sc, ob.histories),
	}
	if o.Provider != "" {
		b := pool.Binding()
		r.Imitates, r.Enforcer, r.Settle = o.Provider, "", ""
		r.Provider.Binding, r.Provider.Utilisation = b.Name, b.Utilisation
		if o.Others > 0 {
			r.Provider.OthersUtilisation, r.Provider.RestUtilisation = b.OtherUtilisation, b.Utilisation/(1-b.OtherUtilisation)
		}
	}
	for _, h := range ob.histories {
		n := 0
		for _, rec := range h.records {
			n += len(rec.Refused)
			if rec.Cut && rec.Granted > 0 {
				r.Cut++
			}
			for _, at := range rec.Refused {
				r.Provider.RefusedLastMinutes = max(r.Provider.RefusedLastMinutes, at.Seconds()/o.Minute.Seconds())
			}
		}
		r.Provider.RefusedMost = max(r.Provider.RefusedMost, n)
	}
	r.Limit.RPM, r.Limit.TPM = o.RPM, o.TPM
	r.Ledger.RoundTripsPerJobServed = share(ob.roundTrips, pool.Accepted)
	if l := ob.line; l != nil {
		wakeups := share(l.Messages, pool.Accepted)
		r.Grants, r.Inversions, r.WakeupsPerJobServed = &l.Grants, &l.Inversions, &wakeups
	}
	r.classes(o, sc, ob.histories)
	r.tenants(o, sc, ob.histories)
	r.compared = r.Classes
	if sc.weighted {
		r.compared = r.tenantGroups()
	}
	if sc.starving {
		r.aged(o, ob.histories)
	}
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
func (r *report) classes(o options, sc scenario, all []history) {
	groups := groupsOf(o, sc, all, func(rec record) job.Priority { return rec.Class })
	for _, class := range slices.Sorted(maps.Keys(groups)) {
		g := groups[class]
		g.Name = class.String()
		r.Failed += g.Failed
		r.Lost += g.lost
		r.Classes = append(r.Classes, *g)
	}
}

// tenants does the same by tenant, also for those that sent nothing.
func (r *report) tenants(o options, sc scenario, all []history) {
	groups := groupsOf(o, sc, all, func(rec record) string { return rec.Tenant })
	var weighted []float64
	for _, t := range sc.tenants {
		tr := tenantReport{Weight: t.weight}
		if g := groups[t.name]; g != nil {
			tr.groupReport = *g
		}
		tr.Name = t.name
		r.Tenants = append(r.Tenants, tr)
		weighted = append(weighted, tr.TokenShare/float64(t.weight))
	}
	r.Jain = jain(weighted)
}

// tenantGroups are the tenants without their weights.
func (r *report) tenantGroups() []groupReport {
	groups := make([]groupReport, len(r.Tenants))
	for i, t := range r.Tenants {
		groups[i] = t.groupReport
	}
	return groups
}

// groupsOf counts the jobs of each kind.
func groupsOf[K comparable](o options, sc scenario, all []history, kind func(record) K) map[K]*groupReport {
	groups := make(map[K]*groupReport)
	var total int64
	for _, h := range all {
		for _, rec := range h.records {
			g := groups[kind(rec)]
			if g == nil {
				g = new(groupReport)
				groups[kind(rec)] = g
			}
			g.count(rec, o.Duration, h.killed > 0)
			if rec.Submitted > sc.from(o) {
				if wait, ok := rec.wait(h.end(o)); ok {
					g.granted = append(g.granted, wait)
				} else {
					g.others = append(g.others, wait)
				}
			}
			if rec.Granted > sc.from(o) && rec.Granted <= o.Duration {
				g.tokens += rec.Charge
				total += rec.Charge
			}
		}
	}
	for _, g := range groups {
		g.WaitS = waitsOf(g.granted, g.others)
		g.WaitMinutes = g.WaitS.in(o.Minute)
		g.TokenShare = share(g.tokens, total)
	}
	return groups
}

// count puts a job where it belongs when the load ends.
func (g *groupReport) count(rec record, end time.Duration, killed bool) {
	g.Jobs++
	if rec.Ended == 0 && !killed {
		g.lost++
	}
	switch {
	case rec.Ended == 0 && killed:
		g.Killed++
	case rec.Ended == 0 || rec.Ended > end || rec.Outcome == withdrawn:
		g.Unfinished++
	case rec.Outcome == done:
		g.Done++
	case rec.Outcome == shed:
		g.Shed++
		if g.ShedFor == nil {
			g.ShedFor = make(map[string]int64)
		}
		g.ShedFor[rec.Reason]++
	default:
		g.Failed++
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

// in is the same waits in units of so long a time.
func (w waitReport) in(unit time.Duration) waitReport {
	s := unit.Seconds()
	return waitReport{w.P50 / s, w.P95 / s, w.P99 / s, w.Max / s}
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
