package ledgertest

import (
	"fmt"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var lineHints = []test{
	{name: "one comes exactly when it was told", run: exactInLine, exact: true},
	{name: "exactly also on a window", run: exactInWindow, exact: true},
	{name: "exactly also with two limits", run: exactOnTwo, exact: true},
	{name: "on calls in flight it is when a lease ends", run: leaseInLine, exact: true},
	{name: "it does not depend on how often one asks", run: hintOfAsking, exact: true},
	{name: "nor on whether it needs all there is", run: hintOfAll, exact: true},
	{name: "who is far behind asks again after half a second for each process", run: farBehind},
	{name: "in one process after 20 s", run: farBehindAlone},
}

// comes has the job ask a microsecond before it was told to, and then in time.
func (w *waiter) comes(at time.Time) {
	w.f.Helper()
	w.f.sleep(time.Until(at) - time.Microsecond)
	if d := w.denied(); d.Wait != time.Microsecond {
		w.f.Fatalf("a microsecond before its time, %v more", d.Wait)
	}
	w.f.sleep(time.Microsecond)
	w.granted()
}

func exactInLine(h *harness) {
	f, l := newFleet(h), pace(h)
	start := time.Now()
	jobs := []*waiter{
		f.job("p", 1, "t", of(l, 20)), f.job("q", 1, "u", of(l, 47)), f.job("p", 2, "t", of(l, 11)),
		f.job("q", 3, "t", of(l, 1)), f.job("r", 9, "t", of(l, 20)),
	}
	var due []time.Time
	sum := int64(0)
	for _, w := range jobs {
		h.sleep(777 * time.Microsecond)
		due = append(due, time.Now().Add(w.denied().Wait))
		if sum += w.Place.Cost; due[len(due)-1] != start.Add(gains(l, sum)) {
			h.Fatalf("due after %v, want %v", due[len(due)-1].Sub(start), gains(l, sum))
		}
	}
	for i, w := range jobs {
		w.comes(due[i])
	}
}

func exactInWindow(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	for range 10 {
		h.grant(of(l, 10))
		h.sleep(777 * time.Millisecond)
	}
	// Of several processes each would look sooner.
	a, b, c := f.job("p", 1, "t", of(l, 25)), f.job("p", 2, "t", of(l, 15)), f.job("p", 3, "t", of(l, 60))
	atA, atB, atC := a.denied().Wait, b.denied().Wait, c.denied().Wait
	now := time.Now()
	a.comes(now.Add(atA))
	b.comes(now.Add(atB))
	c.comes(now.Add(atC))
}

func exactOnTwo(h *harness) {
	f, l, slow := newFleet(h), pace(h), &ledger.Limit{Key: "slow", Unit: ledger.Requests, Amount: 60, Window: time.Minute, Burst: 10}
	h.grant(of(slow, 10))
	a, b := f.job("p", 1, "t", of(l, 40), of(slow, 1)), f.job("q", 2, "t", of(l, 30), of(slow, 1))
	c := f.job("q", 3, "t", of(l, 20))
	for _, w := range []*waiter{a, b} {
		if d := w.denied(); d.Limit != slow {
			h.Fatalf("%+v, want the slow limit", d)
		}
	}
	c.denied()
	start := time.Now()
	a.comes(start.Add(gains(slow, 1)))
	b.comes(start.Add(gains(slow, 2)))
}

func leaseInLine(h *harness) {
	f, l := newFleet(h), inFlight("running", 3, 10*time.Second)
	for range 3 {
		h.grant(of(l, 1))
		h.sleep(time.Second)
	}
	a := f.job("p", 1, "t", of(l, 1))
	a.comes(time.Now().Add(a.denied().Wait))
}

func hintOfAsking(h *harness) {
	f, l := newFleet(h), pace(h)
	a, b := f.job("p", 1, "t", of(l, 40)), f.job("q", 2, "t", of(l, 50))
	due := time.Now().Add(a.denied().Wait + gains(l, 90) - gains(l, 40))
	for time.Until(due) > 600*time.Millisecond {
		a.denied()
		if at := time.Now().Add(b.denied().Wait); at != due {
			h.Fatalf("due at %v, then at %v", due, at)
		}
		h.sleep(12_345 * time.Microsecond)
	}
}

// What is in front of it fills the limit: nobody knows how long. It is told sooner.
func farBehind(h *harness) {
	f, l := newFleet(h), pace(h)
	a, b, c := f.job("p", 1, "t", of(l, 60)), f.job("q", 2, "t", of(l, 60)), f.job("q", 3, "t", of(l, 1))
	if d := a.denied(); d.Wait > gains(l, 60) {
		h.Fatalf("%v", d.Wait)
	}
	for _, w := range []*waiter{b, c} {
		if d := w.denied(); d.Wait != 2*time.Second {
			h.Fatalf("%v, want 2 s", d.Wait)
		}
	}
	if d := f.job("p", 9, "t", of(l, 60)).denied(); d.Wait != 2*time.Second {
		h.Fatalf("%v, want 2 s", d.Wait)
	}
	for n := 3; n <= 50; n++ {
		want := min(max(time.Duration(n)*500*time.Millisecond, 2*time.Second), 20*time.Second)
		if d := f.job(fmt.Sprint("p", n), 9, "t", of(l, 1)).denied(); d.Wait != want {
			h.Fatalf("%d processes: %v, want %v", n, d.Wait, want)
		}
	}
}

// One process alone is not told too late: if it is gone nobody waits.
func farBehindAlone(h *harness) {
	f, l := newFleet(h), pace(h)
	f.job("p", 1, "t", of(l, 60)).denied()
	if d := f.job("p", 2, "t", of(l, 60)).denied(); d.Wait != 20*time.Second {
		h.Fatalf("%v, want 20 s", d.Wait)
	}
}

// What those in front and it need together is just all there is, or those in front need
// nothing of it.
func hintOfAll(h *harness) {
	f, l, other := newFleet(h), pace(h), tokens("other", 10)
	a, b := f.job("p", 1, "t", of(l, 40)), f.job("q", 2, "t", of(l, l.Burst-40))
	a.denied()
	if d := b.denied(); d.Wait != gains(l, l.Burst) {
		h.Fatalf("%v, want %v", d.Wait, gains(l, l.Burst))
	}
	f.withdraw(a, b)
	h.grant(of(other, 10))
	f.job("p", 1, "t", of(other, 1)).denied()
	if d := f.job("q", 2, "t", of(l, l.Burst)).denied(); d.Wait != gains(l, l.Burst) {
		h.Fatalf("%v, want %v", d.Wait, gains(l, l.Burst))
	}
}
