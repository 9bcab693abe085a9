package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func TestLeaving(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		// netresearch/go-cron#51, smartcontractkit/chainlink#12121: a stale index
		// takes another job out of the heap.
		{"nothing happens twice", `
			push a1 a 5 10
			push a2 a 5 10
			push a3 a 5 10
			push b1 b 5 10
			push b1
			len 4
			remove a2
			gone a2
			next a1
			gone a1               # out: to be answered first
			push a1
			len 3 a 2 b 1
			grant a1
			grant a1
			deny a1 account 7s
			gone a1
			len 2 a 1 b 1
			grant a3
			deny a3 account 7s
			wake -
			next b1 a3 -
			deny b1 account 0s
			deny b1 account 7s
			len 2
			next b1 -`},
		{"cancelled while it was out", `
			push a1 a 5 10
			push a2 a 5 10
			next a1
			gone a1
			deny a1 account 7s
			remove a1
			next a2 -`},
		{"from the middle and from both ends", `
			push a1 a 5 10
			push a2 a 5 10
			push a3 a 5 10
			push a4 a 5 10
			push a5 a 5 10
			remove a3 a1 a5
			len 2
			next a2 a4 -`},
		{"a job that is out holds its place until it is answered", `
			push a1 a 5 10
			push a2 a 5 10
			next a1
			len 2 5 2 a 2
			grant a1
			len 1 5 1 a 1
			remove a2
			len 0 5 0 a 0`},
		{"the victim is the newest job of the longest lane", `
			push a1 a 8 10
			push a2 a 8 10
			push a3 a 8 10
			push b1 b 8 10
			push b2 b 8 10
			push c1 c 5 10
			victim 8 a3
			remove a3
			victim 8 a2       # as long as b's, and came to it last
			remove a2
			victim 8 b2
			next c1 a1 b1
			victim 5 -
			victim 8 b2
			deny b1 budget-b 7s own
			victim 8 b2       # parked lanes, too
			remove b2 b1
			victim 8 -
			deny a1 account 7s
			victim 8 a1`},
	} {
		t.Run(c.name, func(t *testing.T) { run(t, sched.Config{}, c.text) })
	}
}

// llm-d keeps expired items in their slots until a sweep; kubernetes#119799 and
// #100634: requests whose client already got a 504 keep occupying the queue. A
// caller that bounds the queue by Len sees a place free at once, and the bound is
// exact (Netflix/concurrency-limits#140).
func TestCancelledJobFreesItsPlaceAtOnce(t *testing.T) {
	q := sched.New(sched.Config{})
	const bound = 3
	push := func() *sched.Job {
		if q.Len() == bound {
			return nil
		}
		j := &sched.Job{Tenant: "a", Class: 5, Cost: 1, Shared: []string{"account"}}
		q.Push(j)
		return j
	}
	var jobs []*sched.Job
	for n := 1; n <= bound; n++ {
		jobs = append(jobs, push())
		if q.Len() != n {
			t.Fatalf("%d jobs, Len is %d", n, q.Len())
		}
	}
	if push() != nil {
		t.Fatal("one over the bound")
	}
	q.Denied(q.Next(0, 9), "account", false, time.Hour)
	for _, j := range jobs {
		if !q.Remove(j) || push() == nil {
			t.Fatal("the place of a cancelled job is not free")
		}
		if push() != nil {
			t.Fatal("one over the bound")
		}
	}
}

// kubeai-project/kubeai#18: cancelled requests stay in the queue for ever.
func TestManyCancelledJobsLeaveNothing(t *testing.T) {
	q := sched.New(sched.Config{})
	jobs := make([]*sched.Job, 10_000)
	for i := range jobs {
		jobs[i] = &sched.Job{Tenant: fmt.Sprint(i % 100), Class: i % 10, Cost: 1}
		q.Push(jobs[i])
	}
	for i := range jobs {
		if !q.Remove(jobs[i*7919%len(jobs)]) {
			t.Fatal("a job was not there")
		}
	}
	if q.Len() != 0 || q.Next(0, 9) != nil || q.Backlog(9) != 0 {
		t.Fatal("left:", q.Len(), q.Backlog(9))
	}
}
