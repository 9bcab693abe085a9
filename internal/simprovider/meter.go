package simprovider

import (
	"math"
	"time"
)

// A meter enforces one limit. It decides nothing: room and charge are two steps,
// so that a request can be checked against both of its limits before it changes
// either. The server's lock guards it, and its clock, which never goes back, is
// the time since the server was made.
type meter interface {
	// room is the largest amount that may be charged now; negative after overuse.
	room(now time.Duration) int64
	// charge takes n, whether there is room or not, and returns a mark for correct.
	charge(now time.Duration, n int64) (mark int64)
	// correct changes an earlier charge by delta, at that charge's own time.
	correct(now time.Duration, mark, delta int64)
	// wait is the time until room is at least n, if nothing else is charged
	// before. It needs n to be at most the limit.
	wait(now time.Duration, n int64) time.Duration
	// reset is the time until everything charged so far is forgotten.
	reset(now time.Duration) time.Duration
	// setLimit changes the limit. What is charged stays, and so does the refill of
	// a bucket up to now.
	setLimit(now time.Duration, limit int64)
}

// newMeter returns the meter for a limit in one of the dimensions.
func newMeter(c Config, limit int64, dim int, phase time.Duration) meter {
	switch {
	case limit == Unlimited:
		return unlimited{}
	case dim == dimDay:
		return &bucket{limit: limit, minute: int64(minutesPerDay * c.Minute), whole: limit}
	case c.Rule == Bucket:
		return &bucket{limit: limit, minute: int64(c.Minute), whole: limit}
	case c.Rule == Fixed:
		return &fixed{limit: limit, minute: c.Minute, phase: phase}
	case c.Rule == Azure && dim == dimRequests:
		return &sixth{sliding{limit: limit / 6, span: c.Minute / 6}}
	default:
		return &sliding{limit: limit, span: c.Minute}
	}
}

// sixth slides over a sixth of a minute, with a sixth of the limit.
type sixth struct{ sliding }

func (s *sixth) setLimit(now time.Duration, limit int64) {
	s.sliding.setLimit(now, max(limit/6, 1))
}

type unlimited struct{}

func (unlimited) room(time.Duration) int64                  { return math.MaxInt64 }
func (unlimited) charge(time.Duration, int64) int64         { return 0 }
func (unlimited) correct(time.Duration, int64, int64)       {}
func (unlimited) wait(time.Duration, int64) time.Duration   { return 0 }
func (unlimited) reset(now time.Duration) (d time.Duration) { return 0 }
func (unlimited) setLimit(time.Duration, int64)             {}
