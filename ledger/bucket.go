package ledger

import "math"

// bucket is the pacing bucket of one limit as it was at one time. It is a value:
// to look at it later makes another one, and nothing is kept of that unless a
// charge is taken.
type bucket struct {
	at int64 // microseconds of the ledger's clock
	// level is in whole units, negative after a charge above the burst or after
	// overuse. rem is the part of the next unit that has been gained, in 1/Ticks.
	level, rem int64
	// started is false for a bucket that nobody took from: it is full.
	started bool
}

// advance returns the bucket at now, with what its rate gave since. Every product
// stays below 2^53, so that the same steps in doubles give the same numbers.
func (k bucket) advance(now, amount int64, s *Shape) bucket {
	if !k.started {
		return bucket{started: true, at: now, level: s.Burst}
	}
	now = max(now, k.at)
	if s.Burst == 0 {
		return bucket{started: true, at: now} // should it be paced again, it begins empty
	}
	ticks := now - k.at
	if s.Tick > 1 {
		ticks /= s.Tick
	}
	k.at += ticks * s.Tick
	if ticks >= s.Ticks && amount > 0 {
		// More than what fills the bucket is not worth counting.
		whole := min(ticks/s.Ticks, (max(s.Burst-k.level, 0)+amount-1)/amount)
		k.level += whole * amount
		ticks %= s.Ticks
	}
	x := ticks*s.Rest + k.rem
	k.level += ticks * s.Quot
	if x >= s.Ticks {
		k.level += x / s.Ticks
		x %= s.Ticks
	}
	k.rem = x
	return k.full(now, s)
}

// take returns the bucket, which is as of now, after a charge; a negative amount
// gives back.
func (k bucket) take(amount, now int64, s *Shape) bucket {
	if s.Burst > 0 {
		k.level -= amount
	}
	return k.full(now, s)
}

// full makes a bucket that has no room as a new one, which gains nothing.
func (k bucket) full(now int64, s *Shape) bucket {
	if k.level >= s.Burst && s.Burst > 0 {
		return bucket{started: true, at: now, level: s.Burst}
	}
	return k
}

// refill returns the microseconds after k.at in which the bucket gains short. It
// is a hint, in doubles because the products pass 63 bits for the largest limits.
// Redis does the same steps and gets the same bits; the conversion of the product
// keeps the compiler from fusing it with the subtraction, which rounds once less.
func (k bucket) refill(short, amount int64, s *Shape) int64 {
	ticks := math.Ceil((float64(float64(short)*float64(s.Ticks)) - float64(k.rem)) / float64(amount))
	return int64(min(ticks*float64(s.Tick), float64(maxWindow.Microseconds())))
}
