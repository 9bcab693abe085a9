package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var allOrNothing = []test{
	{name: "one short limit leaves the others untouched", run: shortLimitLeavesOthers},
	{name: "a call that finds no place in flight costs no request", run: noPlaceCostsNoRequest},
	{name: "a window that is over does not hide one that is full", run: overDoesNotHideFull, exact: true},
	{name: "sixteen limits of all units", run: sixteenLimits},
	{name: "no charge at all", run: noCharge},
}

// milvus-io/milvus#25597, envoyproxy/ratelimit#440 and #443, temporalio/temporal's
// consumeRateLimiters, hugalafutro/model-hotel#976: a limit that passed keeps the
// charge although another one denied. thrasher-corp/gocryptotrader#2371: giving it
// back limit by limit went wrong.
func shortLimitLeavesOthers(h *harness) {
	model, tenant, rpm := tokens("model", 1000), tokens("tenant", 100), requests("rpm", 10)
	h.grant(of(model, 60), of(tenant, 60), of(rpm, 1))
	same := h.unchanged(model, tenant, rpm)
	orders := [][]ledger.Charge{
		{of(model, 50), of(tenant, 50), of(rpm, 1)},
		{of(tenant, 50), of(rpm, 1), of(model, 50)},
		{of(rpm, 1), of(model, 50), of(tenant, 50)},
	}
	for _, charges := range orders {
		if d := h.deny(charges...); d.Limit != tenant {
			h.Fatalf("%v binds, not the tenant's limit", d.Limit)
		}
		same()
	}
	h.grant(of(model, 40), of(tenant, 40), of(rpm, 1))
}

// BerriAI/litellm#39309 and #39544: a rejection for calls in flight eats the limit
// of requests.
func noPlaceCostsNoRequest(h *harness) {
	rpm, running := requests("rpm", 2), inFlight("running", 1, time.Minute)
	a := h.grant(of(rpm, 1), of(running, 1))
	h.deny(of(rpm, 1), of(running, 1))
	h.end(a)
	h.grant(of(rpm, 1), of(running, 1))
	h.used(rpm, 2)
}

// maximhq/bifrost#1154: one expired window made the code skip all limits.
func overDoesNotHideFull(h *harness) {
	short := &ledger.Limit{Key: "tokens", Unit: ledger.Tokens, Amount: 100, Window: time.Second}
	full := &ledger.Limit{Key: "requests", Unit: ledger.Requests, Amount: 1, Window: time.Hour}
	h.grant(of(short, 4), of(full, 1))
	h.sleep(10 * time.Second)
	h.used(short, 0)
	if d := h.deny(of(short, 4), of(full, 1)); d.Limit != full {
		h.Fatalf("%v binds, not the full limit", d.Limit)
	}
}

func sixteenLimits(h *harness) {
	var limits []*ledger.Limit
	var charges []ledger.Charge
	for i := range ledger.MaxCharges {
		l := tokens(string(rune('a'+i)), 10)
		l.Unit = ledger.Unit(i % 6)
		limits = append(limits, l)
		charges = append(charges, of(l, 1))
	}
	id := h.grant(charges...)
	for _, l := range limits {
		h.used(l, 1)
	}
	h.cancel(id)
	for _, l := range limits {
		h.used(l, 0)
	}
}

func noCharge(h *harness) {
	id := h.grant()
	h.want(h.tryAs(id), ledger.Granted)
	h.settle(id)
	h.want(h.tryAs(id), ledger.Refused)
}

var inOrder = []test{
	{name: "concurrent jobs get the limit and no more", run: fiveJobs},
	{name: "what is behind a denied request does not pass it", run: behindDoesNotPass},
	{name: "a denied request holds nothing where it is not short", run: holdsOnlyWhereShort},
	{name: "a held place in flight", run: holdsPlace},
	{name: "as one by one until the first denial", run: asOneByOne, exact: true},
	{name: "thousands in one call", run: thousands},
	{name: "nothing in one call", run: nothing},
}

// BerriAI/litellm#18730: of a limit of 100, all of 58, 80, 175, 175, 175 went.
func fiveJobs(h *harness) {
	tpm := tokens("tpm", 100)
	var batch []ledger.Request
	for _, n := range []int64{58, 80, 175, 175, 175, 42} {
		batch = append(batch, ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, n)}})
	}
	ds := h.decide(batch...)
	for i, want := range []ledger.Outcome{ledger.Granted, ledger.Denied, ledger.TooLarge, ledger.TooLarge, ledger.TooLarge, ledger.Denied} {
		h.want(ds[i], want)
	}
	h.used(tpm, 58)
	h.grant(of(tpm, 42))
	h.used(tpm, 100)
}

func behindDoesNotPass(h *harness) {
	tpm := tokens("tpm", 100)
	h.grant(of(tpm, 60))
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 50)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 10)}},
	)
	h.want(ds[0], ledger.Denied)
	h.want(ds[1], ledger.Denied)
	h.grant(of(tpm, 10)) // what was held is not held any more
}

func holdsOnlyWhereShort(h *harness) {
	a, b, rpm := tokens("a", 100), tokens("b", 100), requests("rpm", 1)
	h.grant(of(a, 60))
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(a, 50), of(rpm, 1)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(b, 100), of(rpm, 1)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(b, 1)}},
	)
	h.want(ds[0], ledger.Denied)
	h.want(ds[1], ledger.Granted)
	h.want(ds[2], ledger.Denied)
}

func holdsPlace(h *harness) {
	running, tpm := inFlight("running", 2, time.Minute), tokens("tpm", 100)
	h.grant(of(running, 1))
	h.grant(of(tpm, 100))
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(running, 1), of(tpm, 1)}}, // short of tokens only
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(running, 1)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(running, 1)}},
	)
	h.want(ds[0], ledger.Denied)
	h.want(ds[1], ledger.Granted)
	h.want(ds[2], ledger.Denied)
	h.used(running, 2)
}

func asOneByOne(h *harness) {
	single := newHarness(h.T, h.cfg)
	limits := []*ledger.Limit{tokens("tpm", 5000), paced("paced", 40_000), requests("rpm", 60), inFlight("running", 40, time.Minute)}
	rng := seeded(h.T)
	for range 12 {
		var batch []ledger.Request
		for range 20 {
			r := ledger.Request{ID: h.id()}
			for _, l := range limits {
				if amount := 1 + rng.Int64N(200); l.Unit != ledger.Tokens {
					r.Charges = append(r.Charges, of(l, 1))
				} else if rng.IntN(3) > 0 {
					r.Charges = append(r.Charges, of(l, amount))
				}
			}
			batch = append(batch, r)
		}
		// The other ledger is left in the same state: it gets what was granted here.
		denied := false
		for i, d := range h.decide(batch...) {
			if !denied {
				if alone := single.decide(batch[i])[0]; alone != d {
					h.Fatalf("%+v in the batch, %+v alone", d, alone)
				}
			} else if d.Outcome == ledger.Granted {
				single.want(single.decide(batch[i])[0], ledger.Granted)
			}
			denied = denied || d.Outcome == ledger.Denied
		}
		h.sleep(rng.upTo(20 * time.Second))
	}
}

func thousands(h *harness) {
	tpm := tokens("tpm", 2500)
	batch := make([]ledger.Request, 3000)
	settlements := make([]ledger.Settlement, len(batch))
	for i := range batch {
		batch[i] = ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}
		settlements[i] = ledger.Settlement{ID: batch[i].ID, Final: []ledger.Final{final(tpm, 0)}}
	}
	for i, d := range h.decide(batch...) {
		if want := i < 2500; want != (d.Outcome == ledger.Granted) {
			h.Fatalf("request %d: %v", i, d.Outcome)
		}
	}
	h.used(tpm, 2500)
	h.settleAll(settlements...)
	h.used(tpm, 0)
}

func nothing(h *harness) {
	h.decide()
	h.settleAll()
	h.balances()
	if err := h.Renew(h.Context(), nil); err != nil {
		h.Fatal(err)
	}
}
