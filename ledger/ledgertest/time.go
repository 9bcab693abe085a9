package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var ownTime = []test{
	{name: "processes see the same waits", run: sameWaits},
	{name: "what a call refills it does not refill again", run: refillOnce, exact: true},
}

// mailgun/gubernator#225: reset times differ from peer to peer.
// spring-cloud/spring-cloud-gateway#2412: nodes with different clocks make tokens.
func sameWaits(h *harness) {
	tpm := tokens("tpm", 100)
	h.grant(of(tpm, 100))
	start := time.Now()
	var waits []time.Duration
	for range 5 {
		ds, err := h.process().Reserve(h.Context(), []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}})
		if err != nil {
			h.Fatal(err)
		}
		waits = append(waits, ds[0].Wait)
	}
	passed := time.Since(start)
	for _, w := range waits {
		if w > waits[0] || w < waits[0]-passed-time.Millisecond {
			h.Fatalf("waits %v within %v", waits, passed)
		}
	}
}

// zeromicro/go-zero#4072, tikv/pd#10745, mennanov/limiters at 01db640: callers that
// bring an older time refill the bucket twice.
func refillOnce(h *harness) {
	l := with(paced("tpm", 6000), func(l *ledger.Limit) { l.Burst = 1000 })
	h.grant(of(l, 1000))
	h.sleep(time.Second)
	want := h.balances(l)[0].Available
	for range 50 {
		h.available(l, want)
		h.deny(of(l, want+1))
		for range 3 {
			_, err := h.process().Reserve(h.Context(), []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(l, want+1)}}})
			if err != nil {
				h.Fatal(err)
			}
		}
	}
	h.available(l, want)
}
