package ledgertest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var manyAtOnce = []test{
	{name: "two hundred at ten places", run: twoHundredAtTen},
	{name: "what is granted is what the ledger counts", run: countsAgree},
	{name: "a hot limit and a quiet one", run: hotAndQuiet},
	{name: "reserve and cancel at once", run: reserveAndCancel, exact: true},
}

// Helicone reads, decides and writes: two processes with a hundred goroutines each get
// more than there is.
func twoHundredAtTen(h *harness) {
	tpm := tokens("tpm", 10)
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		p := h.process()
		for range 100 {
			wg.Go(func() {
				ds, err := p.Reserve(h.Context(), []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}})
				if err != nil {
					h.Error(err)
				} else if ds[0].Outcome == ledger.Granted {
					granted.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if granted.Load() != 10 {
		h.Fatalf("%d granted of 10", granted.Load())
	}
	h.used(tpm, 10)
}

// BerriAI/litellm#8430: of 4 deployments with 6 requests each 19 go, and the counters
// disagree.
func countsAgree(h *harness) {
	var wg sync.WaitGroup
	var granted atomic.Int64
	group := requests("group", 1000)
	for i := range 4 {
		l := requests("deployment/"+strconv.Itoa(i), 6)
		for range 10 {
			wg.Go(func() {
				if _, d := h.try(of(group, 1), of(l, 1)); d.Outcome == ledger.Granted {
					granted.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if granted.Load() != 24 {
		h.Fatalf("%d granted of 24", granted.Load())
	}
	h.used(group, 24)
	for i := range 4 {
		h.used(requests("deployment/"+strconv.Itoa(i), 6), 6)
	}
}

// throttled/throttled#41, bucket4j/bucket4j#407: under contention calls fail, or try
// 45 times. tolgee/tolgee-platform#3908: one hot bucket stops the others.
func hotAndQuiet(h *harness) {
	hot, quiet := tokens("hot", 100), tokens("quiet", 50)
	var hotGot, quietGot atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		p := h.process()
		for range 50 {
			wg.Go(func() {
				for range 5 {
					ds, err := p.Reserve(h.Context(), []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(hot, 1)}}})
					if err != nil {
						h.Error(err)
						return
					}
					if ds[0].Outcome == ledger.Granted {
						hotGot.Add(1)
					}
				}
			})
		}
	}
	for range 50 {
		wg.Go(func() {
			if _, d := h.try(of(quiet, 1)); d.Outcome == ledger.Granted {
				quietGot.Add(1)
			}
		})
	}
	wg.Wait()
	if hotGot.Load() != 100 || quietGot.Load() != 50 {
		h.Fatalf("%d of 100 and %d of 50", hotGot.Load(), quietGot.Load())
	}
}

// cadence-workflow/cadence#6030: under contention reserve and cancel let almost nothing
// through.
func reserveAndCancel(h *harness) {
	l := paced("tpm", 120)
	var kept atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	const length = 2 * time.Minute
	for i := range 12 {
		p := h.process()
		wg.Go(func() {
			for n := i; time.Since(start) < length; n++ {
				id := h.id()
				ds, err := p.Reserve(h.Context(), []ledger.Request{{ID: id, Charges: []ledger.Charge{of(l, 1)}}})
				if err != nil {
					h.Error(err)
					return
				}
				if ds[0].Outcome != ledger.Granted {
					time.Sleep(ds[0].Wait)
					continue
				}
				if n%2 == 0 {
					kept.Add(1)
					continue
				}
				s := ledger.Settlement{ID: id, Cancel: true, Final: []ledger.Final{final(l, 0)}}
				if err := p.Settle(h.Context(), []ledger.Settlement{s}); err != nil {
					h.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if want := int64(length/time.Microsecond) * l.Amount / (l.Shape(0).Tick * l.Shape(0).Ticks); kept.Load() < want*95/100 {
		h.Fatalf("%d kept of %d", kept.Load(), want)
	}
}
