package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var lineHolds = []test{
	{name: "smaller ones do not pass on the limit it is short of", run: smallerDoNotPass},
	{name: "what it can not reach soon it does not keep of others", run: notReachedSoon, exact: true},
	{name: "what may be overdrawn is not waited for", run: overdrawnNotWaited},
	{name: "two jobs short of two limits in opposite order", run: oppositeOrder, exact: true},
	{name: "a job that needs most of the window, and a stream of small ones", run: mostOfWindow, exact: true},
	{name: "who is short of a limit of its own is in no line", run: ownLimit},
	{name: "who can go now counts in full", run: whoCanGo},
	{name: "who is short of what is long in coming back is in no line", run: longWay},
	{name: "a limit that is full is never refused", run: fullNeverRefused},
}

func smallerDoNotPass(h *harness) {
	for _, l := range []*ledger.Limit{tokens("unpaced", 100), {Key: "paced", Unit: ledger.Tokens, Amount: 1000, Window: time.Hour, Burst: 100}} {
		f := newFleet(h)
		h.grant(of(l, 60))
		a, b := f.job("p", 1, "t", of(l, 50)), f.job("q", 2, "t", of(l, 1))
		a.denied()
		b.denied()
		b.glance().denied()
		f.withdraw(a, b)
		b.granted()
	}
	f, l := newFleet(h), inFlight("running", 3, time.Minute)
	for _, window := range []time.Duration{time.Minute - 5*time.Second, time.Minute + time.Second} {
		other := with(tokens("other", 10), func(l *ledger.Limit) { l.Key, l.Window = window.String(), window })
		first := h.grant(of(l, 1))
		h.grant(of(other, 10))
		a, b := f.job("p", 1, "t", of(other, 1), of(l, 1)), f.job("q", 2, "t", of(l, 1))
		a.denied()
		b.granted()
		second := b.ID
		b.next()
		// The last place is kept, unless a call has ended before at any rate.
		want := ledger.Denied
		if window > l.Window {
			want = ledger.Granted
		}
		h.want(b.ask(), want)
		f.withdraw(a, b)
		for _, id := range []ledger.ID{first, second, b.ID} {
			h.cancel(id)
		}
	}
}

// Who can go now is in front for all of it, also of one who needs the whole limit.
func whoCanGo(h *harness) {
	for _, l := range []*ledger.Limit{tokens("unpaced", 100), {Key: "paced", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute, Burst: 100}} {
		f := newFleet(h)
		id := h.grant(of(l, 100))
		a, b := f.job("p", 1, "t", of(l, 60)), f.job("q", 2, "t", of(l, 100))
		a.denied()
		b.denied()
		h.cancel(id)
		b.denied()
		f.withdraw(a)
		b.granted()
	}
}

// Nobody knows who else will be there by then.
func longWay(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	day := with(tokens("day", 10), func(l *ledger.Limit) { l.Window = 24 * time.Hour })
	h.grant(of(day, 10), of(l, 50))
	a, b := f.job("p", 0, "t", of(day, 1), of(l, 60)), f.job("q", 1, "t", of(l, 50))
	if d := a.denied(); d.Limit != day || d.Wait < 23*time.Hour {
		h.Fatalf("%+v, want a day", d)
	}
	f.tickets(0)
	b.granted()
}

// It holds its demand on the other limits as long as they need to gain it again, before
// it can start.
func notReachedSoon(h *harness) {
	f, slow := newFleet(h), &ledger.Limit{Key: "slow", Unit: ledger.Tokens, Amount: 600, Window: time.Minute, Burst: 100}
	l := with(paced("fast", 6000), func(l *ledger.Limit) { l.Burst = 1000 })
	h.grant(of(slow, 100))
	h.grant(of(l, 500))
	a, b := f.job("p", 1, "t", of(slow, 80), of(l, 400)), f.job("q", 2, "t", of(l, 700)).glance()
	d := a.denied()
	if d.Limit != slow || d.Wait != gains(slow, 80) {
		h.Fatalf("%+v, want %v", d, gains(slow, 80))
	}
	// All of a microsecond that is begun counts in gains, but not in what is held.
	h.sleep(d.Wait - gains(l, 400))
	b.granted()
	h.cancel(b.ID)
	h.sleep(time.Microsecond)
	b.next()
	b.denied()
	h.sleep(gains(l, 400) - time.Microsecond)
	a.granted()
}

func overdrawnNotWaited(h *harness) {
	f, l, rest := newFleet(h), tokens("tpm", 100), tokens("rest", 60)
	h.grant(of(l, 50), of(rest, 50))
	a := f.job("p", 0, "t", of(l, 60), ledger.Charge{Limit: rest, Amount: 60, Overdraw: true})
	a.denied()
	f.job("q", 1, "t", of(rest, 10)).granted()
	a.Charges[0].Amount = 50
	a.granted()
	h.used(rest, 120)
}

// Each is short of what the other one would hold, were there not one order for both.
func oppositeOrder(h *harness) {
	for _, unpaced := range []bool{true, false} {
		x := &ledger.Limit{Key: fmt.Sprint("x", unpaced), Unit: ledger.Tokens, Amount: 100, Window: time.Minute, Unpaced: unpaced, Burst: 100}
		y := with(x, func(l *ledger.Limit) { l.Key = fmt.Sprint("y", unpaced) })
		f := newFleet(h)
		h.grant(of(x, 60))
		h.sleep(10 * time.Second)
		h.grant(of(y, 60))
		start := time.Now()
		waiting := []*waiter{f.job("p", 1, "a", of(x, 70), of(y, 40)), f.job("q", 1, "b", of(y, 70), of(x, 40))}
		for next := time.Duration(0); len(waiting) > 0; h.sleep(next) {
			next = time.Minute
			waiting = slices.DeleteFunc(waiting, func(w *waiter) bool {
				d := w.ask()
				next = min(next, d.Wait)
				return d.Outcome == ledger.Granted
			})
		}
		if after := time.Since(start); after > 2*time.Minute+5*time.Second {
			h.Errorf("%v for both", after) // which are two windows
		}
	}
}

// A call that needs most of the window has to drain it first.
func mostOfWindow(h *harness) {
	window := &ledger.Limit{Key: "unpaced", Unit: ledger.Tokens, Amount: 2000, Window: 20 * time.Second, Unpaced: true}
	for _, l := range []*ledger.Limit{window, with(window, func(l *ledger.Limit) { l.Key, l.Unpaced = "paced", false })} {
		f, rng := newFleet(h), seeded(h.T)
		small := f.job("p", 1, "small", of(l, 20))
		f.serve(rng, 60, small)
		big := f.job("q", 1, "big", of(l, 1800))
		start, before := time.Now(), 0
		big.denied()
		for big.ask().Outcome != ledger.Granted {
			if small.ask().Outcome == ledger.Granted {
				before++
				small.next()
			}
			h.sleep(200 * time.Millisecond)
		}
		if after := time.Since(start); after > 2*l.Window {
			h.Errorf("%v in %v", l.Key, after)
		}
		h.between("small ones first", int64(before), 0, 60)
		f.serve(rng, 10, small)
	}
}

func ownLimit(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	own := with(tokens("own", 100), func(l *ledger.Limit) { l.Own = true })
	h.grant(of(l, 50))
	blocker := h.grant(of(own, 60))
	a, b := f.job("p", 0, "t", of(l, 50), of(own, 50)), f.job("q", 1, "t", of(l, 50))
	if d := a.denied(); d.Limit != own {
		h.Fatalf("%v binds", d.Limit)
	}
	f.tickets(0)
	b.granted()
	// It joins the line when its own limit has enough, and leaves when it has not.
	h.cancel(blocker)
	if d := a.denied(); d.Limit != l {
		h.Fatalf("%v binds", d.Limit)
	}
	f.tickets(1)
	h.grant(of(own, 60))
	a.denied()
	f.tickets(0)
}

// What is in front counts at most up to the capacity without one's own part.
func fullNeverRefused(h *harness) {
	half := with(tokens("half", 10), func(l *ledger.Limit) { l.Window = 30 * time.Second })
	soon := &ledger.Limit{Key: "soon", Unit: ledger.Tokens, Amount: 60, Window: time.Minute, Burst: 10}
	h.grant(of(half, 10))
	h.grant(of(soon, 10))
	for _, c := range []struct {
		full   ledger.Charge
		behind *ledger.Limit // is what those in front are short of
	}{
		{of(tokens("unpaced", 100), 30), half},
		{of(inFlight("running", 5, time.Minute), 1), half},
		{of(&ledger.Limit{Key: "paced", Unit: ledger.Tokens, Amount: 10_000, Window: time.Hour, Burst: 100}, 30), soon},
	} {
		f := newFleet(h)
		var front []*waiter
		for n := range 10 {
			w := f.job("p", 0, fmt.Sprint(n), c.full, of(c.behind, 1))
			w.denied()
			front = append(front, w)
		}
		b := f.job("q", 1, "t", c.full)
		b.granted()
		b.next()
		b.denied() // it is not full any more
		f.withdraw(append(front, b)...)
	}
}
