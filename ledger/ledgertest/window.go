package ledgertest

import (
	"math/rand/v2"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var windows = []test{
	{name: "in any interval at most the limit", run: anyInterval, exact: true},
	{name: "in any interval at most the limit by a real clock", run: anyRealInterval},
	{name: "hammered for five windows", run: hammered, exact: true},
	{name: "a charge leaves after window and guard", run: leavesAfterGuard, exact: true},
	{name: "the guard that a process measured", run: measuredGuard, exact: true},
	{name: "a call counted before its guard leaves sooner", run: countedLeavesSooner, exact: true},
	{name: "large after small and small after large", run: largeAndSmall},
	{name: "steady load at half the limit is never denied", run: steadyHalf, exact: true},
	{name: "a day of money", run: dayOfMoney, exact: true},
}

// grantAt is a charge that went: when, how much of it stood in the end, and when the
// provider counted it.
type grantAt struct {
	counted time.Time
	amount  int64
}

// most returns the largest sum in any interval of that length.
func most(grants []grantAt, length time.Duration) int64 {
	var worst int64
	for _, a := range grants {
		var sum int64
		for _, b := range grants {
			if d := b.counted.Sub(a.counted); d >= 0 && d < length {
				sum += b.amount
			}
		}
		worst = max(worst, sum)
	}
	return worst
}

// go-redis/redis_rate#24 and AlaskanTuna/Rokabot#149: 17 in 30 s lets 32 through, 15
// in a minute 29. A provider counts a call at any time from the grant to its first
// byte, or to the end of the guard, and each call is settled to less.
func anyInterval(h *harness) {
	rng := seeded(h.T)
	for _, l := range []*ledger.Limit{tokens("unpaced", 1000), paced("paced", 1000), with(paced("burst", 1000), func(l *ledger.Limit) { l.Burst = 800 })} {
		guard := time.Duration(l.Shape(0).Guard) * time.Microsecond
		var grants []grantAt
		type running struct {
			id  ledger.ID
			at  time.Time
			max int64
		}
		var open []running
		finish := func(r running) {
			admitted := r.max - rng.Int64N(r.max+1)/2
			counted := time.Duration(0)
			count := r.at.Add(rng.upTo(guard + 1))
			if rng.IntN(2) == 0 && time.Since(r.at) < guard {
				counted = time.Since(r.at)
				count = r.at.Add(rng.upTo(counted + 1))
			}
			h.settleAll(ledger.Settlement{ID: r.id, Final: []ledger.Final{final(l, admitted)}, Counted: counted})
			grants = append(grants, grantAt{count, admitted})
		}
		for start := time.Now(); time.Since(start) < 5*time.Minute; h.sleep(rng.upTo(900 * time.Millisecond)) {
			amount := 1 + rng.Int64N(100)
			if id, d := h.try(of(l, amount)); d.Outcome == ledger.Granted {
				open = append(open, running{id, time.Now(), amount})
			}
			if len(open) > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(len(open))
				finish(open[i])
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
		for _, r := range open {
			finish(r)
		}
		worst := most(grants, l.Window)
		if worst > l.Amount {
			h.Fatalf("%s: %d in a window of %d", l.Key, worst, l.Amount)
		}
		if worst < l.Amount/2 {
			h.Fatalf("%s: only %d of %d: the test shows nothing", l.Key, worst, l.Amount)
		}
	}
}

// Between call and answer nobody knows when the grant was, so two charges are counted
// together only if they surely were within a window.
func anyRealInterval(h *harness) {
	l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 100, Window: 400 * time.Millisecond, Unpaced: true}
	type span struct{ from, to time.Time }
	var spans []span
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; h.sleep(2 * time.Millisecond) {
		from := time.Now()
		if _, d := h.try(of(l, 10)); d.Outcome == ledger.Granted {
			spans = append(spans, span{from, time.Now()})
		}
	}
	for i, a := range spans {
		var sum int64
		for _, b := range spans[i:] {
			if b.to.Sub(a.from) <= l.Window {
				sum += 10
			}
		}
		if sum > l.Amount {
			h.Fatalf("%d granted within %v", sum, l.Window)
		}
	}
	if len(spans) <= 10 {
		h.Fatalf("nothing came back in %v", 1500*time.Millisecond)
	}
}

// mailgun/gubernator#118 and #121: the allowance comes back as a whole every window,
// so a drained bucket gives twice the limit.
func hammered(h *harness) {
	for _, l := range []*ledger.Limit{tokens("unpaced", 100), paced("paced", 100)} {
		var grants []grantAt
		for start := time.Now(); time.Since(start) < 5*time.Minute; h.sleep(350 * time.Millisecond) {
			if _, d := h.try(of(l, 1)); d.Outcome == ledger.Granted {
				grants = append(grants, grantAt{time.Now(), 1})
			}
		}
		if worst := most(grants, l.Window); worst > l.Amount {
			h.Fatalf("%s: %d in a window of %d", l.Key, worst, l.Amount)
		}
		// It holds a charge for window, guard and a slot, which is 2.06 % longer.
		if n := int64(len(grants)); n < 5*l.Amount*97/100 {
			h.Fatalf("%s: only %d in five windows of %d", l.Key, n, l.Amount)
		}
	}
}

// leavesBetween checks that what l holds leaves no sooner than from now on, and not
// later than a slot after that, which is 0.4 % of the window.
func (h *harness) leavesBetween(l *ledger.Limit, holds int64, from time.Duration) {
	h.Helper()
	h.sleep(from - time.Microsecond)
	h.used(l, holds)
	slot := time.Duration(l.Shape(0).Slot) * time.Microsecond
	if slot > l.Window/200 {
		h.Fatalf("a slot of %v in a window of %v is coarser than 0.5 %%", slot, l.Window)
	}
	h.sleep(slot + time.Microsecond)
	h.used(l, 0)
}

func leavesAfterGuard(h *harness) {
	for _, c := range []struct{ guard, want time.Duration }{
		{0, 61 * time.Second}, // 1/60 of the window
		{time.Microsecond, time.Minute + time.Microsecond},
		{2 * time.Second, 62 * time.Second},
		{10 * time.Second, 63 * time.Second}, // 1/20 at most
	} {
		l := with(tokens("tpm", 100), func(l *ledger.Limit) { l.Guard = c.guard; l.Key += c.guard.String() })
		h.grant(of(l, 70))
		h.leavesBetween(l, 70, c.want)
	}
	for _, window := range []time.Duration{10 * time.Millisecond, time.Second, time.Hour, 32 * 24 * time.Hour} {
		l := with(tokens("any", 100), func(l *ledger.Limit) { l.Window = window })
		h.sleep(123_457 * time.Microsecond)
		h.grant(of(l, 100))
		h.leavesBetween(l, 100, window+(window/60).Truncate(time.Microsecond))
	}
}

func measuredGuard(h *harness) {
	for _, c := range []struct{ measured, want time.Duration }{
		{500 * time.Millisecond, 61 * time.Second}, // it only raises
		{2500 * time.Millisecond, 62500 * time.Millisecond},
		{20 * time.Second, 63 * time.Second},
	} {
		l := tokens("tpm"+c.measured.String(), 100)
		h.want(h.decide(ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(l, 30)}, Guard: c.measured})[0], ledger.Granted)
		h.leavesBetween(l, 30, c.want)
	}
}

func countedLeavesSooner(h *harness) {
	for _, c := range []struct{ counted, want time.Duration }{
		{200 * time.Millisecond, 60200 * time.Millisecond},
		{time.Second, 61 * time.Second},
		{5 * time.Second, 61 * time.Second}, // later than the guard changes nothing
		{0, 61 * time.Second},               // nobody knows
	} {
		l := tokens("tpm"+c.counted.String(), 100)
		id := h.grant(of(l, 30))
		h.sleep(6 * time.Second)
		h.settleAll(ledger.Settlement{ID: id, Final: []ledger.Final{final(l, 40)}, Counted: c.counted})
		h.leavesBetween(l, 40, c.want-6*time.Second)
	}
}

// alisaifee/limits#112 and #151: a moving window that lets a large charge through
// after a small one.
func largeAndSmall(h *harness) {
	a, b := tokens("a", 10), tokens("b", 10)
	h.grant(of(a, 5))
	_, d := h.try(of(a, 100))
	h.want(d, ledger.TooLarge)
	h.deny(of(a, 6))
	h.grant(of(a, 5))
	h.grant(of(b, 8))
	h.deny(of(b, 3))
	h.grant(of(b, 2))
}

// BerriAI/litellm#14204, apache/shenyu#6649, ulule/limiter#9: a window that every
// call renews never ends.
func steadyHalf(h *harness) {
	for _, l := range []*ledger.Limit{paced("paced", 60_000), tokens("unpaced", 60_000)} {
		for range 600 {
			id := h.grant(of(l, 500))
			h.sleep(time.Second)
			h.end(id)
		}
	}
}

func dayOfMoney(h *harness) {
	day := &ledger.Limit{Key: "budget", Unit: ledger.MicroUSD, Amount: 5_000_000, Window: 24 * time.Hour, Unpaced: true}
	var grants []grantAt
	for start := time.Now(); time.Since(start) < 72*time.Hour; h.sleep(11 * time.Minute) {
		if id, d := h.try(of(day, 90_000)); d.Outcome == ledger.Granted {
			at, cost := time.Now(), rand.Int64N(90_000)
			h.sleep(40 * time.Second)
			h.settle(id, final(day, cost))
			grants = append(grants, grantAt{at, cost})
		}
	}
	if worst := most(grants, day.Window); worst > day.Amount || worst < day.Amount*9/10 {
		h.Fatalf("%d in a day of %d", worst, day.Amount)
	}
}
