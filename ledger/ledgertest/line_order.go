package ledgertest

import (
	"slices"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var lineOrder = []test{
	{name: "the more urgent class goes first, whoever asks first", run: urgentFirst, exact: true},
	{name: "urgent work that comes late goes in front", run: urgentInFront},
	{name: "within a tenant first come, first served", run: firstCome, exact: true},
	{name: "tenants take turns by tokens", run: turnsByTokens, exact: true},
	{name: "tenants take turns by weight", run: turnsByWeight, exact: true},
	{name: "who was idle has saved up nothing", run: nothingSavedUp, exact: true},
	{name: "what nobody wanted is not held against who took it", run: notHeldAgainst, exact: true},
	{name: "settling moves the next turn", run: settlingMovesTurn, exact: true},
	{name: "a ticket that goes unused costs no turn", run: unusedCostsNothing, exact: true},
	{name: "what counts is the job that is granted, not the one that came first", run: grantedCounts, exact: true},
}

func urgentFirst(h *harness) {
	f, l := newFleet(h), pace(h)
	var jobs []*waiter
	for class := range 10 {
		for _, process := range []string{"p", "q"} {
			jobs = append(jobs, f.job(process, class, "t", of(l, 3)))
		}
	}
	rng := seeded(h.T)
	for _, i := range rng.Perm(len(jobs)) {
		jobs[i].denied()
	}
	var served []int
	for len(served) < len(jobs) {
		h.sleep(gains(l, 3))
		for _, i := range rng.Perm(len(jobs)) {
			if w := jobs[i]; !slices.Contains(served, i) && w.ask().Outcome == ledger.Granted {
				served = append(served, i)
			}
		}
	}
	for n, i := range served {
		if jobs[i].Place.Class != n/2 {
			h.Fatalf("classes in the order %v, two of each", served)
		}
	}
}

func urgentInFront(h *harness) {
	f, l := newFleet(h), tokens("tpm", 100)
	h.grant(of(l, 50))
	a, b, c := f.job("p", 5, "t", of(l, 60)), f.job("q", 4, "t", of(l, 20)), f.job("q", 6, "t", of(l, 20))
	a.denied()
	c.denied()
	b.granted()
	c.denied()
}

func firstCome(h *harness) {
	f, l := newFleet(h), pace(h)
	var jobs []*waiter
	for range 5 {
		for _, process := range []string{"p", "q", "r"} {
			w := f.job(process, 1, "t", of(l, 5))
			w.Place.Lane = process + time.Now().String()
			w.denied()
			jobs = append(jobs, w)
		}
		h.sleep(gains(l, 1))
	}
	for len(jobs) > 0 {
		for _, w := range slices.Backward(jobs[1:]) {
			w.denied()
		}
		if jobs[0].ask().Outcome == ledger.Granted {
			jobs = jobs[1:]
		}
		h.sleep(gains(l, 5))
	}
}

// share serves two hundred jobs of two tenants, which wait in two processes each. At
// any time they have had the same tokens by weight, but for two jobs of each.
func share(h *harness, sizeA, weightA, sizeB, weightB int64) {
	f, l := newFleet(h), pace(h)
	f.poll *= 2 // room for one job of each, and less than they wait for
	var jobs []*waiter
	for _, process := range []string{"p", "q"} {
		a, b := f.job(process, 1, "a", of(l, sizeA)), f.job(process, 1, "b", of(l, sizeB))
		a.Place.Weight, b.Place.Weight = weightA, weightB
		jobs = append(jobs, a, b)
	}
	for _, w := range jobs {
		w.denied()
	}
	served := f.serve(seeded(h.T), 200, jobs...)
	off := 2 * (sizeA*weightB + sizeB*weightA)
	for n := range served {
		a, b := tokensOf(served[:n], "a"), tokensOf(served[:n], "b")
		h.between("tokens by weight apart", a*weightB-b*weightA, -off, off)
	}
}

func turnsByTokens(h *harness) { share(h, 4, 1, 22, 1) }

func turnsByWeight(h *harness) { share(h, 10, 3, 12, 1) }

func nothingSavedUp(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	a, b, c := f.job("p", 1, "a", of(l, 10)), f.job("q", 1, "b", of(l, 10)), f.job("q", 1, "c", of(l, 10))
	f.serve(rng, 12, a, b, c)
	f.withdraw(c)
	f.serve(rng, 60, a, b)
	served := f.serve(rng, 30, a, b, c)
	for _, tenant := range []string{"a", "b", "c"} {
		h.between(tenant, tokensOf(served, tenant), 90, 110)
	}
}

func notHeldAgainst(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	a, a2, b := f.job("p", 1, "a", of(l, 10)), f.job("q", 1, "a", of(l, 10)), f.job("q", 1, "b", of(l, 10))
	f.serve(rng, 50, a, a2)
	served := f.serve(rng, 40, a, a2, b)
	h.between("b", tokensOf(served, "b"), 180, 220)
}

// What fairness counts is the cost until the job is settled, and then what it used.
func settlingMovesTurn(h *harness) {
	rng := seeded(h.T)
	for _, c := range []struct{ cost, extra, want int64 }{
		{10, 0, 24}, {50, 0, 8}, {50, -40, 24}, {10, 40, 8},
	} {
		f := newFleet(newHarness(h.T, h.cfg))
		l := pace(f.harness)
		a, b := f.job("p", 1, "a", of(l, 10)), f.job("q", 1, "b", of(l, 10))
		a.Place.Cost = c.cost
		got := int64(0)
		f.served = func(w *waiter) {
			if w.Place.Tenant == "a" {
				got++
				f.settleAll(ledger.Settlement{ID: w.ID, Final: []ledger.Final{final(l, 10)}, Tenant: "a", Class: 1, Weight: 1, Extra: c.extra})
			}
		}
		f.serve(rng, 48, a, b)
		h.between("jobs of 48", got, c.want-2, c.want+2)
	}
}

func unusedCostsNothing(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	a, b := f.job("p", 1, "a", of(l, 10)), f.job("q", 1, "b", of(l, 10))
	b.denied()
	unused := f.job("r", 1, "a", of(l, 10))
	unused.Place.Cost = 100_000
	unused.denied()
	f.withdraw(unused)
	h.between("a", tokensOf(f.serve(rng, 20, a, b), "a"), 90, 110)
	f.withdraw(a)
	unused.denied()
	f.poll *= 2
	for start := time.Now(); time.Since(start) < 23*time.Second; { // and now it does not come
		f.serve(rng, 1, b)
	}
	f.poll /= 2
	h.between("a", tokensOf(f.serve(rng, 20, a, b), "a"), 90, 110)
}

func grantedCounts(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	a, b := f.job("p", 1, "a", of(l, 10)), f.job("q", 1, "b", of(l, 10))
	a.denied()
	b.denied()
	h.sleep(gains(l, 10))
	a.next()
	a.Place.Cost = 50
	a.granted()
	a.next()
	a.Place.Cost = 10
	a.denied()
	h.between("a", tokensOf(f.serve(rng, 5, a, b), "a"), 0, 0)
}
