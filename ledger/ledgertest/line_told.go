package ledgertest

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var lineTold = []test{
	{name: "of a refund", run: toldOfRefund, watch: true},
	{name: "of a call that is cancelled", run: toldOfCancel, watch: true},
	{name: "of a ticket that is withdrawn", run: toldOfWithdrawal, watch: true},
	{name: "of a limit that is raised", run: toldOfRaise, watch: true},
	{name: "of a call in flight that ends", run: toldOfEnd, watch: true},
	{name: "of a grant, with the time it has to wait then", run: toldOfGrant, watch: true},
	{name: "and so are those behind many who wait for something else", run: toldBehindMany, watch: true},
	{name: "and so are two if there is room for two", run: bothTold, watch: true},
	{name: "and not those who may go no sooner", run: toldNothing},
	{name: "and not those behind it, whose turn comes then", run: behindNotTold, exact: true},
	{name: "and the one behind it is to look whether it comes", run: toldToLook, watch: true},
}

// watch returns what a process is told from now on.
func (f *fleet) watch(process string) <-chan time.Duration {
	turns, ended := make(chan time.Duration, 64), make(chan struct{})
	ctx, cancel := context.WithCancel(f.Context())
	go func() {
		defer close(ended)
		_ = f.process(process).Watch(ctx, process, func(in time.Duration) { turns <- in })
	}()
	f.Cleanup(func() {
		cancel()
		<-ended
	})
	if f.cfg.RealTime {
		<-turns // a ledger that is far away says so when it has begun to listen
	} else {
		synctest.Wait()
	}
	return turns
}

// hears waits until a process is told a time within the bounds. What it was told before
// may be on its way still.
func (f *fleet) hears(turns <-chan time.Duration, low, high time.Duration) {
	f.Helper()
	var heard []time.Duration
	for end := time.After(5 * time.Second); ; {
		select {
		case in := <-turns:
			if heard = append(heard, in); in >= low && in <= high {
				return
			}
		case <-end:
			f.Fatalf("told %v, want %v to %v", heard, low, high)
		}
	}
}

// lookAfter is how long after a ticket's turn another process looks whether it came.
const lookAfter = 260 * time.Millisecond

// room has something make room for w, and for nobody else. Its process is told to come
// at once, the one behind it to look whether it comes, and nobody else anything.
func (w *waiter) room(makeRoom func()) {
	f := w.f
	f.Helper()
	first, second := f.watch(w.Place.Process), f.watch("behind")
	w.denied()
	f.job("behind", 8, "t", w.Charges...).denied()
	f.job("far behind", 9, "t", w.Charges...).denied()
	before := f.state()
	makeRoom()
	f.hears(first, 0, 0)
	f.hears(second, lookAfter, lookAfter)
	f.messages(before, 2)
	w.granted()
}

// messages checks how many were told anything since.
func (f *fleet) messages(since ledger.LineState, want int64) {
	f.Helper()
	if n := f.state().Messages - since.Messages; n != want {
		f.Fatalf("%d messages, want %d", n, want)
	}
}

func toldOfRefund(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	id := h.grant(of(l, 100))
	f.job("p", 1, "t", of(l, 60)).room(func() { h.settle(id, final(l, 40)) })
}

func toldOfCancel(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 40))
	id := h.grant(of(l, 60))
	f.job("p", 1, "t", of(l, 60)).room(func() { h.cancel(id) })
}

func toldOfWithdrawal(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 30))
	first := f.job("q", 0, "t", of(l, 80))
	first.denied()
	f.job("p", 1, "t", of(l, 60)).room(func() { f.withdraw(first) })
}

func toldOfRaise(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 100))
	raised := with(l, func(l *ledger.Limit) { l.Amount = 161 })
	w := f.job("p", 1, "t", of(l, 60))
	w.room(func() {
		h.grant(of(raised, 1))
		w.Charges = []ledger.Charge{of(raised, 60)}
	})
}

func toldOfEnd(h *harness) {
	f, l := newFleet(h), inFlight("running", 2, time.Minute)
	h.grant(of(l, 1))
	id := h.grant(of(l, 1))
	f.job("p", 1, "t", of(l, 1)).room(func() { h.end(id) })
}

// Until then it had too much in front of it to know.
func toldOfGrant(h *harness) {
	f, l := newFleet(h), pace(h)
	a, b := f.job("p", 1, "t", of(l, 60)), f.job("p", 2, "t", of(l, 60))
	turns := f.watch("p")
	d := a.denied()
	b.denied()
	before := f.state()
	h.sleep(d.Wait)
	a.granted()
	f.hears(turns, time.Microsecond, gains(l, 60))
	f.messages(before, 1)
}

func toldBehindMany(h *harness) {
	f, l, other := newFleet(h), tokens("tpm", 100), tokens("other", 1)
	h.grant(of(other, 1))
	id := h.grant(of(l, 100))
	for n := range 40 {
		f.job(fmt.Sprint("o", n/8), 0, fmt.Sprint(n), of(other, 1)).denied()
	}
	f.job("p", 1, "t", of(l, 60)).room(func() { h.settle(id, final(l, 40)) })
}

func bothTold(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	id, a, b := h.grant(of(l, 100)), f.watch("p"), f.watch("q")
	for i, process := range []string{"p", "q", "r"} {
		f.job(process, i, "t", of(l, 40)).denied()
	}
	before := f.state()
	h.settle(id, final(l, 20))
	f.hears(a, 0, 0)
	f.hears(b, 0, 0)
	f.messages(before, 2)
}

func toldNothing(h *harness) {
	f, l, other := newFleet(h), tokens("tpm", 100), tokens("other", 100)
	id, second, elsewhere := h.grant(of(l, 60)), h.grant(of(l, 40)), h.grant(of(other, 100))
	f.job("p", 1, "t", of(l, 60)).denied()
	f.job("p", 2, "t", of(l, 30)).denied()
	before := f.state()
	h.cancel(elsewhere)
	h.settle(id, final(l, 1)) // not enough
	f.messages(before, 0)
	h.settle(second, final(l, 39))
	f.messages(before, 1)
	h.grant(of(other, 1))
	h.deny(of(l, 61)) // it was told before
	f.messages(before, 1)
}

func toldToLook(h *harness) {
	f, l := newFleet(h), pace(h)
	turns := f.watch("q")
	d := f.job("p", 1, "t", of(l, 60)).denied()
	f.job("q", 2, "t", of(l, 60)).denied()
	f.hears(turns, lookAfter, d.Wait+lookAfter)
	before := f.state()
	f.job("r", 3, "t", of(l, 60)).denied() // one is enough
	f.messages(before, 0)
}

// Both may go sooner, but the second will hear when the first one goes.
func behindNotTold(h *harness) {
	f, l := newFleet(h), with(paced("tpm", 6000), func(l *ledger.Limit) { l.Burst = 100 })
	id := h.grant(of(l, 100))
	f.job("p", 1, "t", of(l, 60)).denied()
	f.job("p", 2, "t", of(l, 30)).denied()
	before := f.state()
	h.settle(id, final(l, 80))
	f.messages(before, 1)
}
