package simprovider

import "time"

// fixed counts in minutes that follow each other without a gap; phase is how far
// the first one had gone when the server was made.
type fixed struct {
	limit         int64
	minute, phase time.Duration
	index         int64 // of the minute that used belongs to
	used          int64
}

func (f *fixed) roll(now time.Duration) {
	if i := int64((now + f.phase) / f.minute); i != f.index {
		f.index, f.used = i, 0
	}
}

func (f *fixed) room(now time.Duration) int64 {
	f.roll(now)
	return f.limit - f.used
}

func (f *fixed) charge(now time.Duration, n int64) int64 {
	f.roll(now)
	f.used += n
	return f.index
}

func (f *fixed) correct(now time.Duration, index, delta int64) {
	f.roll(now)
	if index == f.index {
		f.used += delta
	}
}

func (f *fixed) wait(now time.Duration, n int64) time.Duration {
	if f.room(now) >= n {
		return 0
	}
	return f.minute - (now+f.phase)%f.minute
}

func (f *fixed) reset(now time.Duration) time.Duration { return f.wait(now, f.limit) }

func (f *fixed) setLimit(_ time.Duration, limit int64) { f.limit = limit }
