package simprovider

import "time"

// bucket is refilled continuously: limit per minute, up to limit. Its level is
// kept as whole units and a rest in unit·nanoseconds, so that no refill is ever
// rounded, however oddly the bucket is polled.
type bucket struct {
	limit, minute int64         // minute in nanoseconds; (limit+1) × minute fits an int64
	whole         int64         // negative after overuse
	part          int64         // 0 ≤ part < minute; part/minute of a unit beyond whole
	at            time.Duration // when whole and part were true
}

func (b *bucket) refill(now time.Duration) {
	elapsed := int64(now - b.at)
	b.at = now
	b.part += elapsed % b.minute * b.limit
	b.whole += elapsed/b.minute*b.limit + b.part/b.minute
	b.part %= b.minute
	if b.whole >= b.limit {
		b.whole, b.part = b.limit, 0
	}
}

func (b *bucket) room(now time.Duration) int64 {
	b.refill(now)
	return b.whole
}

func (b *bucket) charge(now time.Duration, n int64) int64 {
	b.correct(now, 0, n)
	return 0
}

func (b *bucket) correct(now time.Duration, _, delta int64) {
	b.refill(now)
	b.whole -= delta // what a refund makes too much runs over at the next refill
}

func (b *bucket) wait(now time.Duration, n int64) time.Duration {
	b.refill(now)
	missing := max(n-b.whole, 0)
	if missing == 0 {
		return 0
	}
	return time.Duration(missing/b.limit*b.minute + ceilDiv(missing%b.limit*b.minute-b.part, b.limit))
}

func (b *bucket) reset(now time.Duration) time.Duration { return b.wait(now, b.limit) }

func (b *bucket) setLimit(now time.Duration, limit int64) {
	b.refill(now)
	b.limit = limit
	b.refill(now) // a cut spills what no longer fits
}

// ceilDiv is a/b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
