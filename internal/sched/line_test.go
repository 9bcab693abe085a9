package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func lineJob(tenant string, class int, arrived time.Duration) *Job {
	return &Job{Tenant: tenant, Group: "m", Class: class, Cost: 10, Arrived: arrived, Shared: []string{"tpm"}}
}

func pushAll(q *Queue, jobs ...*Job) {
	for _, j := range jobs {
		q.Push(j)
	}
}

// count is how many lanes of a class have a ticket.
func count(q *Queue, class int) (n int) {
	for _, l := range q.tickets {
		if l.flow.class.number == class {
			n++
		}
	}
	return n
}

func expect(t *testing.T, what string, got, want *Job) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

func TestLaneInLineIsPassed(t *testing.T) {
	q := New(Config{})
	a, a2, b := lineJob("a", 5, 0), lineJob("a", 5, 1), lineJob("b", 5, 2)
	pushAll(q, a, a2, b)
	expect(t, "first", q.Next(0, 9), a)
	if !q.First(a) {
		t.Error("the head of its lane is not the first")
	}
	q.Line(a, "tpm", 100)
	if count(q, 5) != 1 || !q.HasTicket(a2) {
		t.Errorf("%d tickets", count(q, 5))
	}
	if limit, own, ok := q.Blocked(a); !ok || limit != "tpm" || !own {
		t.Error(limit, own, ok)
	}
	expect(t, "the other lane", q.Next(0, 9), b)
	q.Line(b, "tpm", 200)
	expect(t, "all in line", q.Next(0, 9), nil)
	expect(t, "all in line", q.NextTicket(9), nil)

	q.Recall(99, false)
	expect(t, "too soon", q.NextTicket(9), nil)
	q.Recall(100, false)
	expect(t, "its time is over", q.NextTicket(9), a)
	expect(t, "the other's is not", q.NextTicket(9), nil)
	q.Recall(100, true)
	expect(t, "all are recalled", q.NextTicket(9), b)
	expect(t, "both are out", q.NextTicket(9), nil)

	// What is taken behind a head that is out is not the first.
	expect(t, "behind", q.Next(100, 9), a2)
	if q.First(a2) {
		t.Error("it stands behind the head")
	}
	q.Denied(a2, "", true, 100)
	q.Granted(a)
	if count(q, 5) != 1 {
		t.Errorf("%d tickets after a grant", count(q, 5))
	}
	q.Denied(b, "own", true, 500)
	if count(q, 5) != 0 {
		t.Errorf("%d tickets after a denial by its own limit", count(q, 5))
	}
}

func TestUrgentTicketsFirst(t *testing.T) {
	q := New(Config{})
	free, paid := lineJob("a", 5, 0), lineJob("a", 1, 1)
	pushAll(q, free, paid)
	for range 2 {
		q.Line(q.Next(0, 9), "tpm", 100)
	}
	q.Recall(0, true)
	expect(t, "urgent", q.NextTicket(9), paid)
	expect(t, "of the classes that have a worker", q.NextTicket(4), nil)
	expect(t, "then the rest", q.NextTicket(9), free)
}

func TestOldestOfAClass(t *testing.T) {
	q := New(Config{})
	old, other := lineJob("old", 5, 0), lineJob("other", 5, 3)
	pushAll(q, other, old)
	expect(t, "nobody waits", q.NextOldest(7), nil)
	expect(t, "oldest", q.NextOldest(5), old)
	q.Line(old, "tpm", 100)
	expect(t, "the class is in line", q.NextOldest(5), nil)
}

func TestTicketsAreWithdrawn(t *testing.T) {
	q := New(Config{})
	paid, free, gone := lineJob("a", 1, 0), lineJob("b", 5, 0), lineJob("c", 5, 0)
	pushAll(q, paid, free, gone)
	for range 3 {
		q.Line(q.Next(0, 9), "tpm", 100)
	}
	q.Remove(gone) // cancelled: its lane ends with a ticket
	if left := q.Withdraw(Classes); len(left) != 1 || left[0] != gone {
		t.Fatal(left)
	}
	if left := q.Withdraw(2); len(left) != 1 || left[0] != free {
		t.Fatal(left)
	}
	if count(q, 1) != 1 || count(q, 5) != 0 {
		t.Errorf("%d and %d tickets", count(q, 1), count(q, 5))
	}
	expect(t, "it may ask again", q.Next(0, 9), free)
}

// A job that came back in front of a ticket's takes the ticket over.
func TestOlderJobTakesTheTicket(t *testing.T) {
	q := New(Config{})
	j := lineJob("a", 5, 10)
	q.Push(j)
	q.Line(q.Next(0, 9), "tpm", 100)
	older := lineJob("a", 5, 1)
	q.Push(older)
	expect(t, "older", q.NextTicket(9), older)
	q.Line(older, "tpm", 100)
	if count(q, 5) != 1 {
		t.Errorf("%d tickets", count(q, 5))
	}
}

// Random calls: the tickets are counted as they are, each is in one place, and none is
// lost without being returned.
func TestRandomTickets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	q := New(Config{AgingStep: 50})
	var waiting, out []*Job
	most := 0
	for now := range time.Duration(20_000) {
		switch n := rng.IntN(10); {
		case n < 3:
			j := lineJob(fmt.Sprint(rng.IntN(6)), []int{1, 5, 8}[rng.IntN(3)], now)
			q.Push(j)
			waiting = append(waiting, j)
		case n < 6:
			j := q.NextTicket(9)
			if j == nil {
				j = q.NextBeside(now, rng.IntN(10), 1+rng.IntN(3))
			}
			if j == nil {
				j = q.NextOldest(rng.IntN(10))
			}
			if j != nil {
				out = append(out, j)
			}
		case n < 8 && len(out) > 0:
			i := rng.IntN(len(out))
			j := out[i]
			out = append(out[:i], out[i+1:]...)
			switch rng.IntN(4) {
			case 0:
				q.Granted(j)
			case 1:
				q.Denied(j, "own", true, now+time.Duration(rng.IntN(100)))
			default:
				if q.First(j) {
					q.Line(j, "tpm", now+time.Duration(rng.IntN(200)))
				} else {
					q.Denied(j, "", true, now)
				}
			}
		case n < 9 && len(waiting) > 0:
			i := rng.IntN(len(waiting))
			q.Remove(waiting[i])
			waiting = append(waiting[:i], waiting[i+1:]...)
		default:
			q.Recall(now, rng.IntN(4) == 0)
			if rng.IntN(8) == 0 {
				for _, j := range q.Withdraw(rng.IntN(11)) {
					if j == nil {
						t.Fatal("a ticket without a job")
					}
				}
			}
		}
		if now%16 == 0 {
			if err := q.check(); err != nil {
				t.Fatal(err)
			}
		}
		for i, l := range q.tickets {
			if int(l.ticket) != i+1 || l.flow == nil {
				t.Fatalf("ticket %d is in place %d", i, l.ticket)
			}
		}
		var counted, there [Classes]int32
		for _, lim := range q.limits {
			for c, n := range lim.tickets {
				counted[c] += n
			}
		}
		for _, l := range q.tickets {
			there[l.flow.class.number]++
		}
		if counted != there {
			t.Fatalf("%d tickets counted, %d there", counted, there)
		}
		most = max(most, len(q.tickets))
	}
	if most < 5 {
		t.Error("the test shows little")
	}
}
