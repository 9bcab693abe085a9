package ledgertest

import (
	"errors"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var heard = []test{
	{name: "a refusal closes the limit to all processes", run: closes},
	{name: "a closed limit opens to one process after the other", run: opensInTurn, exact: true},
	{name: "an earlier end does not open it", run: staysClosed, exact: true},
	{name: "who waits in line hears when it opens", run: lineWhileClosed, exact: true},
	{name: "what others use is charged once", run: othersOnce},
	{name: "what others leave is ours again", run: othersGo, exact: true},
	{name: "what left since a call is not taken for others", run: leftSince, exact: true},
	{name: "others who grow are ahead of what was seen of them", run: othersGrow, exact: true},
	{name: "calls on the way are not taken for others", run: onTheWay, exact: true},
	{name: "others who use a bucket all the time are found", run: othersOfBucket, exact: true},
	{name: "what remains never raises", run: neverRaises},
	{name: "a refusal lowers the margin once", run: lowers, exact: true},
	{name: "others who explain a refusal spare the margin", run: explained, exact: true},
	{name: "a refusal by a limit of unknown size tells it", run: tellsSize, exact: true},
	{name: "quiet time raises the margin", run: raises, exact: true},
	{name: "growth that was too quick takes off a part", run: slower},
	{name: "an amount is told to all processes", run: tellsAmount},
	{name: "after an hour nothing is known", run: forgets, exact: true},
	{name: "bad observations change nothing", run: badObservations},
}

func (h *harness) observe(o ledger.Observation) ledger.Standing {
	h.Helper()
	s, err := h.Observe(h.Context(), []ledger.Observation{o})
	if err != nil {
		h.Fatal(err)
	}
	return s[0]
}

// from asks as a process, without a ticket.
func (h *harness) from(process string, charges ...ledger.Charge) ledger.Decision {
	h.Helper()
	p := ledger.Place{Process: process, Lane: "l", Tenant: "t", Class: 1, Weight: 1, Cost: 1}
	return h.decide(ledger.Request{ID: h.id(), Charges: charges, Place: p})[0]
}

func closes(h *harness) {
	tpm := tokens("tpm", 100)
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Refused: true, Close: 10 * time.Second})
	d := h.deny(of(tpm, 1))
	if d.Wait < 9*time.Second || d.Wait > 13*time.Second || !d.Closed {
		h.Fatalf("%+v", d)
	}
	ds, err := h.process().Reserve(h.Context(), []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}})
	if err != nil || ds[0].Outcome != ledger.Denied {
		h.Fatalf("%+v, %v", ds, err)
	}
	h.grant(of(tokens("other", 100), 1))
}

func opensInTurn(h *harness) {
	tpm := tokens("tpm", 1000)
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Close: 10 * time.Second})
	names := []string{"a", "b", "c", "d"}
	for range 2 {
		for i, want := range []string{"10s", "12.5s", "11.25s", "10.625s"} {
			if d := h.from(names[i], of(tpm, 1)); d.Outcome != ledger.Denied || d.Wait.String() != want {
				h.Fatalf("process %s: %+v, want %s", names[i], d, want)
			}
		}
	}
	h.sleep(10 * time.Second)
	h.want(h.from("a", of(tpm, 1)), ledger.Granted)
	h.want(h.from("b", of(tpm, 1)), ledger.Denied)
	h.want(h.from("c", of(tpm, 1)), ledger.Denied)
	h.sleep(625 * time.Millisecond)
	h.want(h.from("d", of(tpm, 1)), ledger.Granted)
	h.want(h.from("c", of(tpm, 1)), ledger.Denied)
	h.sleep(1875 * time.Millisecond)
	h.want(h.from("b", of(tpm, 1)), ledger.Granted)
	h.want(h.from("e", of(tpm, 1)), ledger.Granted)
}

func staysClosed(h *harness) {
	tpm := tokens("tpm", 1000)
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Close: 10 * time.Second})
	h.sleep(time.Second)
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Close: time.Second})
	if d := h.deny(of(tpm, 1)); d.Wait != 9*time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Close: 20 * time.Second})
	if d := h.deny(of(tpm, 1)); d.Wait != 20*time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
}

func lineWhileClosed(h *harness) {
	f := newFleet(h)
	tpm := tokens("tpm", 100)
	h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Close: time.Second})
	a, b := f.job("p", 1, "t", of(tpm, 50)), f.job("q", 5, "t", of(tpm, 50))
	if d := a.denied(); d.Wait != time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
	if d := b.denied(); d.Wait != 1250*time.Millisecond {
		h.Fatalf("wait %v", d.Wait)
	}
	h.sleep(time.Second)
	a.granted()
	b.denied()
	h.sleep(250 * time.Millisecond)
	b.granted()
}

func othersOnce(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 100))
	// One late call of ours would look the same, but not for so long.
	for i, want := range []ledger.Standing{{Unsure: true}, {Unsure: true}, {Others: 325}, {Others: 325}} {
		want.Amount, want.Margin, want.Used = 1000, ledger.FullMargin, 100
		used := int64(400)
		if i == 0 {
			used = 500
		}
		if s := h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: used}); s != want {
			h.Fatalf("observation %d: %+v", i, s)
		}
		h.sleep(time.Second)
	}
	h.deny(of(tpm, 576))
	h.grant(of(tpm, 575))
}

// Others come and go: what they leave is ours, and nothing is known of them when no
// answer has told for a window.
func othersGo(h *harness) {
	tpm := tokens("tpm", 1000)
	see := func(used int64) (s ledger.Standing) {
		for range 3 {
			s = h.observe(ledger.Observation{Limit: tpm, Used: used})
			h.sleep(time.Second)
		}
		return s
	}
	for _, used := range []int64{500, 300, 800} {
		used += used / 12
		if s := see(used * 12 / 13); s.Others < used-1 || s.Others > used {
			h.Fatalf("%+v, want %d", s, used)
		}
		h.deny(of(tpm, 1002-used))
	}
	h.sleep(time.Minute)
	h.grant(of(tpm, 1000))
}

// An answer tells what others had when its call was counted. By now they have more, if
// they grow.
func othersGrow(h *harness) {
	tpm := tokens("tpm", 1000)
	others := func(used int64) int64 {
		s := h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: used, Ago: 2 * time.Second})
		h.sleep(time.Second)
		return s.Others
	}
	for s := int64(2); s < 60; s++ {
		// 5 more a second; as every three answers count, the last that did is up to 4 s old.
		seen := max(5*(s-2-4), 0)
		if got := others(5 * (s - 2)); s > 20 && (got < seen+seen/12+8 || got > seen+seen/12+40) {
			h.Fatalf("after %d s: %d, want some more than %d", s, got, seen+seen/12)
		}
	}
	var got int64
	for range 20 {
		got = others(290)
	}
	if want := int64(290 * 13 / 12); got < want || got > want+1 {
		h.Fatalf("they grow no more: %d, want %d", got, want)
	}
}

func onTheWay(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 100))
	h.sleep(500 * time.Millisecond) // within the guard
	h.grant(of(tpm, 100))
	// It is the answer to the first call; the second may or may not be in it.
	for _, used := range []int64{100, 200} {
		if s := h.observe(ledger.Observation{Limit: tpm, Used: used, Ago: 500 * time.Millisecond}); s.Others != 0 {
			h.Fatalf("%+v", s)
		}
	}
	// A call that was made long after it is not in it.
	h.sleep(3 * time.Second)
	h.grant(of(tpm, 300))
	var others int64
	for i := range 3 {
		others = h.observe(ledger.Observation{Limit: tpm, Used: 400, Ago: 3500*time.Millisecond + time.Duration(i)*time.Second}).Others
		h.sleep(time.Second)
	}
	if others != 108 {
		h.Fatalf("%d, want a twelfth more than 100, the least of the run", others)
	}
	// One that was made before anything was heard says nothing any more.
	h.sleep(10 * time.Second)
	if s := h.observe(ledger.Observation{Limit: tpm, Used: 900, Ago: 17 * time.Second}); s.Others != others {
		h.Fatalf("%+v", s)
	}
}

// What was in the provider's window when it counted a call may have left ours when the
// answer comes.
func leftSince(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 500))
	h.sleep(30 * time.Second)
	h.grant(of(tpm, 300))
	h.sleep(20 * time.Second)
	h.observe(ledger.Observation{Limit: tpm, Used: 800})
	h.sleep(12 * time.Second)
	var s ledger.Standing
	for range 3 {
		s = h.observe(ledger.Observation{Limit: tpm, Used: 800, Ago: 8 * time.Second})
	}
	if s.Used != 300 || s.Others != 0 {
		h.Fatalf("%+v, want none of others", s)
	}
	for i := range 4 {
		s = h.observe(ledger.Observation{Limit: tpm, Used: 900, Ago: 8*time.Second + time.Duration(i)*time.Second})
		h.sleep(time.Second)
	}
	if s.Others < 108 || s.Others > 130 {
		h.Fatalf("%+v, want a little more than the hundred of others", s)
	}
}

// The provider's bucket gains 100 a second, of which we take 70 and others 30: what it
// lacks stays as it is, and only the difference shows them.
func othersOfBucket(h *harness) {
	tpm := with(paced("tpm", 6000), func(l *ledger.Limit) { l.Burst = 240 })
	seen := func() {
		h.observe(ledger.Observation{Limit: tpm, Used: 1000, Bucket: true, Ago: time.Millisecond})
	}
	h.grant(of(tpm, 70))
	h.sleep(time.Millisecond)
	seen()
	for range 30 {
		h.sleep(time.Second)
		h.from("p", ledger.Charge{Limit: tpm, Amount: 70, Overdraw: true})
		h.sleep(time.Millisecond)
		seen()
	}
	if b := h.balances(tpm)[0]; b.Used < 3700 || b.Used > 4050 {
		h.Fatalf("%d in use after 30 s, want about 4000", b.Used)
	}
}

func neverRaises(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 700))
	for _, bucket := range []bool{false, true} {
		h.observe(ledger.Observation{Limit: tpm, Used: 0, Bucket: bucket})
		h.used(tpm, 700)
	}
	h.deny(of(tpm, 301))
}

func lowers(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 1000))
	h.sleep(time.Second)
	refused := ledger.Observation{Limit: tpm, Amount: 1000, Used: ledger.Untold, Refused: true, Ago: 10 * time.Millisecond}
	for i, step := range []struct {
		after  time.Duration
		margin int64
	}{{0, 980}, {5 * time.Millisecond, 980}, {3 * time.Second, 980}, {time.Second, 960}} {
		h.sleep(step.after)
		if s := h.observe(refused); s.Margin != step.margin {
			h.Fatalf("refusal %d: margin %d, want %d", i, s.Margin, step.margin)
		}
	}
	h.sleep(2 * time.Minute)
	h.deny(of(tpm, 961))
	h.grant(of(tpm, 960))
}

func explained(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 600))
	h.sleep(time.Millisecond)
	s := h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: ledger.Untold, Refused: true, Ago: time.Millisecond})
	if s.Margin != ledger.FullMargin {
		h.Fatalf("%+v", s)
	}
	h.deny(of(tpm, 1)) // the others have the rest
	for range 3 {
		h.sleep(time.Second)
		h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: 600})
	}
	h.grant(of(tpm, 400)) // and are gone
}

func tellsSize(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 600))
	h.sleep(time.Second)
	refused := func(ago time.Duration, margin int64) {
		h.Helper()
		if s := h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Refused: true, Ago: ago}); s.Margin != margin {
			h.Fatalf("%+v, want margin %d", s, margin)
		}
	}
	refused(time.Millisecond, 480) // four fifths of what is used
	h.deny(of(tpm, 1))
	h.sleep(time.Second)
	refused(2*time.Second, 480) // was under way
	refused(time.Millisecond, 430)
	h.sleep(2 * time.Minute)
	h.deny(of(tpm, 431))
	h.grant(of(tpm, 430))
}

func raises(h *harness) {
	tpm := tokens("tpm", 1000)
	h.sleep(time.Second)
	h.grant(of(tpm, 1000))
	h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: ledger.Untold, Refused: true})
	for _, step := range []struct {
		after  time.Duration
		margin int64
	}{{9 * time.Minute, 980}, {61 * time.Second, 990}, {30 * time.Second, 990}, {31 * time.Second, 1000}, {10 * time.Minute, 1000}} {
		h.sleep(step.after)
		if s := h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold}); s.Margin != step.margin {
			h.Fatalf("after %v: margin %d, want %d", step.after, s.Margin, step.margin)
		}
	}
	h.grant(of(tpm, 1000))
}

func slower(h *harness) {
	tpm := tokens("tpm", 1000)
	if s := h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold, Slower: 30}); s.Margin != 700 {
		h.Fatalf("%+v", s)
	}
	h.deny(of(tpm, 701))
	h.grant(of(tpm, 700))
}

func tellsAmount(h *harness) {
	tpm := tokens("tpm", 1000)
	h.observe(ledger.Observation{Limit: tpm, Amount: 5000, Used: ledger.Untold})
	s, err := h.process().Observe(h.Context(), []ledger.Observation{{Limit: tpm, Used: ledger.Untold}})
	if err != nil || s[0].Amount != 5000 {
		h.Fatalf("%+v, %v", s, err)
	}
	h.deny(of(tpm, 1000), of(h.full("full"), 1)) // the limit stays what each call says
	h.grant(of(tpm, 1000))
}

// full returns a limit that has been used up.
func (h *harness) full(key string) *ledger.Limit {
	h.Helper()
	l := tokens(key, 1)
	h.grant(of(l, 1))
	return l
}

func forgets(h *harness) {
	tpm := tokens("tpm", 1000)
	h.observe(ledger.Observation{Limit: tpm, Amount: 1000, Used: ledger.Untold, Slower: 50})
	h.sleep(59 * time.Minute)
	h.deny(of(tpm, 501))
	h.sleep(time.Minute + time.Microsecond)
	h.grant(of(tpm, 1000))
	if s := h.observe(ledger.Observation{Limit: tpm, Used: ledger.Untold}); s.Amount != 0 || s.Margin != 1000 {
		h.Fatalf("%+v", s)
	}
}

func badObservations(h *harness) {
	tpm := tokens("tpm", 100)
	h.grant(of(tpm, 10))
	check := h.unchanged(tpm)
	good := ledger.Observation{Limit: tpm, Used: 50, Close: time.Hour}
	for i, bad := range [][]ledger.Observation{
		{good, {}},
		{good, good},
		{good, {Limit: inFlight("f", 1, 0)}},
		{good, {Limit: tokens("", 1)}},
		{good, {Limit: tokens("t", 1), Amount: -1}},
		{good, {Limit: tokens("t", 1), Used: ledger.MaxAmount + 1}},
		{good, {Limit: tokens("t", 1), Ago: -1}},
		{good, {Limit: tokens("t", 1), Close: -1}},
		{good, {Limit: tokens("t", 1), Close: 1000 * time.Hour}},
		{good, {Limit: tokens("t", 1), Slower: 91}},
	} {
		if _, err := h.Observe(h.Context(), bad); !errors.Is(err, ledger.ErrRequest) {
			h.Fatalf("batch %d: %v", i, err)
		}
	}
	check()
	h.grant(of(tpm, 10))
}
