package ledgertest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var tooLarge = []test{
	{name: "more than the limit can ever hold", run: moreThanEver},
	{name: "more than one charge may be", run: moreThanShare},
	{name: "it names the limit and stops nobody", run: namesTooLarge},
}

// go-redis/redis_rate's AllowN says "5 s" again and again for what never fits; the
// OpenAI cookbook and openlimit wait for ever; agentgateway says "0 s".
func moreThanEver(h *harness) {
	for _, l := range []*ledger.Limit{tokens("unpaced", 100), paced("paced", 100)} {
		for range 3 {
			id, d := h.try(of(l, 101))
			h.want(d, ledger.TooLarge)
			h.used(l, 0)
			// The id is as good as new.
			h.want(h.tryAs(id, of(l, 100)), ledger.Granted)
			h.cancel(id)
		}
	}
}

func moreThanShare(h *harness) {
	l := with(tokens("tpm", 1000), func(l *ledger.Limit) { l.MaxCharge = 250 })
	h.grant(of(l, 250))
	_, d := h.try(of(l, 251))
	h.want(d, ledger.TooLarge)
	wide := with(tokens("wide", 100), func(l *ledger.Limit) { l.MaxCharge = 250 })
	_, d = h.try(of(wide, 101))
	h.want(d, ledger.TooLarge)
}

// throttled at ae0de29 and rwz/redis-gcra#6: one huge request locks a key for ever, or
// is not counted. throttled/throttled#81: the statistics are wrong after it.
func namesTooLarge(h *harness) {
	a, b, rpm := tokens("a", 1000), tokens("b", 10), requests("rpm", 10)
	h.grant(of(a, 10), of(rpm, 1))
	same := h.unchanged(a, b, rpm)
	_, d := h.try(of(a, 10), of(b, 11), of(rpm, 1))
	h.want(d, ledger.TooLarge)
	if d.Limit != b {
		h.Fatalf("%v is too small, not %v", d.Limit, b)
	}
	ds := h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(a, 5000), of(rpm, 1)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(b, 5000)}},
	)
	h.want(ds[0], ledger.TooLarge)
	h.want(ds[1], ledger.TooLarge)
	same()
	ds = h.decide(
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(a, 5000)}},
		ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(a, 990), of(rpm, 1)}},
	)
	h.want(ds[1], ledger.Granted)
}

var zeroAndAbsent = []test{
	{name: "a limit of zero denies all", run: zeroDenies},
	{name: "a limit set to zero and back", run: zeroAndBack, exact: true},
	{name: "an absent limit limits nothing", run: absent},
}

// golang/go#39984 and #68541: a limit of 0 lets its burst through, and once that was
// repaired, denials used the burst up. YasserShkeir/django-smart-ratelimit#75: a rate
// of 0 fails in the script, and another algorithm takes over.
func zeroDenies(h *harness) {
	for _, l := range []*ledger.Limit{tokens("unpaced", 0), {Key: "paced", Unit: ledger.Tokens, Window: time.Hour}, inFlight("running", 0, time.Minute)} {
		amounts := []int64{1, 0}
		if l.Unit == ledger.InFlight {
			amounts = amounts[:1]
		}
		for range 250 {
			for _, amount := range amounts {
				if _, d := h.try(of(l, amount)); d.Outcome == ledger.Granted {
					h.Fatalf("%d granted of a limit of 0", amount)
				}
			}
		}
		h.used(l, 0)
		open := with(l, func(l *ledger.Limit) { l.Amount = 100 })
		h.grant(of(open, 1))
		if open.Unit != ledger.InFlight {
			h.available(open, min(100, max(open.Shape(0).Burst, 100*btoi(open.Unpaced)))-1)
		}
	}
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func zeroAndBack(h *harness) {
	l := paced("tpm", 1000)
	zero := with(l, func(l *ledger.Limit) { l.Amount = 0 })
	id := h.grant(of(l, 30))
	h.sleep(2 * time.Second)
	_, d := h.try(of(zero, 1))
	h.want(d, ledger.TooLarge)
	if b := h.balances(zero)[0]; b.Used != 30 || b.Available != -30 {
		h.Fatalf("%+v", b)
	}
	h.settle(id, final(zero, 35))
	h.used(l, 35)
	h.sleep(70 * time.Second)
	h.available(l, 40)
}

func absent(h *harness) {
	tpm, unused := tokens("tpm", 100), tokens("unused", 0)
	h.grant(of(tpm, 100))
	h.used(unused, 0)
	bucket := paced("unused", 1000)
	h.used(bucket, 0)
	h.available(bucket, 40)
	h.available(tokens("unused too", 1000), 1000)
	h.available(inFlight("unused", 7, time.Minute), 7)
}

var limitsTravel = []test{
	{name: "a raised limit", run: raised},
	{name: "a lowered limit", run: lowered},
	{name: "a lowered limit of calls in flight", run: loweredInFlight},
	{name: "a changed burst", run: changedBurst, exact: true},
	{name: "a changed rate counts from the last charge", run: changedRate, exact: true},
	{name: "a changed window is another budget", run: changedWindow},
	{name: "a changed lease", run: changedLease, exact: true},
	{name: "two definitions from two processes", run: twoDefinitions, exact: true},
}

func raised(h *harness) {
	l := tokens("tpm", 100)
	h.grant(of(l, 100))
	h.deny(of(l, 1))
	more := with(l, func(l *ledger.Limit) { l.Amount = 150 })
	h.available(more, 50)
	h.grant(of(more, 50))
	h.deny(of(more, 1))
	h.used(l, 150)
}

func lowered(h *harness) {
	l := tokens("tpm", 100)
	id := h.grant(of(l, 80))
	less := with(l, func(l *ledger.Limit) { l.Amount = 50 })
	h.available(less, -30)
	h.deny(of(less, 1))
	h.settle(id, final(less, 20))
	h.available(less, 30)
	h.grant(of(less, 30))
	h.deny(of(less, 1))
}

func loweredInFlight(h *harness) {
	l := inFlight("running", 3, time.Minute)
	a, b, c := h.grant(of(l, 1)), h.grant(of(l, 1)), h.grant(of(l, 1))
	less := with(l, func(l *ledger.Limit) { l.Amount = 1 })
	h.available(less, -2)
	h.end(a)
	h.end(b)
	h.deny(of(less, 1))
	h.end(c)
	h.grant(of(less, 1))
}

func changedBurst(h *harness) {
	l := paced("tpm", 1000)
	h.grant(of(l, 30))
	small := with(l, func(l *ledger.Limit) { l.Burst = 5 })
	h.available(small, 5)
	wide := with(l, func(l *ledger.Limit) { l.Burst = 500 })
	h.available(wide, 10) // only a new bucket is full
	h.sleep(gains(l, 100))
	h.available(wide, 110)
	none := with(l, func(l *ledger.Limit) { l.Unpaced = true })
	h.available(none, 970)
	h.grant(of(none, 970))
	h.deny(of(none, 1))
}

func changedRate(h *harness) {
	l := with(paced("tpm", 1000), func(l *ledger.Limit) { l.Burst = 500 })
	double := with(l, func(l *ledger.Limit) { l.Amount = 2000 })
	h.grant(of(l, 500))
	h.sleep(gains(l, 100))
	h.available(l, 100)
	h.available(double, 200)
	h.deny(of(double, 201)) // a denial changes nothing, so it does not refill either
	h.available(l, 100)
	h.grant(of(double, 200))
	h.available(l, 0)
}

func changedWindow(h *harness) {
	l := tokens("tpm", 100)
	id := h.grant(of(l, 100))
	longer := with(l, func(l *ledger.Limit) { l.Window = time.Hour })
	h.grant(of(longer, 100))
	h.settle(id, final(longer, 0)) // the charge stands
	h.used(l, 100)
	h.used(longer, 100)
}

func changedLease(h *harness) {
	long := inFlight("running", 2, time.Minute)
	short := with(long, func(l *ledger.Limit) { l.Window = 10 * time.Second })
	a := h.grant(of(long, 1))
	h.grant(of(short, 1))
	h.sleep(10 * time.Second)
	h.used(short, 1)
	h.sleep(50*time.Second - time.Microsecond)
	h.used(long, 1)
	h.renew(a, short)
	h.sleep(10*time.Second - time.Microsecond)
	h.used(long, 1)
	h.sleep(time.Microsecond)
	h.used(long, 0)
}

func twoDefinitions(h *harness) {
	l := paced("tpm", 1000)
	tiny := with(l, func(l *ledger.Limit) { l.Burst = 1 })
	full := tokens("full", 1)
	h.grant(of(l, 5), of(full, 1))
	for range 20 {
		h.grant(of(l, 5)) // 16 a second come back
		h.deny(of(tiny, 1), of(full, 1))
		h.sleep(time.Second)
	}
	if b := h.balances(l)[0]; b.Available < 30 {
		h.Fatalf("%+v: the denied process took the other's bucket", b)
	}
}

var nothingStays = []test{
	{name: "an idle limit is as good as new", run: idleIsNew, exact: true},
	{name: "thousands of idle limits", run: manyIdle, exact: true},
}

func idleIsNew(h *harness) {
	l, u := paced("paced", 1000), tokens("unpaced", 1000)
	for range 3 {
		id := h.grant(of(l, 900), of(u, 900))
		h.settle(id, final(l, 1500), final(u, 1500))
		h.available(u, -500)
		h.sleep(100 * time.Minute)
		h.used(l, 0)
		h.available(l, 40)
		h.available(u, 1000)
	}
}

func manyIdle(h *harness) {
	for round := range 3 {
		for i := range 20 {
			batch := make([]ledger.Request, 100)
			for j := range batch {
				l := paced(strings.Repeat("x", 1+i)+string(rune('a'+j)), 1000)
				batch[j] = ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(l, 40)}}
			}
			for _, d := range h.decide(batch...) {
				h.want(d, ledger.Granted)
			}
		}
		h.sleep(time.Duration(round+1) * 3 * time.Minute)
	}
}

var anyKey = []test{
	{name: "keys of any bytes", run: hostileKeys},
	{name: "what one tenant uses another still has", run: tenantsApart},
}

// Braces in a tenant's name break a hash tag that is made of it. SERVICE/NAME pairs
// that are joined without care fall together.
func hostileKeys(h *harness) {
	long := strings.Repeat("k", 4095)
	keys := []string{"}x", "{x}", "{", "}", "a b", "a\nb", "a\r\nb", "a\x00b", "\x00", "\xff\xfe", "x:y", "w:60000000:x",
		"f:x", "open:0", "closed:1", "*", "[a]", "\"'\\", "ключ", long + "a", long + "b"}
	for i, k := range keys {
		amount := int64(100 + i)
		l, m := tokens(k, amount), inFlight(k, 1, time.Minute)
		id := h.grant(of(l, amount), of(m, 1))
		h.deny(of(l, 1))
		h.used(l, amount)
		h.used(m, 1)
		h.settle(id, final(l, int64(i)), final(m, 1))
		h.used(m, 0)
	}
	for i, k := range keys {
		h.used(tokens(k, 1000), int64(i))
	}
}

// envoyproxy/ai-gateway#2551, #2460, #1754: the tenants' costs fall into one bucket, or
// are counted under another key than is checked.
func tenantsApart(h *harness) {
	a, b := tokens("tenant/a", 1000), tokens("tenant/b", 1000)
	h.grant(of(a, 900))
	h.available(b, 1000)
	h.grant(of(b, 1000))
	h.deny(of(a, 101))
	h.grant(of(a, 100))
	// The same key over two windows is two budgets.
	hour := with(a, func(l *ledger.Limit) { l.Window = time.Hour })
	h.available(hour, 1000)
}

var badCalls = []test{
	{name: "a bad request changes nothing", run: badRequest},
	{name: "a bad settlement changes nothing", run: badSettlement},
	{name: "a context that has ended", run: endedContext},
}

func badRequest(h *harness) {
	tpm, running := tokens("tpm", 100), inFlight("running", 10, time.Minute)
	good := ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}
	many := make([]ledger.Charge, ledger.MaxCharges+1)
	for i := range many {
		many[i] = of(tokens(string(rune('a'+i)), 1), 1)
	}
	for name, charges := range map[string][]ledger.Charge{
		"no limit":       {{Amount: 1}},
		"negative":       {of(tpm, -1)},
		"above MaxInt50": {of(tpm, ledger.MaxAmount+1)},
		"two in flight":  {of(running, 2)},
		"same limit":     {of(tpm, 1), of(tpm, 1)},
		"same budget":    {of(tpm, 1), of(tokens("tpm", 50), 1)},
		"too many":       many,
		"bad limit":      {of(&ledger.Limit{Key: "k", Amount: 1}, 1)},
		"long key":       {of(tokens(strings.Repeat("k", 5000), 1), 1)},
		"no key":         {of(tokens("", 1), 1)},
	} {
		_, err := h.Reserve(h.Context(), []ledger.Request{good, {ID: h.id(), Charges: charges}})
		if !errors.Is(err, ledger.ErrRequest) {
			h.Fatalf("%s: %v", name, err)
		}
	}
	h.used(tpm, 0)
	if _, err := h.Reserve(h.Context(), []ledger.Request{{ID: h.id(), Guard: -1}}); !errors.Is(err, ledger.ErrRequest) {
		h.Fatal(err)
	}
}

func badSettlement(h *harness) {
	tpm, running := tokens("tpm", 100), inFlight("running", 1, time.Minute)
	id := h.grant(of(tpm, 50))
	good := ledger.Settlement{ID: id, Final: []ledger.Final{final(tpm, 1)}}
	for name, bad := range map[string]ledger.Settlement{
		"no limit":  {Final: []ledger.Final{{Admitted: 1}}},
		"negative":  {Final: []ledger.Final{final(tpm, -1)}},
		"late":      {Final: []ledger.Final{{Limit: tpm, Late: -1}}},
		"too much":  {Final: []ledger.Final{final(tpm, ledger.MaxAmount+1)}},
		"counted":   {Counted: -1},
		"too many":  {Final: make([]ledger.Final, ledger.MaxCharges+1)},
		"bad limit": {Final: []ledger.Final{final(&ledger.Limit{Key: "k"}, 1)}},
	} {
		if err := h.Settle(h.Context(), []ledger.Settlement{good, bad}); !errors.Is(err, ledger.ErrRequest) {
			h.Fatalf("%s: %v", name, err)
		}
	}
	h.used(tpm, 50)
	for name, bad := range map[string]*ledger.Limit{"no limit": nil, "no lease": tpm, "bad limit": with(running, func(l *ledger.Limit) { l.Key = "" })} {
		if err := h.Renew(h.Context(), []ledger.Lease{{ID: id, Limit: bad}}); !errors.Is(err, ledger.ErrRequest) {
			h.Fatalf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]*ledger.Limit{"no limit": nil, "bad limit": {Key: "k"}} {
		if _, err := h.Snapshot(h.Context(), []*ledger.Limit{bad}); !errors.Is(err, ledger.ErrRequest) {
			h.Fatalf("%s: %v", name, err)
		}
	}
}

func endedContext(h *harness) {
	tpm := tokens("tpm", 100)
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if ds, err := h.Reserve(ctx, []ledger.Request{{ID: h.id(), Charges: []ledger.Charge{of(tpm, 1)}}}); !errors.Is(err, context.Canceled) {
		h.Fatal(ds, err)
	}
	h.used(tpm, 0)
}
