package sched_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func TestAhead(t *testing.T) {
	q := sched.New(sched.Config{Weight: func(tenant string) int64 {
		if tenant == "heavy" {
			return 2
		}
		return 1
	}})
	push := func(tenant string, class int, cost int64, group string, n int) {
		for range n {
			q.Push(&sched.Job{Tenant: tenant, Class: class, Cost: cost, Group: group, Shared: []string{group}})
		}
	}
	for _, c := range []struct {
		name   string
		do     func()
		class  int
		tenant string
		want   int64
	}{
		{"nothing", func() {}, 5, "a", 0},
		{"a job of each tenant", func() { push("a", 5, 100, "x", 2); push("b", 5, 100, "x", 5) }, 5, "new", 200},
		{"its own and as much of others", func() {}, 5, "a", 200 + 300},
		{"all, for the one with most", func() {}, 5, "b", 500 + 200},
		{"more urgent work", func() { push("p", 1, 1000, "x", 3) }, 5, "new", 3000 + 200},
		{"less urgent work", func() { push("z", 9, 1000, "x", 3) }, 5, "new", 3000 + 200},
		{"twice as much of a heavy one", func() { push("heavy", 5, 100, "x", 9) }, 5, "a", 3000 + 200 + 300 + 500},
		{"half of that for it", func() {}, 5, "heavy", 3000 + 900 + 200 + 500},
		{"what is out", func() { q.Next(0, 9); q.Next(0, 9); q.Next(0, 9); q.Next(0, 9) }, 5, "new", 3100 + 200},
		{"not what is parked", func() { q.Denied(q.Next(0, 9), "own", true, time.Hour) }, 5, "new", 3100 + 100},
		{"but its own", func() {}, 5, "b", 3100 + 500 + 900 + 100},
		{"shared between the lanes of a tenant", func() { push("heavy", 5, 100, "y", 9) }, 5, "a", 3100 + 100 + 300 + 300},
	} {
		c.do()
		if got := q.Ahead(c.class, c.tenant); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := q.Backlog(1); got != 3000 {
		t.Errorf("the backlog of class 1 is %d, want 3000", got)
	}
}

// A parked tenant's new job starts where the class is by now.
func TestAheadOfParkedTenant(t *testing.T) {
	q := sched.New(sched.Config{})
	q.Push(&sched.Job{Tenant: "parked", Class: 5, Cost: 100})
	q.Denied(q.Next(0, 9), "own", true, time.Hour)
	for range 20 {
		q.Push(&sched.Job{Tenant: "a", Class: 5, Cost: 100})
	}
	for range 10 {
		q.Granted(q.Next(0, 9))
	}
	if got := q.Ahead(5, "parked"); got != 200 {
		t.Errorf("%d tokens ahead, want its own 100 and 100", got)
	}
}

// Products of large tags and great weights stay within an int64.
func TestAheadOfLargeBacklog(t *testing.T) {
	q := sched.New(sched.Config{Weight: func(tenant string) int64 { return int64(len(tenant)) << 19 }})
	for range 3 {
		q.Push(&sched.Job{Tenant: "aa", Class: 5, Cost: 100})
	}
	q.Push(&sched.Job{Tenant: "", Class: 5, Cost: 1 << 40})
	if got := q.Ahead(5, ""); got != 1<<40+300 {
		t.Errorf("%d tokens ahead, want its own 2^40 and 300", got)
	}
}

// Ahead is compared with what really goes first.
func TestAheadIsTheTrueWait(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, i))
		tenants := []int{1, 5, 50, 1000}[i%4]
		q := sched.New(sched.Config{Weight: func(tenant string) int64 { return int64(len(tenant)) }})
		push := func(j *sched.Job) *sched.Job {
			q.Push(j)
			return j
		}
		for range tenants * 5 {
			tenant := fmt.Sprintf("%.*s%d", rnd.IntN(3), "---", rnd.IntN(tenants))
			push(&sched.Job{Tenant: tenant, Class: 4 + rnd.IntN(2), Cost: 100 + rnd.Int64N(900)})
		}
		for range tenants { // get the tags going
			q.Granted(q.Next(0, 9))
		}
		tenant := fmt.Sprint(rnd.IntN(tenants))
		got, want := q.Ahead(5, tenant), int64(0)
		last := push(&sched.Job{Tenant: tenant, Class: 5, Cost: 1})
		for {
			j := q.Next(0, 9)
			q.Granted(j)
			if j == last {
				break
			}
			want += j.Cost
		}
		off := int64(min(3*tenants, 64)) * 1000 // a job for each lane
		if tenants > 64 {
			off = want/4 + 64_000
		}
		if got < want-off || got > want+off {
			t.Errorf("seed %d,%d: %d tenants: %d tokens ahead, %d went first", seed, i, tenants, got, want)
		}
	}
}
