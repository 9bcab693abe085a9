package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var overdueWork = []test{
	{name: "the oldest job of the most overdue class goes next", run: oldestNext, exact: true},
	{name: "work is overdue after its step, for each class from the most urgent one", run: overdueAfter, exact: true},
	{name: "it has its share, and no more", run: agedShare, exact: true},
	{name: "without a share or a step it waits", run: neverOverdue, exact: true},
	{name: "what it has not used it has not saved up", run: nothingSavedUpByAge, exact: true},
	{name: "nor what it has had beyond its share is held against it", run: notHeldAgainstOld, exact: true},
	{name: "who goes before his turn does not put others back", run: othersNotPutBack, exact: true},
	{name: "work that gets its share anyway makes no urgent work wait", run: shareAnyway, exact: true},
	{name: "a class that gets its share does not take it from another", run: thirdClass, exact: true},
	{name: "nor does work that has had everything, when urgent work is rare", run: shareOfAll, exact: true},
}

// aged is a job that has waited so long, where a step is a second and a share 20 %.
func (f *fleet) aged(process string, class int, tenant string, waited time.Duration, charge ledger.Charge) *waiter {
	w := f.job(process, class, tenant, charge)
	w.Place.Waited, w.Place.AgingStep, w.Place.AgedShare = waited, time.Second, 20
	return w
}

func oldestNext(h *harness) {
	rng := seeded(h.T)
	for range 8 {
		f := newFleet(newHarness(h.T, h.cfg))
		l := pace(f.harness)
		urgent := f.aged("p", 0, "t", 0, of(l, 10))
		jobs := []*waiter{
			urgent,
			f.aged("q", 3, "t", 7*time.Second, of(l, 10)),
			f.aged("q", 5, "a", 9*time.Second, of(l, 10)),
			f.aged("q", 5, "b", 10*time.Second, of(l, 10)), // 5 s over its time, the others 4
			f.aged("p", 5, "c", 9*time.Second, of(l, 10)),
			f.aged("q", 9, "t", 13*time.Second, of(l, 10)),
		}
		for _, w := range jobs {
			w.denied()
		}
		f.serve(rng, 1, urgent)
		if served := f.serve(rng, 1, jobs...); served[0].Place.Tenant != "b" {
			h.Fatalf("%+v served", served)
		}
	}
}

func overdueAfter(h *harness) {
	f, l := newFleet(h), pace(h)
	urgent, old := f.aged("p", 2, "t", 0, of(l, 50)), f.aged("q", 5, "t", 3*time.Second-time.Microsecond, of(l, 1))
	urgent.denied()
	f.serve(seeded(h.T), 1, f.aged("p", 1, "t", 0, of(l, 1))) // which leaves a share for old work
	old.denied()
	h.sleep(time.Microsecond)
	old.Place.Waited = 3 * time.Second
	old.granted()
}

func agedShare(h *harness) {
	for _, size := range []int64{4, 20} {
		f := newFleet(newHarness(h.T, h.cfg))
		l := pace(f.harness)
		var jobs []*waiter
		for _, process := range []string{"p", "q"} {
			jobs = append(jobs, f.aged(process, 0, "urgent", 0, of(l, 5)), f.aged(process, 5, "old", time.Hour, of(l, size)))
		}
		for _, w := range jobs {
			w.denied()
		}
		served := f.serve(seeded(h.T), 100, jobs...)
		for n := range served {
			old := tokensOf(served[:n], "old")
			all := old + tokensOf(served[:n], "urgent")
			h.between("tokens of old work", old, all/5-20, all/5+20)
		}
	}
}

func neverOverdue(h *harness) {
	rng := seeded(h.T)
	for _, change := range []func(*ledger.Place){
		func(p *ledger.Place) { p.AgedShare = 0 },
		func(p *ledger.Place) { p.AgingStep = 0 },
		func(p *ledger.Place) { p.AgingStep = -time.Second },
	} {
		f := newFleet(newHarness(h.T, h.cfg))
		l := pace(f.harness)
		urgent, old := f.aged("p", 0, "urgent", 0, of(l, 10)), f.aged("q", 5, "old", time.Hour, of(l, 10))
		for _, w := range []*waiter{urgent, old} {
			change(&w.Place)
			w.denied()
		}
		if served := f.serve(rng, 20, urgent, old); tokensOf(served, "old") != 0 {
			h.Errorf("%v served", served)
		}
	}
}

// Credit is at most one of the largest jobs.
func nothingSavedUpByAge(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	urgent, urgent2 := f.aged("p", 0, "a", 0, of(l, 10)), f.aged("p", 0, "b", 0, of(l, 10))
	f.serve(rng, 100, urgent, urgent2)
	old := f.aged("q", 5, "old", time.Hour, of(l, 10))
	h.between("tokens of old work", tokensOf(f.serve(rng, 10, urgent, urgent2, old), "old"), 20, 40)
}

// Urgent work comes more often than once in a step, and leaves more than its share to
// old work, of which there is no end.
func shareAnyway(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	urgent, old := f.aged("p", 0, "urgent", 0, of(l, 10)), f.aged("q", 5, "old", time.Hour, of(l, 10))
	old.denied()
	f.serve(rng, 1, urgent)
	for range 20 {
		f.serve(rng, 3+rng.IntN(4), old)
		old.denied()
		urgent.denied()
		if served := f.serve(rng, 1, urgent, old); served[0].Place.Tenant != "urgent" {
			h.Fatal("old work has had most of it, and goes before urgent work")
		}
	}
}

// Urgent work comes less often than that, and old work has had all of it until then.
func shareOfAll(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	urgent, old := f.aged("p", 0, "urgent", 0, of(l, 10)), f.aged("q", 5, "old", time.Hour, of(l, 10))
	old.denied()
	for range 5 {
		f.serve(rng, 50, old) // which is 5 s
		old.denied()
		urgent.denied()
		if served := f.serve(rng, 1, urgent, old); served[0].Place.Tenant != "urgent" {
			h.Fatal("old work has had all of it, and goes before urgent work")
		}
	}
}

// Urgent work is rare, and a class between takes all that it leaves.
func thirdClass(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	urgent, last := f.aged("p", 0, "urgent", 0, of(l, 10)), f.aged("q", 9, "last", time.Hour, of(l, 10))
	a, b := f.aged("p", 5, "a", time.Hour, of(l, 10)), f.aged("q", 5, "b", time.Hour, of(l, 10))
	for _, w := range []*waiter{a, b, last} {
		w.denied()
	}
	var served []ledger.Request
	for range 20 {
		urgent.denied()
		served = append(served, f.serve(rng, 5, urgent)...)
		served = append(served, f.serve(rng, 5, a, b, last)...)
	}
	all := int64(10 * len(served))
	h.between("tokens of the last class", tokensOf(served, "last"), all/10, all/4)
}

// Nor is a debt more than three of the largest jobs.
func notHeldAgainstOld(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	urgent, urgent2, old := f.aged("p", 0, "a", 0, of(l, 10)), f.aged("p", 0, "b", 0, of(l, 10)), f.aged("q", 5, "old", time.Hour, of(l, 10))
	for range 10 {
		f.serve(rng, 5, old)
		urgent.denied()
		f.serve(rng, 1, urgent)
	}
	h.between("tokens of old work", tokensOf(f.serve(rng, 30, urgent, urgent2, old), "old"), 20, 60)
}

// The last one of a tenant goes first because it is the oldest. A tenant that comes then
// is not behind all of the others.
func othersNotPutBack(h *harness) {
	f, l, rng := newFleet(h), pace(h), seeded(h.T)
	var jobs []*waiter
	for i, waited := range []time.Duration{6 * time.Second, 7 * time.Second, 8 * time.Second} {
		w := f.aged(string(rune('p'+i)), 5, "a", waited, of(l, 10))
		w.denied()
		jobs = append(jobs, w)
	}
	urgent := f.aged("p", 0, "t", 0, of(l, 10))
	urgent.denied()
	f.serve(rng, 1, urgent)
	urgent.denied()
	f.serve(rng, 1, jobs[2])
	f.withdraw(urgent)
	late := f.job("s", 5, "b", of(l, 10))
	served := f.serve(rng, 2, late, jobs[0], jobs[1])
	h.between("jobs of the one who came", tokensOf(served, "b"), 10, 10)
}
