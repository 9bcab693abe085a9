package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var lineLate = []test{
	{name: "it is passed over after 250 ms", run: passedOver, exact: true},
	{name: "so are all tickets of its process", run: processPassedOver, exact: true},
	{name: "until the process calls again", run: untilItCalls, exact: true},
	{name: "after 2 s it has lost its place", run: losesPlace, exact: true},
	{name: "who calls in time keeps its place", run: callsInTime, exact: true},
	{name: "who is late and comes is served", run: lateButServed, exact: true},
}

const (
	late = 250 * time.Millisecond
	gone = 2 * time.Second
)

// due has a job wait for most of a limit, tells it to come, and returns it with one
// behind it that waits for the same.
func due(f *fleet) (l *ledger.Limit, first, behind *waiter) {
	l = tokens("tpm", 100)
	id := f.grant(of(l, 100))
	first, behind = f.job("p", 1, "t", of(l, 60)), f.job("q", 2, "t", of(l, 60))
	first.denied()
	behind.denied()
	f.settle(id, final(l, 10))
	return l, first, behind
}

func passedOver(h *harness) {
	f := newFleet(h)
	_, _, behind := due(f)
	h.sleep(late)
	behind.denied()
	h.sleep(time.Microsecond)
	behind.granted()
	f.tickets(1) // it is in line still
}

// waitsForOther has a ticket of its process keep 60 of l, which waits for another limit.
func (f *fleet) waitsForOther(process string, class int, l *ledger.Limit) *waiter {
	other := with(tokens("other", 1), func(l *ledger.Limit) { l.Window = 30 * time.Second })
	if f.balances(other)[0].Used == 0 {
		f.grant(of(other, 1))
	}
	w := f.job(process, class, "other", of(l, 60), of(other, 1))
	w.denied()
	return w
}

func processPassedOver(h *harness) {
	f := newFleet(h)
	l, _, behind := due(f)
	f.waitsForOther("p", 1, l)
	h.sleep(late)
	behind.denied()
	h.sleep(time.Microsecond)
	behind.granted()
}

func untilItCalls(h *harness) {
	f := newFleet(h)
	l, first, behind := due(f)
	other := f.waitsForOther("p", 1, l)
	h.sleep(late + time.Microsecond)
	f.job("r", 3, "t", of(l, 20)).granted() // beside the one behind
	// Whatever it calls for. The one that did not come is passed over still.
	other.denied()
	behind.denied()
	f.withdraw(other)
	f.job("p", 9, "t", of(l, 1)).glance().granted()
	behind.granted()
	first.denied()
}

func losesPlace(h *harness) {
	f := newFleet(h)
	l, first, behind := due(f)
	id := h.grant(of(l, 90))
	h.sleep(gone)
	h.grant(of(l, 0)) // which looks at who is in line
	f.tickets(2)
	h.sleep(time.Microsecond)
	h.grant(of(l, 0))
	f.tickets(1)
	after := f.job("r", 1, "u", of(l, 60))
	after.denied()
	first.denied()
	f.withdraw(behind)
	h.settle(id, final(l, 20))
	first.denied() // it is behind now
	after.granted()
}

// Somebody out of line takes what was meant for it. The time it is told then counts.
func callsInTime(h *harness) {
	f := newFleet(h)
	l, first, behind := due(f)
	id := h.grant(of(l, 60))
	h.sleep(late)
	first.denied()
	h.cancel(id)
	h.sleep(late)
	behind.denied()
	first.granted()
}

func lateButServed(h *harness) {
	f := newFleet(h)
	_, first, behind := due(f)
	h.sleep(gone)
	first.granted()
	behind.denied()
}
