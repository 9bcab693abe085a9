package sched

import (
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// The virtual time does not move under tenants that come with one job each: all
// start where it is. Still the tags of those who left are not kept for ever, and
// the second job of a tenant gets its turn.
func TestNewcomersAreForgotten(t *testing.T) {
	q := New(Config{})
	c := &q.classes[5]
	const waiting = 20
	push := func(tenant string) *Job {
		j := &Job{Tenant: tenant, Class: 5, Cost: 800}
		q.Push(j)
		return j
	}
	push("old")
	second := push("old")
	for i := range waiting {
		push(strconv.Itoa(i))
	}
	granted := -1
	for i := range 20_000 {
		j := q.Next(0, 9)
		q.Granted(j)
		if j == second {
			granted = i
		}
		push(strconv.Itoa(waiting + i))
		if n := len(c.flows); n > 2*q.Len()+spareTags {
			t.Fatalf("%d tags are kept for %d jobs after %d tenants", n, q.Len(), i)
		}
	}
	if most := 2*(waiting+1) + spareTags + 1; granted < 0 || granted > most {
		t.Errorf("the second job of a tenant went as number %d, want at most %d", granted, most)
	}
	for j := q.Next(0, 9); j != nil; j = q.Next(0, 9) {
		q.Granted(j)
	}
	if n := len(c.flows); n != 0 {
		t.Errorf("%d tags are kept after the busy period", n)
	}
}

// A million tenants, once, cost what they need and only for as long as they need
// it.
func TestMemoryOfAFloodIsGivenBack(t *testing.T) {
	q := New(Config{})
	for i := range 3 * shrinkAbove {
		q.Push(&Job{Tenant: strconv.Itoa(i), Class: 5, Cost: 1, Shared: []string{"account"}})
	}
	for j := q.Next(0, 9); j != nil; j = q.Next(0, 9) {
		q.Granted(j)
	}
	c := &q.classes[5]
	if c.peak != 0 || len(c.groups) != 0 || len(q.limits) != 0 {
		t.Errorf("the flood left a map for %d tenants, %d groups and %d limits", c.peak, len(c.groups), len(q.limits))
	}
	if n := len(q.spare); n > maxSpare {
		t.Errorf("the flood left %d flows", n)
	}
}

// One tenant of weight 1 takes all of 150 million tokens a minute for 28 years,
// in the largest jobs there are; then a newcomer still gets its half.
func TestTagsLastForYears(t *testing.T) {
	q := New(Config{})
	var tokens int64
	q.Push(&Job{Tenant: "a", Class: 5, Cost: math.MaxInt64}) // keeps the tag
	for tokens < 28*365*24*60*150e6 {
		q.Push(&Job{Tenant: "a", Class: 5, Cost: math.MaxInt64})
		q.Granted(q.Next(0, 9))
		tokens += maxCost
	}
	for i := range 10 {
		q.Push(&Job{Tenant: "a", Class: 5, Cost: 1, Value: i})
		q.Push(&Job{Tenant: "b", Class: 5, Cost: 1, Value: i})
	}
	left := map[string]int{}
	for range 10 {
		j := q.Next(0, 9)
		q.Granted(j)
		left[j.Tenant]++
	}
	if left["b"] < 4 {
		t.Errorf("after 28 years the turns are %v", left)
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// Rounding does not add up: many jobs are counted within the error of one.
func TestTagsDoNotDrift(t *testing.T) {
	for _, c := range []struct {
		cost, weight int64
		parts        float64 // the error of one job
	}{
		{1000, 1, 0}, {1000, 7, 1e-6}, {40, 100, 4e-4}, {7, 3, 1e-4}, {1, maxWeight, 255},
	} {
		q := New(Config{Weight: func(string) int64 { return c.weight }})
		j := new(Job)
		q.Push(&Job{Tenant: "t", Class: 5, Cost: 1}) // keeps the tag
		first := int64(-1)
		for range 20_000 {
			*j = Job{Tenant: "t", Class: 5, Cost: c.cost}
			q.Push(j)
			j = q.Next(0, 9)
			q.Granted(j)
			if first < 0 {
				first = q.classes[5].flows["t"].finish // of the job of 1
			}
		}
		got := float64(q.classes[5].flows["t"].finish - first)
		want := float64(19_999) * float64(c.cost) * scale / float64(c.weight)
		if off := math.Abs(got/want - 1); off > c.parts+1e-12 {
			t.Errorf("%+v: off by %g", c, off)
		}
	}
}

// What nobody should ask for does no harm.
func TestExtremes(t *testing.T) {
	weight := int64(math.MaxInt64)
	q := New(Config{AgingStep: math.MaxInt64, AgedShare: math.MinInt64, Weight: func(string) int64 { return weight }})
	for i := range 40 {
		q.Push(&Job{Tenant: "ab"[i%2:], Class: i * 1000, Cost: math.MaxInt64 - int64(i), Arrived: time.Duration(i - 10)})
	}
	for i := range 40 {
		j := q.Next(math.MaxInt64/2, i)
		switch {
		case j == nil:
		case i%2 == 0:
			q.Granted(j)
			q.Settled(j.Tenant, j.Class, math.MinInt64)
			if f := q.classes[clamp(j.Class)].flows[j.Tenant]; f != nil {
				before := f.finish
				q.Settled(j.Tenant, j.Class, math.MaxInt64)
				if f.finish < before+maxCost*scale/maxWeight {
					t.Fatalf("a debt of 2^40 tokens moved the tag by %d", f.finish-before)
				}
			}
		default:
			q.Denied(j, "", i%3 == 0, math.MaxInt64)
		}
		weight = -weight
		for _, tenant := range []string{"ab", "b", "new"} {
			if n := q.Ahead(i, tenant); n < 0 || n > q.Backlog(9)+40*maxCost {
				t.Fatalf("%d tokens ahead", n)
			}
		}
		if err := q.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// A waiting job costs at most a kilobyte, with the Job, even if it is its tenant's
// only one; and nothing is allocated for a job in a lane that persists.
func TestMemoryOfAJob(t *testing.T) {
	const jobs = 100_000
	names := make([]string, jobs)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	q := New(Config{})
	for _, tenant := range names {
		q.Push(&Job{Tenant: tenant, Class: 5, Cost: 1})
	}
	if n := (used() - before) / jobs; n > 1024 {
		t.Errorf("%d bytes a job", n)
	}
	runtime.KeepAlive(q)

	q = New(Config{AgingStep: time.Second})
	shared := []string{"account"}
	for i := range 1000 {
		q.Push(&Job{Tenant: names[i%10], Class: 5, Cost: 1, Shared: shared})
	}
	if n := testing.AllocsPerRun(1000, func() {
		j := q.Next(0, 9)
		q.Denied(j, "account", false, 0)
		j = q.Next(0, 9)
		q.Granted(j)
		*j = Job{Tenant: j.Tenant, Class: 5, Cost: 1, Shared: shared}
		q.Push(j)
	}); n != 0 {
		t.Errorf("%v allocations a job", n)
	}
}

// A tenant of the greatest weight does not keep others out for ever.
func TestGreatWeightIsFinite(t *testing.T) {
	q := New(Config{Weight: func(tenant string) int64 {
		if tenant == "great" {
			return math.MaxInt64
		}
		return 1
	}})
	q.Push(&Job{Tenant: "small", Class: 5, Cost: 1})
	q.Push(&Job{Tenant: "small", Class: 5, Cost: 1})
	q.Push(&Job{Tenant: "great", Class: 5, Cost: 1})
	for range scale + 2 {
		j := q.Next(0, 9)
		q.Granted(j)
		if j.Tenant == "great" {
			q.Push(&Job{Tenant: "great", Class: 5, Cost: 1})
		}
	}
	if n := q.LenTenant("small"); n != 0 {
		t.Errorf("%d small jobs are still waiting", n)
	}
}

// A change of a tenant's weight takes hold with its next job.
func TestWeightIsReadAtPush(t *testing.T) {
	weight := int64(1)
	q := New(Config{Weight: func(string) int64 { return weight }})
	for range 3 {
		q.Push(&Job{Tenant: "a", Class: 5, Cost: 100})
	}
	q.Granted(q.Next(0, 9))
	weight = 4
	q.Push(&Job{Tenant: "a", Class: 5, Cost: 100})
	q.Granted(q.Next(0, 9))
	if got := q.classes[5].flows["a"].finish; got != 125*scale {
		t.Errorf("the tag is %d, want 125", got/scale)
	}
}
