package ledgertest

import (
	"fmt"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var denials = []test{
	{name: "ten thousand denials move nothing", run: tenThousandDenials},
	{name: "the limit with the longest wait binds", run: longestWaitBinds, exact: true},
	{name: "the wait is exact on a window", run: exactOnWindow, exact: true},
	{name: "the wait is exact on a bucket", run: exactOnBucket, exact: true},
	{name: "the wait is exact behind what is held", run: exactBehindHeld, exact: true},
	{name: "a wait of less than a second", run: lessThanSecond, exact: true},
	{name: "the wait does not depend on how often one asks", run: waitOfAsking, exact: true},
	{name: "after the wait it fits", run: afterTheWait},
}

// Portkey zeroes the bucket on a denial; LiteLLM counts rejected requests, and its
// first script for tokens drained the bucket by denials (BerriAI/litellm#27001);
// golang/go#52584: a failed reservation changes the state.
func tenThousandDenials(h *harness) {
	tpm, rpm, money := tokens("tpm", 1000), requests("rpm", 100), tokens("money", 1<<40)
	bucket := &ledger.Limit{Key: "bucket", Unit: ledger.Tokens, Amount: 1000, Window: 20 * 24 * time.Hour}
	running := inFlight("running", 5, time.Minute)
	h.grant(of(tpm, 900), of(rpm, 1), of(money, 1), of(bucket, 30), of(running, 1))
	same := h.unchanged(tpm, rpm, money, bucket, running)
	for range 20 {
		batch := make([]ledger.Request, 500)
		for i := range batch {
			batch[i] = ledger.Request{ID: h.id(), Charges: []ledger.Charge{
				of(tpm, 101), of(rpm, 1), of(money, 1), of(bucket, 1), of(running, 1)}}
		}
		for _, d := range h.decide(batch...) {
			h.want(d, ledger.Denied)
		}
	}
	same()
	h.grant(of(tpm, 100), of(rpm, 1), of(money, 1), of(bucket, 10), of(running, 1))
}

func longestWaitBinds(h *harness) {
	early, late := tokens("early", 10), tokens("late", 10)
	h.grant(of(early, 10))
	h.sleep(5 * time.Second)
	h.grant(of(late, 10))
	for _, charges := range [][]ledger.Charge{
		{of(early, 1), of(late, 1)},
		{of(late, 1), of(early, 1)},
	} {
		if d := h.deny(charges...); d.Limit != late {
			h.Fatalf("%v binds, not the later one", d.Limit)
		}
	}
	twin := with(late, func(l *ledger.Limit) { l.Key = "twin" })
	h.grant(of(twin, 10))
	for _, charges := range [][]ledger.Charge{
		{of(twin, 1), of(late, 1)},
		{of(late, 1), of(twin, 1)},
	} {
		if d := h.deny(charges...); d.Limit != charges[0].Limit {
			h.Fatalf("%v binds, not the first of two alike", d.Limit)
		}
	}
}

// until checks that the charges fit exactly when the denial said.
func (h *harness) until(d ledger.Decision, charges ...ledger.Charge) {
	h.Helper()
	h.sleep(d.Wait - time.Microsecond)
	if again := h.deny(charges...); again.Wait != time.Microsecond {
		h.Fatalf("a microsecond before the end of a wait of %v, %v more", d.Wait, again.Wait)
	}
	h.sleep(time.Microsecond)
	h.grant(charges...)
}

func exactOnWindow(h *harness) {
	tpm := tokens("tpm", 1000)
	for range 10 {
		h.grant(of(tpm, 100))
		h.sleep(777 * time.Millisecond)
	}
	h.until(h.deny(of(tpm, 1)), of(tpm, 1))
	h.until(h.deny(of(tpm, 450)), of(tpm, 450))
	h.until(h.deny(of(tpm, 1000)), of(tpm, 1000))
}

// gubernator's leaky bucket says "now" for limits above one token in a millisecond,
// which is any real limit on tokens.
func exactOnBucket(h *harness) {
	for _, amount := range []int64{10, 60, 90_001, 1e6, 7e6, 150e6, ledger.MaxAmount} {
		for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
			l := &ledger.Limit{Key: fmt.Sprint(amount), Unit: ledger.Tokens, Amount: amount, Window: window}
			burst := l.Shape(0).Burst
			h.grant(of(l, burst))
			h.sleep(123456 * time.Microsecond)
			if h.balances(l)[0].Available >= burst {
				continue
			}
			d := h.deny(of(l, burst))
			if amount == ledger.MaxAmount {
				// 2^50 units of 9e7 ticks are beyond what doubles hold exactly.
				h.sleep(d.Wait + d.Wait/1e9)
				h.grant(of(l, burst))
				continue
			}
			h.until(d, of(l, burst))
		}
	}
}

func exactBehindHeld(h *harness) {
	l := with(paced("tpm", 6000), func(l *ledger.Limit) { l.Burst = 100 })
	h.grant(of(l, 100))
	a, b := of(l, 60), of(l, 30)
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{a}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{b}},
	)
	if ds[0].Wait != gains(l, 60) || ds[1].Wait != gains(l, 90) {
		h.Fatalf("waits %v and %v, want %v and %v", ds[0].Wait, ds[1].Wait, gains(l, 60), gains(l, 90))
	}
	h.sleep(ds[0].Wait)
	h.grant(a)
	h.sleep(ds[1].Wait - ds[0].Wait)
	h.grant(b)
}

// WeTransfer/prorate#40, redis/redis#14826 and agentgateway: 0.9 s arrives as 0.
func lessThanSecond(h *harness) {
	l := with(paced("rpm", 68), func(l *ledger.Limit) { l.Burst = 1 }) // one in 0.9005 s
	h.grant(of(l, 1))
	if d := h.deny(of(l, 1)); d.Wait != 900506*time.Microsecond {
		h.Fatalf("wait %v", d.Wait)
	}
}

// apache/apisix#9964: the time to the reset is 0 as soon as nothing remains.
func waitOfAsking(h *harness) {
	tpm := tokens("tpm", 100)
	h.grant(of(tpm, 100))
	first := h.deny(of(tpm, 1))
	for range 100 {
		if d := h.deny(of(tpm, 1)); d.Wait != first.Wait {
			h.Fatalf("wait %v, then %v", first.Wait, d.Wait)
		}
	}
	for passed := time.Second; passed < time.Minute; passed += time.Second {
		h.sleep(time.Second)
		if d := h.deny(of(tpm, 1)); d.Wait != first.Wait-passed {
			h.Fatalf("wait %v after %v, and %v at first", d.Wait, passed, first.Wait)
		}
	}
}

func afterTheWait(h *harness) {
	window := &ledger.Limit{Key: "window", Unit: ledger.Tokens, Amount: 10, Window: 300 * time.Millisecond, Unpaced: true}
	bucket := &ledger.Limit{Key: "bucket", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, Burst: 5}
	running := inFlight("running", 1, 300*time.Millisecond)
	for _, c := range []ledger.Charge{of(window, 10), of(bucket, 5), of(running, 1)} {
		h.grant(c)
		id, d := h.try(c)
		for d.Outcome == ledger.Granted { // it came too late to find it short
			id, d = h.try(c)
		}
		h.sleep(d.Wait)
		h.want(h.tryAs(id, c), ledger.Granted)
	}
}
