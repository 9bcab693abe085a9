package ledgertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var leases = []test{
	{name: "at most the limit at any time", run: peakInFlight},
	{name: "a lease ends when nobody renews it", run: leaseEnds, exact: true},
	{name: "a process that died frees its places", run: diedFrees},
	{name: "a long call stays counted", run: longCall, exact: true},
	{name: "a call that ends late frees no other's place", run: endsLate, exact: true},
	{name: "a paused owner's lease comes back", run: pausedComesBack, exact: true},
	{name: "a settled call's lease does not come back", run: settledStaysSettled},
	{name: "a lease that the call never had", run: neverHad},
	{name: "jobs that are tried again", run: triedAgain},
	{name: "one freed place goes to one", run: oneFreedPlace},
	{name: "a zero lease is 15 seconds", run: zeroLease, exact: true},
	{name: "the wait is for the first lease to end", run: firstLeaseEnds, exact: true},
}

// BerriAI/litellm#16011: a maximum of parallel requests that concurrent ones pass.
func peakInFlight(h *harness) {
	running := inFlight("running", 5, time.Minute)
	var now, peak, served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		p := h.process()
		for range 12 {
			wg.Go(func() {
				for range 20 {
					id := h.id()
					ds, err := p.Reserve(h.Context(), []ledger.Request{{ID: id, Charges: []ledger.Charge{of(running, 1)}}})
					if err != nil {
						h.Error(err)
						return
					}
					if ds[0].Outcome != ledger.Granted {
						continue
					}
					served.Add(1)
					for n, old := now.Add(1), peak.Load(); n > old && !peak.CompareAndSwap(old, n); {
						old = peak.Load()
					}
					now.Add(-1)
					if err := p.Settle(h.Context(), []ledger.Settlement{{ID: id, Final: []ledger.Final{final(running, 1)}}}); err != nil {
						h.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if peak.Load() > 5 || served.Load() < 5 {
		h.Fatalf("%d at once of 5, %d served", peak.Load(), served.Load())
	}
	h.used(running, 0)
	for range 5 {
		h.grant(of(running, 1))
	}
	h.deny(of(running, 1))
}

func leaseEnds(h *harness) {
	running := inFlight("running", 1, 20*time.Second)
	h.grant(of(running, 1))
	h.until(h.deny(of(running, 1)), of(running, 1))
	h.used(running, 1)
	h.sleep(20*time.Second - time.Microsecond)
	h.used(running, 1)
	h.sleep(time.Microsecond)
	h.used(running, 0)
}

// BerriAI/litellm#20256 and #28160: slots leak with provider timeouts until Redis is
// flushed, and a missed release stays for ever under steady traffic.
func diedFrees(h *harness) {
	running := inFlight("running", 10, 400*time.Millisecond)
	for range 10 {
		h.grant(of(running, 1))
	}
	for start := time.Now(); ; h.sleep(20 * time.Millisecond) {
		if id, d := h.try(of(running, 1)); d.Outcome == ledger.Granted {
			h.end(id)
			if b := h.balances(running)[0]; b.Used == 0 {
				return
			}
		}
		if time.Since(start) > 30*time.Second {
			h.Fatal("the dead process's places do not come back")
		}
	}
}

// llm-d/llm-d-router#2295: a reaper frees the places of requests that are slow but
// alive, and the gate lets 1,700 through of 96.
func longCall(h *harness) {
	running := inFlight("running", 1, 15*time.Second)
	id := h.grant(of(running, 1))
	for range 100 {
		h.sleep(14 * time.Second)
		// Others that are over do not keep it from its place.
		leases := []ledger.Lease{{ID: h.id(), Limit: running}, {ID: id, Limit: running}, {ID: h.id(), Limit: running}}
		if err := h.Renew(h.Context(), leases); err != nil {
			h.Fatal(err)
		}
		h.deny(of(running, 1))
		h.used(running, 1)
	}
	h.end(id)
	h.grant(of(running, 1))
}

func endsLate(h *harness) {
	running := inFlight("running", 1, 15*time.Second)
	late := h.grant(of(running, 1))
	h.sleep(16 * time.Second)
	other := h.grant(of(running, 1))
	h.end(late)
	h.end(late)
	h.cancel(late)
	h.used(running, 1)
	h.deny(of(running, 1))
	h.end(other)
	h.used(running, 0)
}

func pausedComesBack(h *harness) {
	running := inFlight("running", 1, 15*time.Second)
	paused := h.grant(of(running, 1))
	h.sleep(16 * time.Second)
	other := h.grant(of(running, 1))
	h.renew(paused, running) // its call runs all the while
	h.used(running, 2)
	h.available(running, -1)
	h.end(other)
	h.deny(of(running, 1))
	h.end(paused)
	h.grant(of(running, 1))
}

func settledStaysSettled(h *harness) {
	running := inFlight("running", 1, time.Minute)
	a, b := h.grant(of(running, 1)), h.id()
	h.end(a)
	h.renew(a, running)
	h.renew(b, running) // never asked
	h.used(running, 0)
	h.grant(of(running, 1))
}

func neverHad(h *harness) {
	running, other := inFlight("running", 3, time.Minute), inFlight("other", 3, time.Minute)
	id := h.grant(of(running, 1))
	h.renew(id, other)
	h.used(other, 0)
	h.used(running, 1)
}

// llm-d/llm-d-async#311: every retry takes a place and overwrites the way to give it
// back.
func triedAgain(h *harness) {
	running := inFlight("running", 3, time.Minute)
	for range 100 {
		id := h.id()
		for id.Attempt = range 5 {
			h.want(h.tryAs(id, of(running, 1)), ledger.Granted)
			h.end(id)
		}
	}
	h.used(running, 0)
	for range 3 {
		h.grant(of(running, 1))
	}
}

// agronholm/anyio#1170: a place promised to a waiter is taken by one who barges in, and
// two have one.
func oneFreedPlace(h *harness) {
	running := inFlight("running", 2, time.Minute)
	a := h.grant(of(running, 1))
	h.grant(of(running, 1))
	waiter, d := h.try(of(running, 1))
	h.want(d, ledger.Denied)
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 10 {
		id := h.id()
		wg.Go(func() {
			ds, err := h.Reserve(h.Context(), []ledger.Request{{ID: id, Charges: []ledger.Charge{of(running, 1)}}})
			if err != nil {
				h.Error(err)
			} else if ds[0].Outcome == ledger.Granted {
				got.Add(1)
			}
		})
	}
	h.end(a)
	if d := h.tryAs(waiter, of(running, 1)); d.Outcome == ledger.Granted {
		got.Add(1)
	}
	wg.Wait()
	if got.Load() != 1 {
		h.Fatalf("%d got the one place", got.Load())
	}
}

func zeroLease(h *harness) {
	running := inFlight("running", 1, 0)
	h.grant(of(running, 1))
	if d := h.deny(of(running, 1)); d.Wait != 15*time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
}

func firstLeaseEnds(h *harness) {
	running := inFlight("running", 2, 15*time.Second)
	first := h.grant(of(running, 1))
	h.sleep(5 * time.Second)
	h.grant(of(running, 1))
	if d := h.deny(of(running, 1)); d.Wait != 10*time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
	h.renew(first, running)
	h.sleep(time.Second)
	if d := h.deny(of(running, 1)); d.Wait != 14*time.Second {
		h.Fatalf("wait %v", d.Wait)
	}
}
