package ledgertest

import (
	"sync"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var once = []test{
	{name: "a request that is repeated is charged once", run: repeatedRequest},
	{name: "a repeat holds when the limit is full or lower", run: repeatHolds},
	{name: "a denied request may ask again", run: deniedAsksAgain, exact: true},
	{name: "the same id twice in a batch", run: twiceInBatch},
	{name: "a settlement that is repeated counts once", run: repeatedSettlement},
	{name: "the first settlement stands", run: firstStands},
	{name: "a settlement that is repeated long after", run: repeatedLongAfter, exact: true},
	{name: "a cancel returns all once", run: cancelReturnsOnce},
	{name: "a cancel before its request refuses it", run: cancelBefore},
	{name: "a settled id is refused", run: settledIsRefused},
	{name: "an unknown id", run: unknownID},
	{name: "attempts and jobs are different ids", run: differentIDs},
	{name: "many at once with one id", run: manyWithOneID},
}

// express-rate-limit/rate-limit-redis#251, redis/go-redis#2339: a lost reply and a
// retried command count twice.
func repeatedRequest(h *harness) {
	tpm, running := tokens("tpm", 1000), inFlight("running", 10, time.Minute)
	id := h.id()
	for range 5 {
		h.want(h.tryAs(id, of(tpm, 100), of(running, 1)), ledger.Granted)
		h.used(tpm, 100)
		h.used(running, 1)
	}
}

func repeatHolds(h *harness) {
	tpm, rpm := tokens("tpm", 100), requests("rpm", 10)
	id := h.grant(of(tpm, 100), of(rpm, 1))
	h.deny(of(tpm, 1), of(rpm, 1))
	h.want(h.tryAs(id, of(tpm, 100), of(rpm, 1)), ledger.Granted)
	lower := with(tpm, func(l *ledger.Limit) { l.Amount = 50 })
	h.want(h.tryAs(id, of(lower, 100), of(rpm, 1)), ledger.Granted)
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(rpm, 1)}},
		ledger.Request{ID: id, Charges: []ledger.Charge{of(tpm, 100), of(rpm, 1)}},
	)
	h.want(ds[0], ledger.Granted)
	h.want(ds[1], ledger.Granted)
	h.used(rpm, 2)
}

func deniedAsksAgain(h *harness) {
	tpm := tokens("tpm", 100)
	h.grant(of(tpm, 100))
	id, d := h.try(of(tpm, 10))
	h.want(d, ledger.Denied)
	h.sleep(d.Wait)
	h.want(h.tryAs(id, of(tpm, 10)), ledger.Granted)
}

func twiceInBatch(h *harness) {
	tpm := tokens("tpm", 100)
	r := ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 60)}}
	other := ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 40)}}
	for _, d := range h.decide(r, r, other, r, other) {
		h.want(d, ledger.Granted)
	}
	h.used(tpm, 100)
	s := ledger.Settlement{ID: r.ID, Final: []ledger.Final{final(tpm, 10)}}
	h.settleAll(s, s, s)
	h.used(tpm, 50)
	unknown := h.id()
	h.settleAll(
		ledger.Settlement{ID: unknown, Final: []ledger.Final{final(tpm, 10)}},
		ledger.Settlement{ID: unknown, Final: []ledger.Final{final(tpm, 10)}, Cancel: true},
	)
	h.want(h.tryAs(unknown, of(tpm, 1)), ledger.Refused)
}

// palantir/conjure-java-runtime#1413: what is released twice corrupts the limiter.
func repeatedSettlement(h *harness) {
	tpm, running := tokens("tpm", 1000), inFlight("running", 10, time.Minute)
	h.grant(of(tpm, 100), of(running, 1))
	id := h.grant(of(tpm, 500), of(running, 1))
	for range 5 {
		h.settle(id, final(tpm, 200), final(running, 1))
		h.used(tpm, 300)
		h.used(running, 1)
	}
}

// When its id is not remembered any more there is nothing to settle.
func repeatedLongAfter(h *harness) {
	day := with(tokens("day", 1000), func(l *ledger.Limit) { l.Window = 24 * time.Hour })
	id := h.grant(of(day, 500))
	h.sleep(58 * time.Minute)
	h.settle(id, final(day, 300))
	for range 5 {
		h.sleep(2 * time.Minute)
		h.settle(id, final(day, 0))
		h.cancel(id)
		h.used(day, 300)
	}
}

// maximhq/bifrost's tracker: success and cancel of one attempt both count.
func firstStands(h *harness) {
	tpm := tokens("tpm", 1000)
	a := h.grant(of(tpm, 500))
	h.settle(a, final(tpm, 200))
	h.cancel(a)
	h.settle(a, final(tpm, 900))
	h.used(tpm, 200)
	b := h.grant(of(tpm, 500))
	h.cancel(b)
	h.settle(b, final(tpm, 900))
	h.used(tpm, 200)
}

// temporalio/temporal#6599 and #7590: work that is thrown away burns tokens, and the
// repair lets two through for each.
func cancelReturnsOnce(h *harness) {
	tpm := tokens("tpm", 1000)
	h.grant(of(tpm, 400))
	id := h.grant(of(tpm, 250))
	for range 3 {
		h.cancel(id)
		h.used(tpm, 400)
	}
	// Whatever the settlement says besides, it is a cancel.
	id = h.grant(of(tpm, 250))
	h.settleAll(ledger.Settlement{ID: id, Cancel: true, Final: []ledger.Final{{Limit: tpm, Admitted: 77, Late: 33}}})
	h.used(tpm, 400)
}

func cancelBefore(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.id()
	h.settleAll(ledger.Settlement{ID: id, Cancel: true, Final: []ledger.Final{final(tpm, 0)}})
	h.used(tpm, 0)
	for range 2 {
		h.want(h.tryAs(id, of(tpm, 100)), ledger.Refused)
		h.used(tpm, 0)
	}
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}},
		ledger.Request{ID: id, Charges: []ledger.Charge{of(tpm, 100)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 2)}},
	)
	h.want(ds[1], ledger.Refused)
	h.used(tpm, 3)
	// A refused id is refused whatever it asks for.
	h.want(h.tryAs(id, of(tpm, 5000)), ledger.Refused)
	id.Attempt++
	h.want(h.tryAs(id, of(tpm, 100)), ledger.Granted)
}

func settledIsRefused(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.grant(of(tpm, 100))
	h.settle(id, final(tpm, 50))
	h.want(h.tryAs(id, of(tpm, 100)), ledger.Refused)
	h.used(tpm, 50)
}

// Settled but never granted: nothing to move, and nothing that speaks against it.
func unknownID(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.id()
	h.settle(id, final(tpm, 500))
	h.used(tpm, 0)
	h.want(h.tryAs(id, of(tpm, 100)), ledger.Granted)
	h.used(tpm, 100)
}

func differentIDs(h *harness) {
	tpm := tokens("tpm", 1000)
	ids := []ledger.ID{
		{},
		{Attempt: 1},
		{Attempt: 1 << 31},
		{Job: [16]byte{15: 1}},
		{Job: [16]byte{0: 1}},
		{Job: [16]byte{0: 0xff, 1: '\n', 2: '\r', 3: 0}, Attempt: 1<<32 - 1},
	}
	for i, id := range ids {
		h.want(h.tryAs(id, of(tpm, 10)), ledger.Granted)
		h.used(tpm, int64(10*i+10))
	}
	for i, id := range ids {
		h.cancel(id)
		h.used(tpm, int64(50-10*i))
	}
}

func manyWithOneID(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.id()
	var wg sync.WaitGroup
	for range 4 {
		p := h.process()
		for range 8 {
			wg.Go(func() {
				ds, err := p.Reserve(h.Context(), []ledger.Request{{ID: id, Charges: []ledger.Charge{of(tpm, 100)}}})
				if err != nil || ds[0].Outcome != ledger.Granted {
					h.Errorf("%v, %v", ds, err)
				}
			})
		}
	}
	wg.Wait()
	h.used(tpm, 100)
	for range 4 {
		p := h.process()
		for range 8 {
			wg.Go(func() {
				if err := p.Settle(h.Context(), []ledger.Settlement{{ID: id, Final: []ledger.Final{final(tpm, 30)}}}); err != nil {
					h.Error(err)
				}
			})
		}
	}
	wg.Wait()
	h.used(tpm, 30)
}
