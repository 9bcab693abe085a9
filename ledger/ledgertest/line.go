package ledgertest

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var theLine = []test{
	{name: "a request without a place takes no notice of it", run: withoutPlace},
	{name: "when nobody is in it all is as before", run: nobodyInLine},
	{name: "a denial leaves a ticket if it asks for one", run: leavesTicket},
	{name: "a lane has one ticket", run: oneTicketPerLane},
	{name: "the next job of a lane takes its place", run: takesItsPlace},
	{name: "a ticket that is withdrawn holds nobody up", run: withdrawn},
	{name: "it says what it has come to", run: comeTo},
	{name: "going before one who could have gone is counted", run: inversions, exact: true},
	{name: "a bad place changes nothing", run: badPlace},
}

func withoutPlace(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 50))
	f.job("p", 0, "t", of(l, 60)).denied()
	f.job("q", 1, "t", of(l, 40)).denied() // which keeps for it what is left
	h.grant(of(l, 40))
	h.deny(of(l, 11))
	f.tickets(2)
}

func nobodyInLine(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	for i := range 10 {
		f.job("p", i, "t", of(l, 10)).granted()
	}
	h.used(l, 100)
	if s := f.state(); s != (ledger.LineState{}) {
		h.Fatalf("%+v, but nobody had to wait", s)
	}
}

func leavesTicket(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 50))
	a := f.job("p", 0, "t", of(l, 60))
	a.glance().denied()
	f.tickets(0)
	f.job("q", 1, "t", of(l, 10)).granted()
	a.denied()
	f.tickets(1)
	f.job("q", 1, "t", of(l, 10)).glance().denied()
	f.tickets(1)
	_, d := h.try(of(l, 101))
	h.want(d, ledger.TooLarge)
	f.tickets(1)
}

func oneTicketPerLane(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 100))
	a := f.job("p", 0, "t", of(l, 60))
	for range 5 {
		a.denied()
		a.next()
	}
	f.tickets(1)
	f.job("p", 0, "u", of(l, 60)).denied()
	f.job("q", 0, "t", of(l, 60)).denied()
	f.tickets(3)
}

func takesItsPlace(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 50))
	a, b := f.job("p", 1, "t", of(l, 60)), f.job("q", 1, "u", of(l, 30))
	a.denied()
	b.denied()
	a.next()
	a.denied()
	b.denied() // it is in front still
	a.next()
	a.Charges = []ledger.Charge{of(l, 50)}
	a.granted()
	f.tickets(1)
}

func withdrawn(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 50))
	a, b := f.job("p", 0, "t", of(l, 60)), f.job("q", 1, "t", of(l, 30))
	a.denied()
	b.denied()
	f.withdraw(a)
	f.tickets(1)
	f.withdraw(a, f.job("p", 3, "nobody", of(l, 1))) // which is fine
	f.tickets(1)
	b.granted()
	f.tickets(0)
}

// Grants count while somebody is in line.
func comeTo(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	blocker := h.grant(of(l, 50))
	f.job("q", 0, "t", of(l, 1)).granted()
	a, b := f.job("p", 0, "t", of(l, 60)), f.job("p", 1, "t", of(l, 10))
	a.denied()
	b.denied()
	f.job("q", 0, "t", of(l, 50)).denied()
	if s := f.state(); s != (ledger.LineState{Tickets: 3}) {
		h.Fatalf("%+v, want 3 tickets", s)
	}
	h.cancel(blocker)
	if s := f.state(); s.Messages == 0 {
		h.Fatal("nobody was told that there is room")
	}
	a.granted()
	h.grant(of(l, 1)) // in no line
	if s := f.state(); s.Tickets != 2 || s.Grants != 1 {
		h.Fatalf("%+v, want 2 tickets and 1 grant", s)
	}
}

func inversions(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	blocker := h.grant(of(l, 100))
	a, b := f.job("p", 0, "t", of(l, 60)), f.job("q", 1, "t", of(l, 1))
	a.denied()
	h.settle(blocker, final(l, 10)) // it is told
	for _, step := range []struct {
		after time.Duration
		want  int64
	}{{100 * time.Millisecond, 0}, {time.Microsecond, 1}, {time.Microsecond, 2}} {
		h.sleep(step.after)
		b.granted()
		b.next()
		if s := f.state(); s.Inversions != step.want {
			h.Fatalf("%+v, want %d inversions", s, step.want)
		}
	}
}

func badPlace(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	for field, spoil := range map[string]func(*ledger.Place){
		"Class must":      func(p *ledger.Place) { p.Class = 10 },
		"Class":           func(p *ledger.Place) { p.Class = -1 },
		"Waited":          func(p *ledger.Place) { p.Waited = -1 },
		"Waited must":     func(p *ledger.Place) { p.Waited = math.MaxInt64 },
		"AgedShare must":  func(p *ledger.Place) { p.AgedShare = 101 },
		"AgedShare":       func(p *ledger.Place) { p.AgedShare = -1 },
		"Process":         func(p *ledger.Place) { p.Process = strings.Repeat("p", 129) },
		"Process, Lane":   func(p *ledger.Place) { p.Lane = strings.Repeat("l", 16<<10+1) },
		"Lane and Tenant": func(p *ledger.Place) { p.Tenant = strings.Repeat("t", 4<<10+1) },
	} {
		good, bad := f.job("p", 0, "t", of(l, 1)), f.job("p", 0, "t", of(l, 1))
		spoil(&bad.Place)
		batch := []ledger.Request{good.Request, bad.Request}
		_, reserved := h.Reserve(h.Context(), batch)
		for _, err := range []error{reserved, h.Withdraw(h.Context(), batch)} {
			if !errors.Is(err, ledger.ErrRequest) || !strings.Contains(err.Error(), field) {
				h.Errorf("%s: %v", field, err)
			}
		}
	}
	h.used(l, 0)
	for _, class := range []int{-1, 10} {
		bad := []ledger.Settlement{{ID: h.id(), Class: class}}
		if err := h.Settle(h.Context(), bad); !errors.Is(err, ledger.ErrRequest) || !strings.Contains(err.Error(), "Class") {
			h.Errorf("class %d: %v", class, err)
		}
	}
	// The longest names there are, of any bytes.
	long := f.job("p", 9, "t", of(l, 101))
	long.Place.Process = strings.Repeat("\x00", 128)
	long.Place.Lane = strings.Repeat("\xff", 16<<10)
	long.Place.Tenant = strings.Repeat("{", 4<<10)
	long.Charges = []ledger.Charge{of(l, 60)}
	h.grant(of(l, 50))
	long.denied()
	f.tickets(1)
	long.Charges = []ledger.Charge{of(l, 50)}
	long.granted()
	f.tickets(0)
}
