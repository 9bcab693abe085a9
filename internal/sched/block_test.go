package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func TestBlocking(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		// temporalio/temporal#10820: a rate-limited key at the head of the queue
		// blocks every ready task.
		{"a lane short of its own limit is passed over", `
			push a1 a 0 10
			push b1 b 9 10
			push b2 b 9 10
			next a1
			deny a1 budget-a 7s own
			blocked a1 budget-a own
			wake 7s
			next b1
			grant b1
			now 6999ms
			next b2 -
			grant b2
			wake 7s
			now 7s
			blocked a1 budget-a own   # until Next is told the time
			next a1 -
			wake -`},
		{"so is a lane that comes back with work", `
			push a1 a 5 10
			next a1
			deny a1 budget-a 7s own
			push a2 a 5 10
			next -
			len 2 5 2 a 2
			free budget-a
			next a1 a2`},
		{"its other lanes are not", `
			group x account x
			group y account y
			push x1 a 5 10 x
			push y1 a 5 10 y
			next x1
			deny x1 a-in-x 7s own
			next y1 -`},
		{"a shared limit is kept for the first in order", `
			push big a 5 1000
			push small b 5 1
			next big
			deny big account 7s
			blocked big account
			blocked small -
			next -
			wake 7s
			now 7s
			next big small -`},
		{"room on the limit, and it is tried again at once", `
			push big a 5 1000
			push small b 5 1
			next big
			deny big account 7s
			free other
			next -
			free account
			wake -
			next big
			grant big
			next small`},
		{"who does not charge that limit may pass", `
			group x account x
			group y account y
			push x1 a 5 10 x
			push x2 b 5 10 x
			push y1 b 5 10 y
			next x1
			deny x1 x 7s
			next y1 -
			deny y1 account 9s
			push x3 b 5 10 x
			wake 7s
			now 7s
			next x1 x2 -    # x3 is behind y1 and charges account
			now 9s
			next y1 x3 -`},
		{"a group that charges two limits waits for both", `
			group x account x
			group y account y
			group xy x y
			push x1 a 5 10 x
			push y1 b 5 10 y
			push z1 c 5 10 xy
			next x1 y1
			deny x1 x 7s
			deny y1 y 8s
			next -
			free x
			next x1 -
			grant x1
			free y
			next y1 z1`},
		{"who comes in front may try, and holds the limit if denied", `
			push a1 a 5 10
			push a2 a 5 10
			next a1
			deny a1 account 7s
			push b1 b 1 10
			push b2 b 1 10
			next b1
			deny b1 account 9s
			blocked a1 -
			wake 9s
			now 7s
			next -
			now 9s
			next b1
			grant b1
			next b2 a1 a2`},
		{"granted in front, and the holder stays", `
			push a1 a 5 10
			push a2 a 5 10
			next a1
			deny a1 account 7s
			push b1 b 1 10
			next b1
			grant b1
			next -
			blocked a1 account`},
		{"the first of a batch holds, the others just go back", `
			push a1 a 5 10
			push b1 b 5 10
			push c1 c 5 10
			next a1 b1 c1
			deny a1 account 7s
			deny b1 account 8s
			deny c1 account 9s
			blocked b1 -
			wake 7s
			now 7s
			next a1
			grant a1
			wake -
			next b1 c1`},
		{"whatever the order of the answers", `
			push a1 a 5 10
			push a2 a 5 10
			push b1 b 5 10
			next a1 b1 a2
			deny b1 account 8s
			deny a2 account 9s
			deny a1 account 7s
			blocked a1 account
			blocked b1 -
			wake 7s`},
		{"granted behind the holder, in the same batch", `
			push a1 a 5 1000
			push b1 b 5 10
			push b2 b 5 10
			next a1 b1
			deny a1 account 7s
			grant b1
			next -`},
		{"its first job parks a lane, not a later one", `
			push a1 a 5 10
			push a2 a 5 10
			next a1 a2
			deny a2 budget-a 8s own
			wake 8s
			deny a1 budget-a 7s own
			wake 7s
			free budget-a
			next a1 a2
			deny a1 budget-a 7s own
			deny a2 budget-a 8s own
			wake 7s`},
		{"a job that comes back in front of a parked one may try", `
			push a1 a 5 10
			push a2 a 5 10
			next a1
			grant a1
			next a2
			deny a2 budget-a 7s own
			next -
			push a1
			next a1 a2`},
		{"a limit that the job does not share is its own", `
			push a1 a 5 10
			push b1 b 5 10
			next a1
			deny a1 elsewhere 7s
			blocked a1 elsewhere own
			next b1`},
		{"until now is not blocked at all", `
			push a1 a 5 10
			push b1 b 5 10
			next a1
			deny a1 account 0s
			next a1 b1`},
		// golang/sync#10: small waiters sleep although there is room, because the
		// big one in front of them was cancelled.
		{"cancelling the holder lets the next go at once", `
			push big a 5 1000
			push a2 a 5 1
			push b1 b 5 1
			next big
			deny big account 7s
			next -
			remove big
			wake -
			next a2 b1 -`},
		{"cancelling a big job lets the rest of its lane go", `
			push big a 5 1000
			push a2 a 5 1
			next big
			deny big budget-a 7s own
			next -
			remove big
			wake -
			next a2 -`},
		{"cancelling one behind moves nothing", `
			push a1 a 5 10
			push a2 a 5 10
			push b1 b 5 10
			next a1
			deny a1 account 7s
			remove a2 b1
			next -
			blocked a1 account
			wake 7s`},
	} {
		t.Run(c.name, func(t *testing.T) { run(t, sched.Config{}, c.text) })
	}
}

// In aiolimiter whoever asks for little passes whoever asks for much, who then
// waits for ever. Here a provider refills 100 tokens a second, an endless row of
// small jobs of all kinds would use them all, and one job needs 10,000 at once.
func TestLargeJobIsNotStarvedBySmallOnes(t *testing.T) {
	for _, newcomers := range []bool{false, true} {
		t.Run(fmt.Sprint("newcomers=", newcomers), func(t *testing.T) {
			q := sched.New(sched.Config{})
			shared := []string{"account"}
			n := 0
			small := func() {
				n++
				tenant := fmt.Sprint("small", n%10)
				if newcomers {
					tenant = fmt.Sprint("new", n)
				}
				q.Push(&sched.Job{Tenant: tenant, Class: 5, Cost: 10, Shared: shared})
			}
			for range 20 {
				small()
			}
			large := &sched.Job{Tenant: "large", Class: 5, Cost: 10_000, Shared: shared}
			q.Push(large)
			q.Push(&sched.Job{Tenant: "large", Class: 5, Cost: 10, Shared: shared})
			tokens, started := int64(0), -1
			for second := range 1000 {
				tokens += 100
				q.Free("account")
				now := time.Duration(second) * time.Second
				for {
					j := q.Next(now, 9)
					if j == nil {
						break
					}
					if j.Cost > tokens {
						q.Denied(j, "account", false, now+time.Hour)
						continue
					}
					tokens -= j.Cost
					q.Granted(j)
					if j == large {
						started = second
					}
					if j.Cost == 10 {
						small()
					}
				}
			}
			// 100 s to refill, and a round of the others before it.
			if started < 99 || started > 100+20 {
				t.Errorf("the large job started after %d seconds", started)
			}
		})
	}
}

// sidekiq/sidekiq#5315: all waiters are told the same time, and the race then
// makes some lose for ever. With 100 waiters and room for one a second, nobody
// waits for more than the queue in front.
func TestWaitersWithOneRetryTimeKeepTheirOrder(t *testing.T) {
	q := sched.New(sched.Config{})
	for i := range 100 {
		q.Push(&sched.Job{Tenant: fmt.Sprint(i), Class: 5, Cost: 1, Value: i, Shared: []string{"account"}})
	}
	for second := range 100 {
		now := time.Duration(second) * time.Second
		var batch []*sched.Job
		for len(batch) < 8 {
			j := q.Next(now, 9)
			if j == nil {
				break
			}
			batch = append(batch, j)
		}
		if len(batch) == 0 || batch[0].Value != second {
			t.Fatalf("second %d: %v waiters tried", second, len(batch))
		}
		q.Granted(batch[0])
		for _, j := range batch[1:] {
			q.Denied(j, "account", false, now+time.Second)
		}
	}
}

// mjpieters/aiolimiter#73: every waiter is woken for each free slot. Here it
// takes one look to see that nobody behind a blocked head may go, and one timer,
// however many there are. The factor is far from both 1 and 50,000.
func TestBlockedLanesAreNotScanned(t *testing.T) {
	cost := func(lanes int) time.Duration {
		q := sched.New(sched.Config{})
		for i := range lanes {
			q.Push(&sched.Job{Tenant: fmt.Sprint(i), Class: 5, Cost: 1, Shared: []string{"account"}})
		}
		q.Denied(q.Next(0, 9), "account", false, time.Hour)
		best := time.Hour
		for range 10 {
			start := time.Now()
			for range 200 {
				if q.Next(0, 9) != nil {
					t.Fatal("somebody passed the holder")
				}
			}
			best = min(best, time.Since(start))
		}
		if at, ok := q.Wake(); !ok || at != time.Hour {
			t.Fatal("Wake:", at, ok)
		}
		return best
	}
	if few, many := cost(2), cost(50_000); many > 100*few {
		t.Errorf("a look takes %v with 2 lanes, %v with 50,000", few/200, many/200)
	}
}
