package sched_test

import (
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func TestAging(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"overdue after its step for each class between", `
			push p1 p 1 10
			push p2 p 1 10
			push p3 p 1 10
			push f1 f 5 10
			next p1
			grant p1            # the first credit
			now 39999ms
			next p2
			now 40s
			next f1 p3`},
		{"the most urgent class that has work to do counts", `
			push p1 p 1 10
			next p1
			grant p1
			push p2 p 2 10
			push p3 p 2 10
			push f1 f 5 10
			now 30s
			next f1 p2 p3`},
		{"the most overdue class first", `
			push p1 p 1 10
			push p2 p 1 1000
			push e1 e 8 10
			now 20s
			push f1 f 5 10
			next p1
			grant p1
			now 80s             # f by 20 s, e by 10 s
			next f1 p2 e1`},
		{"of two that are overdue alike, the more urgent", `
			push p1 p 1 10
			push p2 p 1 1000
			push e1 e 8 10
			now 30s
			push f1 f 5 10
			next p1
			grant p1
			now 80s
			next f1 p2 e1`},
		{"the oldest of the class, not its first tenant's", `
			push p1 p 1 10
			push f1 f 5 10
			push f2 f 5 10
			push g1 g 5 10
			next p1
			grant p1
			next f1
			grant f1
			push p2 p 1 10
			now 40s
			next f2 p2 g1`},
		{"a batch counts what it has taken", `
			push p1 p 1 100
			push p2 p 1 100
			push p3 p 1 100
			push p4 p 1 100
			push p5 p 1 100
			push p6 p 1 100
			push f1 f 5 100
			push f2 f 5 100
			push f3 f 5 100
			now 40s
			next p1 f1 p2 p3 p4 p5 f2 p6 f3`},
		{"and gives it back", `
			push p1 p 1 100
			push p2 p 1 100
			push f1 f 5 100
			push f2 f 5 100
			now 40s
			next p1 f1 p2
			deny f1 account 40s
			deny p1 account 40s
			deny p2 account 40s
			next p1 f1 p2 f2`},
		{"the tokens of an overdue job are kept for it, too", `
			push p1 p 1 100
			push p2 p 1 100
			push f1 f 5 100
			next p1
			grant p1
			now 40s
			next f1
			deny f1 account 50s
			next -
			now 50s
			next f1 p2`},
		{"none for a worker that takes urgent work only", `
			push p1 p 1 100
			push p2 p 1 100
			push f1 f 5 100
			next p1
			grant p1
			now 40s
			next worst=2 p2 -
			next f1`},
		{"parked work is not overdue", `
			push p1 p 1 100
			push p2 p 1 100
			push f1 f 5 100
			next p1
			grant p1
			next worst=9 p2 f1
			deny p2 account 0s
			deny f1 budget-f 50s own
			now 45s
			next p2 -`},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, sched.Config{AgingStep: 10 * time.Second}, c.text)
		})
	}
}

func TestNoAging(t *testing.T) {
	run(t, sched.Config{}, `
		push p1 p 1 100
		push p2 p 1 100
		push f1 f 5 100
		next p1
		grant p1
		now 1000h
		next p2 f1`)
}

// kubernetes-sigs/gateway-api-inference-extension#1861: strict bands starve the
// batch band. river never runs low priorities under load. Here paid work comes at
// 120 % of what can be granted, and a free job goes within its bound and the time
// of the job that runs then.
func TestLowClassIsServedUnderEndlessUrgentWork(t *testing.T) {
	q := sched.New(sched.Config{AgingStep: 10 * time.Second})
	free := &sched.Job{Tenant: "f", Class: 5, Cost: 500}
	q.Push(free)
	const service = 500 * time.Millisecond // a job of 500 tokens
	arrived := time.Duration(0)
	for now := time.Duration(0); ; now += service {
		for ; arrived <= now; arrived += service * 10 / 12 {
			q.Push(&sched.Job{Tenant: "p", Class: 1, Cost: 500, Arrived: arrived})
		}
		j := q.Next(now, 9)
		q.Granted(j)
		if j == free {
			if now < 40*time.Second || now > 40*time.Second+service {
				t.Errorf("the free job went after %v", now)
			}
			return
		}
		if now > time.Minute {
			t.Fatal("the free job starves")
		}
	}
}

// The other side: a backlog of free jobs that are all overdue takes AgedShare, and
// one job, from paid work; no less, either, and whatever the size of a batch.
func TestOldBacklogTakesItsShareOnly(t *testing.T) {
	for _, share := range []int64{-1, 0, 5, 20, 50, 100, 300} {
		for _, batch := range []int{1, 8} {
			q := sched.New(sched.Config{AgingStep: time.Second, AgedShare: share})
			push := func(class int, cost int64) {
				q.Push(&sched.Job{Tenant: "t", Class: class, Cost: cost})
			}
			for range 100 {
				push(1, 300)
				push(5, 700)
				push(8, 900)
			}
			var paid, aged int64
			jobs := make([]*sched.Job, batch)
			for range 8000 / batch {
				for i := range jobs {
					jobs[i] = q.Next(time.Hour, 9)
				}
				for _, j := range jobs {
					q.Granted(j)
					if j.Class == 1 {
						paid += j.Cost
					} else {
						aged += j.Cost
					}
					push(j.Class, j.Cost)
				}
			}
			if share == 0 {
				share = 20
			}
			want := (paid + aged) * min(max(share, 0), 100) / 100
			if aged > want+900 || aged < want-900 {
				t.Errorf("share %d, batch %d: overdue work got %d tokens, want %d ± 900", share, batch, aged, want)
			}
		}
	}
}

// What nobody overdue used is not saved up beyond one burst.
func TestAgedCreditIsOneBurst(t *testing.T) {
	q := sched.New(sched.Config{AgingStep: time.Second})
	for range 10_000 {
		q.Push(&sched.Job{Tenant: "p", Class: 1, Cost: 1000})
	}
	for range 5000 {
		q.Granted(q.Next(0, 9))
	}
	for range 1000 {
		q.Push(&sched.Job{Tenant: "f", Class: 5, Cost: 100})
	}
	n := 0
	for ; q.LenClass(5) > 0; n++ {
		j := q.Next(time.Hour, 9)
		if j.Class == 1 {
			break
		}
		q.Granted(j)
	}
	// A grant by the ageing rule adds 20 for the 100 it takes.
	if want := 1000/80 + 1; n != want {
		t.Errorf("%d overdue jobs of 100 went in a row, want %d", n, want)
	}
}
