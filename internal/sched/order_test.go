package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name, text string
		weight     func(string) int64
	}{
		{name: "an empty queue", text: `
			next -
			wake -
			victim 3 -
			len 0 3 0 a 0
			free account`},
		{name: "classes first, the lower before", text: `
			push five a 5 1
			push zero a 0 1
			push nine a 9 1
			push more a 12 1    # as class 9
			push less b -1 1    # as class 0
			next zero less five nine more -`},
		{name: "only as far as the worst class", text: `
			push five a 5 1
			push two a 2 1
			next worst=2 two -
			next worst=4 -
			next worst=-1 -
			next worst=5 five`},
		{name: "tenants take turns within a batch", text: `
			push a1 a 5 100
			push a2 a 5 100
			push a3 a 5 100
			push b1 b 5 100
			push b2 b 5 100
			next a1 b1 a2 b2 a3 -`},
		{name: "tenants take turns by tokens, not by jobs", text: `
			push a1 a 5 300
			push a2 a 5 300
			push b1 b 5 100
			push b2 b 5 100
			push b3 b 5 100
			push b4 b 5 100
			next a1 b1 b2 b3 a2 b4 -`},
		{name: "a denial gives the turn back, whatever the order", text: `
			push a1 a 5 100
			push a2 a 5 50
			push b1 b 5 100
			push b2 b 5 100
			next a1 b1 a2 b2
			deny b1 account 1s
			deny a2 account 1s
			deny b2 account 1s
			deny a1 account 1s
			now 1s
			next a1 b1 a2 b2 -`},
		{name: "a tenant has one tag in all its groups", text: `
			group x account x
			group y account y
			push x1 a 5 100 x
			push y1 a 5 100 y
			push b1 b 5 100 x
			next x1 b1 y1`},
		{name: "a newcomer starts where the class is", text: `
			push a1 a 5 100
			push a2 a 5 100
			push a3 a 5 100
			next a1 a2
			grant a1 a2
			push b1 b 5 100     # at 100, a at 200
			push b2 b 5 100
			next b1 a3 b2`},
		{name: "an overestimate is given back", text: `
			push a1 a 5 1000
			push a2 a 5 100
			push b1 b 5 300
			push b2 b 5 300
			next a1
			grant a1
			settle a 5 -900     # a at 100
			next b1 a2 b2`},
		{name: "an underestimate is paid", text: `
			push a1 a 5 100
			push a2 a 5 100
			push b1 b 5 300
			push b2 b 5 300
			next a1
			grant a1
			settle a 5 900      # a at 1000
			next b1 b2 a2`},
		{name: "an underestimate is paid by one who left, too", text: `
			push a1 a 5 1
			push b1 b 5 300
			push b2 b 5 300
			push b3 b 5 300
			next a1 b1 b2
			grant a1 b1 b2      # a is forgotten: the class is at 300, b at 600
			settle a 5 900
			push a2 a 5 100     # at 1200
			push b4 b 5 300
			push b5 b 5 300
			next b3 b4 a2 b5`},
		{name: "a busy period ends all tags", text: `
			push a1 a 5 1000
			push b1 b 5 10
			next a1 b1
			grant a1 b1
			settle a 5 100      # nobody competes: nothing to correct
			push a2 a 5 10
			push b2 b 5 10
			next a2 b2`},
		{name: "weights", text: `
			push a1 a 5 100
			push a2 a 5 100
			push h1 heavy 5 100
			push h2 heavy 5 100
			push h3 heavy 5 100
			push h4 heavy 5 100
			push h5 heavy 5 100
			next a1 h1 h2 h3 h4 a2 h5`,
			weight: func(tenant string) int64 { return map[string]int64{"heavy": 4, "a": -1}[tenant] }},
		{name: "a job that costs nothing costs one", text: `
			push a1 a 5 0
			push a2 a 5 -7
			push a3 a 5 0
			push b1 b 5 1
			push b2 b 5 1
			next a1 b1 a2 b2 a3`},
	} {
		t.Run(c.name, func(t *testing.T) { run(t, sched.Config{Weight: c.weight}, c.text) })
	}
}

// The scheduler of LiteLLM keeps (priority, id) in a heap, so that jobs of one
// priority leave in any order.
func TestEqualJobsLeaveInOrder(t *testing.T) {
	q := sched.New(sched.Config{})
	for i := range 1000 {
		q.Push(&sched.Job{Tenant: "a", Class: 5, Cost: 10, Value: i})
	}
	for i := range 1000 {
		j := q.Next(0, 9)
		if j.Value != i {
			t.Fatalf("job %v left as number %d", j.Value, i)
		}
		q.Granted(j)
	}
}

// hibiken/asynq#1079: a retried job goes to the back of a long queue.
func TestReturnedJobKeepsItsPlace(t *testing.T) {
	run(t, sched.Config{}, `
		push a1 a 5 10
		push a2 a 5 10          # as old as a1
		now 1s
		push a3 a 5 10
		push a4 a 5 10
		next a1 a2 a3
		grant a1 a2 a3          # and all three are refused by the provider
		now 2s
		push a5 a 5 10
		push a3
		push a1
		push a2
		len 5
		next a1 a2 a3 a4 a5 -`)
}

// flows keeps every tenant backlogged with jobs of a size, and grants until the
// given number of tokens has gone. It returns what each tenant got.
func flows(t *testing.T, q *sched.Queue, sizes map[string]int64, tokens int64) map[string]int64 {
	t.Helper()
	push := func(tenant string) {
		q.Push(&sched.Job{Tenant: tenant, Class: 5, Cost: sizes[tenant]})
	}
	for tenant := range sizes {
		if q.LenTenant(tenant) == 0 {
			push(tenant)
			push(tenant)
		}
	}
	got := make(map[string]int64)
	for tokens > 0 {
		j := q.Next(0, 9)
		if j == nil {
			t.Fatal("nothing to grant")
		}
		q.Granted(j)
		got[j.Tenant] += j.Cost
		tokens -= j.Cost
		push(j.Tenant)
	}
	return got
}

// between fails unless got is within one job of want, either way.
func between(t *testing.T, tenant string, got, want, job int64) {
	t.Helper()
	if got < want-job || got > want+job {
		t.Errorf("%s got %d tokens, want %d ± %d", tenant, got, want, job)
	}
}

// temporalio/temporal#10772: all keys of low weight clump together after a reset
// and block those of high weight.
func TestWeightsJoiningAtOnce(t *testing.T) {
	weights, sizes := make(map[string]int64), make(map[string]int64)
	var sum int64
	for i := range 1000 {
		tenant := fmt.Sprint(i)
		weights[tenant] = int64(i%100) + 1
		sizes[tenant] = 100
		sum += weights[tenant]
	}
	q := sched.New(sched.Config{Weight: func(tenant string) int64 { return weights[tenant] }})
	const tokens = 10_000_000
	got := flows(t, q, sizes, tokens)
	for tenant, w := range weights {
		between(t, tenant, got[tenant], tokens*w/sum, 100)
	}
}

// kubernetes/kubernetes#95979: the imbalance between uneven demands grows for as
// long as they last. A tenant that was idle for a long time shares evenly from
// its return on, neither making up for it nor paying for anything.
func TestIdleTenantSharesEvenlyOnReturn(t *testing.T) {
	q := sched.New(sched.Config{})
	sizes := map[string]int64{"a": 500, "b": 500, "idle": 500}
	flows(t, q, sizes, 30_000)
	for q.LenTenant("idle") > 0 { // leaves, with a tag a little ahead
		j := q.Next(0, 9)
		q.Granted(j)
		if j.Tenant != "idle" {
			q.Push(&sched.Job{Tenant: j.Tenant, Class: 5, Cost: 500})
		}
	}
	flows(t, q, map[string]int64{"a": 500, "b": 500}, 10_000_000)
	for tenant, got := range flows(t, q, sizes, 300_000) {
		between(t, tenant, got, 100_000, 1000)
	}
}

// The same for one who was parked by a limit of its own all that time, and for
// one whose old overestimates are settled when it is back: kubernetes#95979 again.
func TestParkedTenantSavesUpNoCredit(t *testing.T) {
	q := sched.New(sched.Config{})
	sizes := map[string]int64{"a": 500, "b": 500, "c": 500}
	flows(t, q, sizes, 30_000)
	for {
		j := q.Next(0, 9)
		if j.Tenant == "c" {
			q.Denied(j, "budget of c", true, time.Hour)
			break
		}
		q.Granted(j)
		q.Push(&sched.Job{Tenant: j.Tenant, Class: 5, Cost: 500})
	}
	flows(t, q, map[string]int64{"a": 500, "b": 500}, 10_000_000)
	q.Free("budget of c")
	q.Settled("c", 5, -1_000_000)
	for tenant, got := range flows(t, q, sizes, 300_000) {
		between(t, tenant, got, 100_000, 1000)
	}
}

// kubernetes/kubernetes#103527 and #102843: ten jobs of a thousand tokens and one
// of ten thousand are the same.
func TestFairnessCountsTokens(t *testing.T) {
	got := flows(t, sched.New(sched.Config{}), map[string]int64{"small": 1000, "big": 10_000}, 1_000_000)
	between(t, "small", got["small"], 500_000, 10_000)
	between(t, "big", got["big"], 500_000, 10_000)
}

// kubernetes/kubernetes#115409: one slow client nearly starves its level. The
// waits of the others stay within a round, whatever a flooder sends.
func TestFlooderDelaysOthersByOneJob(t *testing.T) {
	q := sched.New(sched.Config{})
	for range 10_000 {
		q.Push(&sched.Job{Tenant: "flood", Class: 5, Cost: 8000})
	}
	for i := range 1000 {
		light := &sched.Job{Tenant: fmt.Sprint("light", i%10), Class: 5, Cost: 100}
		q.Push(light)
		var before int64
		for {
			j := q.Next(0, 9)
			q.Granted(j)
			if j == light {
				break
			}
			before += j.Cost
		}
		if before > 2*8000 {
			t.Fatalf("light job %d went after %d tokens of the flood", i, before)
		}
		for range 3 { // others are granted meanwhile
			q.Granted(q.Next(0, 9))
		}
	}
}
