package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

var settling = []test{
	{name: "what was not used comes back", run: unusedComesBack},
	{name: "overuse makes the balance negative", run: overuse},
	{name: "overuse delays the next", run: overuseDelays, exact: true},
	{name: "every limit is settled though one is short", run: allAreSettled},
	{name: "a refund at zero", run: refundAtZero},
	{name: "a refund after its window gives nothing back", run: refundAfterWindow, exact: true},
	{name: "a refund at the moment its charge leaves", run: refundAsItLeaves, exact: true},
	{name: "a cancel after its window erases nobody else's", run: cancelAfterWindow, exact: true},
	{name: "a job longer than its window", run: longerThanWindow, exact: true},
	{name: "output counts as it is produced", run: produced, exact: true},
	{name: "a settled charge stays in its window", run: staysInWindow, exact: true},
	{name: "a provider's window and a tenant's day", run: windowAndDay, exact: true},
	{name: "a limit that the job did not charge", run: notCharged},
	{name: "too few finals", run: tooFewFinals},
}

// agentgateway: a refund is impossible, and the error is dropped. Of 5000 reserved 100
// were used.
func unusedComesBack(h *harness) {
	tpm, rpm := tokens("tpm", 10_000), requests("rpm", 10)
	id := h.grant(of(tpm, 5000), of(rpm, 1))
	h.available(tpm, 5000)
	h.settle(id, final(tpm, 100), final(rpm, 1))
	h.available(tpm, 9900)
	h.available(rpm, 9) // it was sent, so it stays counted as a request
}

// TensorZero debits nothing if the bucket is short, Higress ignores what is settled
// above the threshold, agentgateway's amend_tokens stops at 0.
func overuse(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.grant(of(tpm, 900))
	h.settle(id, final(tpm, 1400))
	h.used(tpm, 1400)
	h.available(tpm, -400)
	over := tokens("over", 1000)
	a, b, c := h.grant(of(over, 300)), h.grant(of(over, 300)), h.grant(of(over, 300))
	for _, id := range []ledger.ID{a, b, c} {
		h.settle(id, final(over, 1000))
	}
	h.used(over, 3000)
	h.available(over, -2000)
	h.deny(of(over, 1))
}

func overuseDelays(h *harness) {
	l := with(paced("tpm", 1000), func(l *ledger.Limit) { l.Burst = 100 })
	id := h.grant(of(l, 100))
	h.settle(id, final(l, 600))
	h.available(l, -500)
	if d := h.deny(of(l, 1)); d.Wait != gains(l, 501) {
		h.Fatalf("wait %v, want %v", d.Wait, gains(l, 501))
	}
	// More than the window holds is paid off in more than a window, though nothing else
	// is asked of the limit, and others are.
	deep := with(l, func(l *ledger.Limit) { l.Key = "deep" })
	id = h.grant(of(deep, 100))
	h.settle(id, final(deep, 3600))
	h.sleep(gains(deep, 1500))
	for range 5 {
		h.grant(of(tokens("other", 100), 1))
	}
	h.used(deep, 0)
	h.available(deep, -2000)
	h.sleep(gains(deep, 3500) - gains(deep, 1500))
	h.available(deep, 0)
	h.until(h.deny(of(deep, 1)), of(deep, 1))
}

// TensorZero: one short key cancels the debits on all others.
func allAreSettled(h *harness) {
	short, wide, running := tokens("short", 100), tokens("wide", 10_000), inFlight("running", 1, time.Minute)
	id := h.grant(of(short, 100), of(wide, 100), of(running, 1))
	h.settle(id, final(short, 500), final(wide, 500), final(running, 1))
	h.available(short, -400)
	h.available(wide, 9500)
	h.available(running, 1)
}

// mailgun/gubernator#156: a refund is ignored exactly when nothing remains.
func refundAtZero(h *harness) {
	tpm := tokens("tpm", 100)
	bucket := &ledger.Limit{Key: "bucket", Unit: ledger.Tokens, Amount: 1000, Window: 20 * 24 * time.Hour, Burst: 100}
	id := h.grant(of(tpm, 100), of(bucket, 100))
	h.available(tpm, 0)
	h.available(bucket, 0)
	h.settle(id, final(tpm, 30), final(bucket, 30))
	h.available(tpm, 70)
	h.available(bucket, 70)
	h.grant(of(tpm, 70), of(bucket, 70))
}

// A refund to a fixed window after its end makes the next one negative, and room for
// more than the limit.
func refundAfterWindow(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.grant(of(tpm, 600))
	h.sleep(65 * time.Second)
	h.used(tpm, 0)
	h.grant(of(tpm, 900))
	h.settle(id, final(tpm, 100))
	h.used(tpm, 900)
	h.available(tpm, 100)
	h.deny(of(tpm, 101))
}

func refundAsItLeaves(h *harness) {
	tpm := tokens("tpm", 1000)
	h.sleep(123_456 * time.Microsecond)
	id := h.grant(of(tpm, 600))
	slot := tpm.Shape(0).Slot
	leaves := (time.Now().UnixMicro() + (61 * time.Second).Microseconds() + slot - 1) / slot * slot
	h.sleep(time.Until(time.UnixMicro(leaves)) - time.Microsecond)
	h.used(tpm, 600)
	h.sleep(time.Microsecond)
	h.used(tpm, 0)
	h.settle(id, final(tpm, 100))
	h.used(tpm, 0)
	h.grant(of(tpm, 1000))
	h.deny(of(tpm, 1))
}

// Instawork/llm-proxy#40: a reservation of :59 that is cancelled at :01 erases those of
// others, and a refund above what was reserved makes capacity.
func cancelAfterWindow(h *harness) {
	tpm := tokens("tpm", 1000)
	h.sleep(59 * time.Second)
	early := h.grant(of(tpm, 600))
	h.sleep(2 * time.Second)
	other := h.grant(of(tpm, 300))
	h.cancel(early)
	h.used(tpm, 300)
	h.sleep(70 * time.Second)
	h.grant(of(tpm, 500))
	h.cancel(other)
	h.used(tpm, 500)
}

// maximhq/bifrost#5295: usage settled after its window goes to the wrong one, or is
// wiped by the reset. Here it goes to the window it was made in, which is over.
func longerThanWindow(h *harness) {
	tpm := tokens("tpm", 1000)
	var grants []grantAt
	for range 20 {
		id := h.grant(of(tpm, 600))
		at := time.Now()
		h.sleep(65 * time.Second)
		h.settle(id, final(tpm, 1000))
		h.used(tpm, 0)
		grants = append(grants, grantAt{at, 1000})
	}
	if worst := most(grants, time.Minute); worst > 1000 {
		h.Fatalf("%d in a window of 1000", worst)
	}
}

func produced(h *harness) {
	out := with(tokens("otpm", 1000), func(l *ledger.Limit) { l.Unit, l.Settle = ledger.OutputTokens, ledger.SettleProduced })
	id := h.grant(of(out, 400))
	h.sleep(50 * time.Second)
	h.settle(id, ledger.Final{Limit: out, Admitted: 0, Late: 700})
	h.used(out, 700)
	h.leavesBetween(out, 700, time.Minute)
	// What is late counts although the grant's own window is over.
	id = h.grant(of(out, 400))
	h.sleep(90 * time.Second)
	h.settle(id, ledger.Final{Limit: out, Admitted: 100, Late: 300})
	h.used(out, 300)
	// It is paid for out of the bucket, too.
	l := with(paced("paced", 1000), func(l *ledger.Limit) { l.Burst = 100 })
	id = h.grant(of(l, 50))
	h.settle(id, ledger.Final{Limit: l, Admitted: 10, Late: 200})
	h.available(l, -110)
}

func staysInWindow(h *harness) {
	tpm := tokens("tpm", 1000)
	id := h.grant(of(tpm, 100))
	h.sleep(40 * time.Second)
	h.settle(id, final(tpm, 350))
	h.leavesBetween(tpm, 350, 21*time.Second)
}

func windowAndDay(h *harness) {
	tpm := tokens("tpm", 1000)
	day := &ledger.Limit{Key: "tenant", Unit: ledger.MicroUSD, Amount: 1_000_000, Window: 24 * time.Hour, Unpaced: true, Own: true}
	for range 30 {
		id := h.grant(of(tpm, 800), of(day, 40_000))
		h.sleep(70 * time.Second)
		h.settle(id, final(tpm, 800), final(day, 10_000))
	}
	h.used(tpm, 0)
	h.used(day, 300_000)
}

// BerriAI/litellm strips client metadata that could name a reservation, or the budget
// to refund: a settlement moves only what its reservation took.
func notCharged(h *harness) {
	mine, theirs := tokens("mine", 1000), tokens("theirs", 1000)
	a, b := h.grant(of(mine, 100)), h.grant(of(theirs, 100))
	h.settle(a, final(theirs, 0))
	h.used(mine, 100)
	h.used(theirs, 100)
	h.settle(a, final(mine, 0)) // it is settled
	h.used(mine, 100)
	h.settle(b, final(with(theirs, func(l *ledger.Limit) { l.Window = time.Hour }), 0))
	h.used(theirs, 100)
}

func tooFewFinals(h *harness) {
	a, b := tokens("a", 1000), tokens("b", 1000)
	id := h.grant(of(a, 100), of(b, 100))
	h.settle(id, final(a, 10))
	h.used(a, 10)
	h.used(b, 100)
	id = h.grant(of(a, 100))
	h.settle(id, final(a, 20), final(b, 0))
	h.used(a, 30)
	h.used(b, 100)
}
