package ledgertest

import (
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// source is a source of random numbers.
type source struct{ *rand.Rand }

// upTo returns a duration below d.
func (s source) upTo(d time.Duration) time.Duration { return time.Duration(s.Int64N(int64(d))) }

// seeded logs the seed of the source it returns; SEED sets it.
func seeded(t testing.TB) source {
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SEED=%d", seed)
	return source{rand.New(rand.NewPCG(seed, 0))}
}

var wholeNumbers = []test{
	{name: "an hour of awkward polling is within one unit", run: awkwardHour, exact: true},
	{name: "an hour of polls worth 1.8 units", run: polls1point8, exact: true},
	{name: "a bucket that is asked all the time refills", run: askedAllTheTime, exact: true},
	{name: "in the year 2049", run: year2049, exact: true},
	{name: "a new bucket gives its burst at every rate", run: burstAtEveryRate},
	{name: "the largest amounts", run: largestAmounts},
}

// ideal is how many units a full bucket has given and gained in all after so long.
func ideal(l *ledger.Limit, after time.Duration) *big.Rat {
	micros, units := perUnit(l)
	gain := new(big.Int).Mul(big.NewInt(after.Microseconds()), big.NewInt(units))
	r := new(big.Rat).SetFrac(gain, big.NewInt(micros))
	return r.Add(r, new(big.Rat).SetInt64(l.Shape(0).Burst))
}

// within checks that what was granted is less than one unit below the ideal, or less
// than what a tick of the bucket's clock gains, and never above it.
func (h *harness) within(l *ledger.Limit, granted int64, after time.Duration) {
	h.Helper()
	s, off := l.Shape(0), ideal(l, after)
	off.Sub(off, new(big.Rat).SetInt64(granted))
	if off.Sign() < 0 || off.Cmp(big.NewRat(s.Ticks+l.Amount, s.Ticks)) >= 0 {
		f, _ := off.Float64()
		h.Fatalf("%d granted of %+v after %v: %v units off", granted, *l, after, f)
	}
}

// poll takes all there is at every interval, for so long, and checks each time.
func (h *harness) poll(l *ledger.Limit, length time.Duration, interval func() time.Duration) {
	h.Helper()
	var granted int64
	for start := time.Now(); time.Since(start) < length; h.sleep(interval()) {
		if n := h.balances(l)[0].Available; n > 0 {
			h.grant(of(l, n))
			granted += n
		}
		h.deny(of(l, 1))
		h.within(l, granted, time.Since(start))
	}
}

// throttled rounds the time between two units: PerSec(300e6) allows 333e6.
// BerriAI and others poll at whole seconds only, where nothing of this shows.
func awkwardHour(h *harness) {
	rng := seeded(h.T)
	steps := []time.Duration{7 * time.Millisecond, 900_001 * time.Microsecond, 13_370_007 * time.Microsecond, time.Minute + time.Microsecond}
	for _, perMinute := range []int64{7, 70, 90_001, 150_000_000} {
		// The window is two hours, so that an hour shows the bucket alone.
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 120 * perMinute, Window: 2 * time.Hour}
		l.Key += strconv.FormatInt(perMinute, 10)
		h.poll(l, time.Hour, func() time.Duration { return steps[rng.IntN(len(steps))] })
	}
}

// Portkey's refill is cut to whole units at each poll, so the rest is lost.
func polls1point8(h *harness) {
	l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 2000, Window: 2 * time.Hour, Burst: 3}
	micros, units := perUnit(l)
	h.poll(l, time.Hour, func() time.Duration { return time.Duration(micros*18/units/10) * time.Microsecond })
}

// mailgun/gubernator#77, spring-cloud/spring-cloud-gateway#1117 and
// cristipufu/aspnetcore-redis-rate-limiting#46: a bucket that is hit all the time
// does not refill.
func askedAllTheTime(h *harness) {
	l := with(paced("rpm", 612), func(l *ledger.Limit) { l.Burst = 2 }) // 10 a second
	h.poll(l, 8*time.Second, func() time.Duration { return 10 * time.Millisecond })
}

// rwz/redis-gcra#2: seconds in doubles come to the edge of their digits.
func year2049(h *harness) {
	h.sleep(time.Until(time.Date(2049, 7, 1, 0, 0, 0, 1000, time.UTC)))
	l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 10_800_120, Window: 2 * time.Hour}
	h.poll(l, 5*time.Minute, func() time.Duration { return 1_234_567 * time.Microsecond })
}

// golang/go#34861: a full bucket of 1 refuses its first request at some rates.
func burstAtEveryRate(h *harness) {
	var batch []ledger.Request
	for n := int64(1); n <= 10_000; n++ {
		l := &ledger.Limit{Key: "h" + strconv.FormatInt(n, 10), Unit: ledger.Tokens, Amount: n, Window: 20 * 24 * time.Hour}
		for _, amount := range []int64{l.Shape(0).Burst, 1} {
			batch = append(batch, ledger.Request{ID: h.id(), Charges: []ledger.Charge{of(l, amount)}})
		}
		if n%500 == 0 {
			for i, d := range h.decide(batch...) {
				h.want(d, []ledger.Outcome{ledger.Granted, ledger.Denied}[i%2])
			}
			batch = batch[:0]
		}
	}
}

// Lua's tostring has 14 digits in Redis and 16 in miniredis, so the largest amounts
// go wrong in the one and not in the other.
func largestAmounts(h *harness) {
	l := tokens("money", ledger.MaxAmount)
	odd := int64(1)<<50 - 12_345_677
	zero, id := h.grant(of(l, 0)), h.grant(of(l, odd))
	h.used(l, odd)
	h.available(l, 12_345_677)
	h.grant(of(l, 12_345_676))
	h.available(l, 1)
	h.settle(id, final(l, ledger.MaxAmount-1))
	h.used(l, ledger.MaxAmount+12_345_675)
	h.settle(zero, ledger.Final{Limit: l, Late: ledger.MaxAmount})
	h.used(l, 2*ledger.MaxAmount+12_345_675)
}
