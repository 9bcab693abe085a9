package dispatcher

import (
	"math"
	"testing"
	"time"
)

// near reports whether got is within some percent of want.
func near(got, want time.Duration, percent int64) bool {
	return math.Abs(float64(got-want)) <= float64(want)*float64(percent)/100
}

func TestRate(t *testing.T) {
	var r rate
	if _, ok := r.wait(1); ok {
		t.Error("nothing was granted, and the rate is known")
	}
	// Jobs that go at once say nothing, however many.
	now := time.Duration(0)
	for range 100_000 {
		now += time.Millisecond
		r.look(now, false, false)
		r.granted(1000)
		r.look(now, false, true)
	}
	if _, ok := r.wait(1); ok {
		t.Error("nobody was kept waiting, and the rate is known")
	}
	// 100 a second while jobs are kept waiting.
	busy := func(seconds int, cost int64) {
		for range 10 * seconds {
			r.look(now, true, true)
			now += 100 * time.Millisecond
			r.pass(now)
			r.granted(cost / 10)
		}
	}
	busy(1, 100)
	if w, ok := r.wait(1000); !ok || !near(w, 10*time.Second, 10) {
		t.Errorf("after a second: %v, %v", w, ok)
	}
	busy(60, 100)
	if w, ok := r.wait(1000); !ok || !near(w, 10*time.Second, 2) {
		t.Errorf("after a minute: %v, %v", w, ok)
	}
	// An idle hour changes nothing, whether it begins with a grant or a cancel.
	now += time.Hour
	r.look(now, false, false)
	if w, ok := r.wait(1000); !ok || !near(w, 10*time.Second, 2) {
		t.Errorf("after an idle hour: %v, %v", w, ok)
	}
	// It follows a changed rate: nine tenths of it in about 33 s.
	busy(34, 1000)
	if w, ok := r.wait(1000); !ok || !near(w, time.Second*1000/910, 5) {
		t.Errorf("ten times as fast: %v, %v", w, ok)
	}
	// When nothing is granted the wait grows, to a day at most.
	busy(20, 0)
	if w, ok := r.wait(1000); !ok || w < 2*time.Second {
		t.Errorf("nothing for 20 s: %v, %v", w, ok)
	}
	if w, ok := r.wait(math.MaxInt64); !ok || w != 24*time.Hour {
		t.Errorf("endless backlog: %v, %v", w, ok)
	}
}
