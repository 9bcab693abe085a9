package main

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, tt := range []struct {
		sorted []int
		p      int
		want   int
	}{
		{nil, 50, 0},
		{[]int{7}, 1, 7},
		{[]int{7}, 100, 7},
		{[]int{1, 2}, 50, 1},
		{[]int{1, 2, 3}, 50, 2},
		{[]int{1, 2, 3}, 95, 3},
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := percentile(tt.sorted, tt.p); got != tt.want {
			t.Errorf("p%d of %v is %d, want %d", tt.p, tt.sorted, got, tt.want)
		}
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		xs   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{0, 0}, 0},
		{[]float64{.25, .25, .25, .25}, 1},
		{[]float64{1, 0, 0, 0}, .25},
		{[]float64{1, 2, 3}, 36. / 42},
	} {
		if got := jain(tt.xs); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("jain(%v) is %g, want %g", tt.xs, got, tt.want)
		}
	}
}

func TestWaitsOf(t *testing.T) {
	s := func(ns ...int) []time.Duration {
		ds := make([]time.Duration, len(ns))
		for i, n := range ns {
			ds[i] = time.Duration(n) * time.Second
		}
		return ds
	}
	for _, tt := range []struct {
		name            string
		granted, others []time.Duration
		want            waitReport
	}{
		{"none", nil, nil, waitReport{}},
		{"granted only", s(3, 1, 2), nil, waitReport{2, 3, 3, 3}},
		{"shed at once counts as the median", s(1, 2, 9), s(0, 0, 0), waitReport{2, 9, 9, 9}},
		{"shed late counts in full", s(1, 2, 3), s(8), waitReport{2, 8, 8, 8}},
		{"nothing granted", nil, s(1, 5), waitReport{1, 5, 5, 5}},
	} {
		if got := waitsOf(tt.granted, tt.others); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestReport works out a run of two processes by hand: a minute of 10 s, a load of
// 40 s, the second process killed at 30 s.
func TestReport(t *testing.T) {
	const s = time.Second
	o := parse(t, "-minute", "10s", "-duration", "40s", "-procs", "2", "-kill-at", "30s", "-inflight", "5")
	sc := scenario{tenants: []tenant{{name: "a", weight: 1}, {name: "b", weight: 3}, {name: "idle", weight: 1}}}
	rec := func(p job.Priority, tenant string, charge int64, submitted, granted, ended time.Duration, out outcome) record {
		return record{Class: p, Tenant: tenant, Charge: charge, Submitted: submitted, Granted: granted, Ended: ended, Outcome: out,
			Sent: time.Millisecond, Counted: 2 * time.Millisecond}
	}
	late := func(r record, sent, counted time.Duration) record {
		r.Sent, r.Counted = sent, counted
		return r
	}
	full := func(r record) record {
		r.Reason = "queue_full"
		return r
	}
	stats := simprovider.PoolStats{
		Counts:           simprovider.Counts{Accepted: 6, RefusedRequests: 1, RefusedTokens: 2, RefusedTooLarge: 3, TokensCharged: 900, DuplicateJobs: 4},
		TokenUtilisation: .9, RequestUtilisation: .5,
	}
	r := o.report(sc, observed{
		histories: []history{
			{records: []record{
				rec(job.Paid, "a", 1000, 1*s, 2*s, 3*s, done), // too early for waits and shares
				// Waited 1 s; the guard is 10 s / 60.
				late(rec(job.Paid, "a", 100, 11*s, 12*s, 13*s, done), 166*time.Millisecond, 167*time.Millisecond),
				// Waited 3 s, unfinished.
				late(rec(job.Paid, "b", 300, 11*s, 14*s, 41*s, done), 167*time.Millisecond, 200*time.Millisecond),
				full(rec(job.Free, "b", 50, 20*s, 0, 21*s, shed)),     // 1 s, raised to the median of 5 s
				rec(job.Free, "b", 50, 20*s, 0, 40*s+1, withdrawn),    // 20 s so far
				rec(job.Free, "b", 600, 20*s, 25*s, 30*s, failed),     // waited 5 s
				rec(job.Free, "b", 50, 39*s, 40*s+1, 42*s, withdrawn), // 1 s so far: granted too late
				rec(job.Free, "b", 50, 39*s, 0, 0, ""),                // lost
			}},
			{killed: 30 * s, records: []record{
				rec(job.Free, "a", 100, 20*s, 25*s, 29*s, done), // waited 5 s
				rec(job.Free, "a", 100, 20*s, 25*s, 0, ""),      // ran when killed
				rec(job.Free, "a", 100, 22*s, 0, 0, ""),         // 8 s so far
			}},
		},
		stats:     simprovider.Stats{Pools: []simprovider.PoolStats{stats}},
		afterKill: .95, roundTrips: 12, leasesAfter: 1,
		line: &ledger.LineState{Grants: 5, Inversions: 2, Messages: 9},
	})

	if want := (providerReport{
		Accepted: 6, Refused: 6, TokensCharged: 900, Utilisation: .9, RequestsUtilisation: .5,
	}); r.Provider != want {
		t.Errorf("provider %+v, want %+v", r.Provider, want)
	}
	if r.Lost != 1 || r.Duplicated != 4 || r.Failed != 1 || r.Ledger.RoundTripsPerJobServed != 2 {
		t.Errorf("lost %d, duplicated %d, failed %d, %g round trips per job", r.Lost, r.Duplicated, r.Failed, r.Ledger.RoundTripsPerJobServed)
	}
	wantGroups := []groupReport{
		{Name: "paid", Jobs: 3, Done: 2, Unfinished: 1, WaitS: waitReport{1, 3, 3, 3}, WaitMinutes: waitReport{.1, .3, .3, .3}, TokenShare: 400. / 1200},
		{Name: "free", Jobs: 8, Done: 1, Shed: 1, ShedFor: map[string]int64{"queue_full": 1}, Unfinished: 3, Failed: 1, Killed: 2, WaitS: waitReport{5, 20, 20, 20}, WaitMinutes: waitReport{.5, 2, 2, 2}, TokenShare: 800. / 1200},
		{Name: "a", Jobs: 5, Done: 3, Killed: 2, WaitS: waitReport{5, 8, 8, 8}, WaitMinutes: waitReport{.5, .8, .8, .8}, TokenShare: 300. / 1200},
		{Name: "b", Jobs: 6, Shed: 1, ShedFor: map[string]int64{"queue_full": 1}, Unfinished: 4, Failed: 1, WaitS: waitReport{3, 20, 20, 20}, WaitMinutes: waitReport{.3, 2, 2, 2}, TokenShare: 900. / 1200},
		{Name: "idle"},
	}
	groups := slices.Clone(r.Classes)
	for i, tn := range r.Tenants {
		groups = append(groups, tn.groupReport)
		if want := []int64{1, 3, 1}[i]; tn.Weight != want {
			t.Errorf("weight of %s is %d, want %d", tn.Name, tn.Weight, want)
		}
	}
	for i := range groups {
		g := &groups[i]
		g.lost, g.tokens, g.granted, g.others = 0, 0, nil, nil
	}
	if !reflect.DeepEqual(groups, wantGroups) {
		t.Errorf("groups\n%+v, want\n%+v", groups, wantGroups)
	}
	if math.Abs(r.Jain-2./3) > 1e-9 {
		t.Errorf("Jain %g, want 2/3: one of three has nothing, the others the same for their weight", r.Jain)
	}
	if want := (killReport{30, 2, 1, .95}); r.Killed == nil || *r.Killed != want {
		t.Errorf("killed %+v, want %+v", r.Killed, want)
	}
	if want := (inFlightReport{5, 1}); r.InFlight == nil || *r.InFlight != want {
		t.Errorf("in flight %+v, want %+v", r.InFlight, want)
	}
	if want := (quantiles{2, 200, 200}); r.GrantToCountedMS != want {
		t.Errorf("grant to counted %+v, want %+v", r.GrantToCountedMS, want)
	}
	if want := (lateReport{1, 1}); r.Late != want || math.Abs(r.GuardMS-166.7) > 0.1 {
		t.Errorf("late %+v of a guard of %g ms, want %+v", r.Late, r.GuardMS, want)
	}
	if *r.Grants != 5 || *r.Inversions != 2 || *r.WakeupsPerJobServed != 1.5 {
		t.Errorf("line: %d grants, %d inversions, %g wake-ups per job", *r.Grants, *r.Inversions, *r.WakeupsPerJobServed)
	}
	var text strings.Builder
	r.print(&text)
	for _, want := range []string{"refused 6", "lost 1", "one process at 30.0s", "1 leases left", "Jain 0.6667", "2 of 5 grants out of order"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, &text)
		}
	}
}

func TestSurgeReport(t *testing.T) {
	o := parse(t, "-scenario", "surge", "-minute", "10s")
	const s = time.Second
	r := o.report(scenarioOf(t, o), observed{
		histories: []history{{records: []record{
			{Submitted: 19 * s, Granted: 35 * s, Ended: 36 * s, Outcome: done}, // came before
			{Submitted: 20 * s, Granted: 24 * s, Ended: 30 * s, Outcome: done},
			{Submitted: 22 * s, Granted: 28 * s, Ended: 29 * s, Outcome: done},
			{Submitted: 22 * s, Ended: 22 * s, Outcome: shed},
			{Submitted: 23 * s, Granted: 35 * s, Ended: 36 * s, Outcome: done}, // came after
		}}},
		stats: simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)},
	})
	if want := (surgeReport{3, 2, .5, .7}); r.Surge == nil || *r.Surge != want {
		t.Errorf("surge %+v, want %+v", r.Surge, want)
	}
}

// TestJSONFields holds the names that others read.
func TestJSONFields(t *testing.T) {
	o := parse(t, "-scenario", "starve")
	r := o.report(scenarioOf(t, o), observed{
		line:      &ledger.LineState{},
		histories: []history{{records: []record{{Class: job.Paid, Submitted: 1}}}},
		stats:     simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)},
	})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(`scenario strategy procs dispatchers minute_s duration_s limit.rpm limit.tpm
		provider.accepted provider.refused provider.tokens_charged provider.utilisation
		classes.name classes.jobs classes.done classes.shed classes.unfinished classes.token_share
		classes.wait_minutes.p50 classes.wait_minutes.p95 classes.wait_minutes.p99 classes.wait_minutes.max
		aged.bound_s aged.p99_s aged.max_s aged.violations grants inversions wakeups_per_job_served
		classes.wait_s.p50 classes.wait_s.p95 classes.wait_s.p99 classes.wait_s.max
		tenants.name tenants.token_share tenants.weight jain ledger.round_trips_per_job_served lost duplicated`) {
		var at any = v
		for name := range strings.SplitSeq(path, ".") {
			if list, ok := at.([]any); ok {
				at = list[0]
			}
			m, ok := at.(map[string]any)
			if !ok || m[name] == nil {
				t.Errorf("no field %s", path)
				break
			}
			at = m[name]
		}
	}
}
