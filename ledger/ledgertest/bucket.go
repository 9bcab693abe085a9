package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var buckets = []test{
	{name: "sizes as people configure them", run: commonSizes},
	{name: "a charge above the burst leaves a debt", run: aboveBurst, exact: true},
	{name: "a charge above the burst needs a full bucket", run: needsFull, exact: true},
	{name: "large charges go at the rate", run: largeAtRate, exact: true},
	{name: "a debt and an idle time give one burst", run: debtThenIdle, exact: true},
	{name: "what is given back fills up to the burst", run: refundFills, exact: true},
	{name: "no limit is used up in one burst", run: spread, exact: true},
}

// shobrook/openlimit#4 and #10: a limit of 1 request hangs, no request above a second
// of the limit ever passes. BerriAI/litellm#29191: limits below an assumed 1024 deny
// all.
func commonSizes(h *harness) {
	hour := func(key string, amount int64) *ledger.Limit {
		return &ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: amount, Window: time.Hour}
	}
	h.grant(of(hour("a", 40_000), 700))
	h.grant(of(hour("b", 40_000), 39_999))
	h.grant(of(hour("c", 40_000), 40_000))
	_, d := h.try(of(hour("d", 40_000), 40_001))
	h.want(d, ledger.TooLarge)
	h.grant(of(hour("rpm", 1), 1))
	h.deny(of(hour("rpm", 1), 1))
	h.grant(of(hour("small", 100), 10))
}

func aboveBurst(h *harness) {
	l := paced("tpm", 1000) // a burst of 40
	h.available(l, 40)
	h.grant(of(l, 400))
	h.available(l, -360)
	if d := h.deny(of(l, 1)); d.Wait != gains(l, 361) {
		h.Fatalf("wait %v, want %v", d.Wait, gains(l, 361))
	}
	h.until(h.deny(of(l, 1)), of(l, 1))
}

func needsFull(h *harness) {
	l := paced("tpm", 1000)
	h.grant(of(l, 3))
	if d := h.deny(of(l, 400)); d.Wait != gains(l, 3) {
		h.Fatalf("wait %v, want %v", d.Wait, gains(l, 3))
	}
	h.grant(of(l, 37))
	h.until(h.deny(of(l, 400)), of(l, 400))
}

func largeAtRate(h *harness) {
	l := paced("tpm", 1000)
	var granted int64
	start := time.Now()
	for time.Since(start) < 20*time.Minute {
		_, d := h.try(of(l, 100))
		if d.Outcome == ledger.Granted {
			granted += 100
		}
		h.sleep(max(d.Wait, time.Microsecond))
	}
	want := int64(time.Since(start)/time.Microsecond) * l.Amount / (l.Shape(0).Tick * l.Shape(0).Ticks)
	if granted < want-100 || granted > want+100 {
		h.Fatalf("%d granted, the rate gives %d", granted, want)
	}
}

// failsafe-go v0.9.8: after a deficit and an idle time the burst has no bound.
func debtThenIdle(h *harness) {
	l := paced("tpm", 1000)
	id := h.grant(of(l, 40))
	h.settle(id, final(l, 41))
	h.available(l, -1)
	h.sleep(50 * time.Minute)
	h.available(l, 40)
	h.grant(of(l, 40))
	h.deny(of(l, 1))
}

// go-redis/redis_rate's AllowN(-n): the reply says that the refund is there, the next
// call that it is not.
func refundFills(h *harness) {
	l := paced("tpm", 1000)
	id := h.grant(of(l, 5))
	h.available(l, 35)
	h.cancel(id)
	h.available(l, 40)
	id = h.grant(of(l, 5))
	h.sleep(time.Minute / 2) // it is full again
	h.cancel(id)
	h.available(l, 40)
	h.grant(of(l, 40))
	h.deny(of(l, 1))
}

// A window alone repeats its first burst for ever.
func spread(h *harness) {
	l := paced("tpm", 60_000)
	granted := map[int]int64{}
	start := time.Now()
	for time.Since(start) < 3*time.Minute {
		if n := h.balances(l)[0].Available; n > 0 {
			h.grant(of(l, n))
			granted[int(time.Since(start)/(10*time.Second))] += n
		}
		h.sleep(250 * time.Millisecond)
	}
	for i := range 18 {
		// A burst more is the most: it waits while the first one leaves the window.
		if n := granted[i]; n > 9800+2*2400 || n < 9700-2400 {
			h.Fatalf("%d granted in 10 s number %d, all of %v", n, i, granted)
		}
	}
}
