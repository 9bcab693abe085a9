package simprovider

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

const minute = time.Minute

// TestMeterSteps walks each meter through a few charges by hand.
func TestMeterSteps(t *testing.T) {
	type step struct {
		at     time.Duration
		charge int64 // after checking room
		back   int   // if not 0: correct the charge made that many charges ago by delta
		delta  int64
		room   int64         // before the charge and the correction
		wait   time.Duration // for 60 units, before them
		reset  time.Duration // after them
	}
	for _, tc := range []struct {
		name  string
		meter meter
		steps []step
	}{
		{"bucket", &bucket{limit: 60, minute: int64(minute), whole: 60}, []step{
			{at: 0, room: 60, charge: 60, reset: minute},
			{at: 999 * time.Millisecond, room: 0, wait: 59*time.Second + time.Millisecond, reset: 59*time.Second + time.Millisecond},
			{at: time.Second, room: 1, wait: 59 * time.Second, charge: 11, reset: 70 * time.Second},
			{at: 2 * time.Second, room: -9, wait: 69 * time.Second, back: 1, delta: -4, reset: 65 * time.Second},
			{at: 3 * time.Second, room: -4, wait: 64 * time.Second, back: 1, delta: -100, reset: 0},
			{at: time.Hour, room: 60, charge: 1, reset: time.Second},
		}},
		{"fixed", &fixed{limit: 60, minute: minute, phase: 50 * time.Second}, []step{
			{at: 0, room: 60, charge: 60, reset: 10 * time.Second},
			{at: 9 * time.Second, room: 0, wait: time.Second, back: 1, delta: -20, reset: time.Second},
			{at: 9 * time.Second, room: 20, wait: time.Second, charge: 30, reset: time.Second},
			{at: 10 * time.Second, room: 60, charge: 15, reset: minute},
			{at: 69 * time.Second, room: 45, wait: time.Second, back: 2, delta: -30, reset: time.Second},
			{at: 69 * time.Second, room: 45, wait: time.Second, back: 1, delta: 55, reset: time.Second},
			{at: 69 * time.Second, room: -10, wait: time.Second, reset: time.Second},
			{at: 70 * time.Second, room: 60},
		}},
		{"sliding", &sliding{limit: 60, span: minute}, []step{
			{at: 0, room: 60, charge: 40, reset: minute},
			{at: 30 * time.Second, room: 20, wait: 30 * time.Second, charge: 20, reset: minute},
			{at: 59 * time.Second, room: 0, wait: 31 * time.Second, back: 2, delta: -10, reset: 31 * time.Second},
			{at: 60*time.Second - 1, room: 10, wait: 30*time.Second + 1, reset: 30*time.Second + 1},
			{at: 60 * time.Second, room: 40, wait: 30 * time.Second, back: 2, delta: -30, reset: 30 * time.Second},
			{at: 60 * time.Second, room: 40, wait: 30 * time.Second, back: 1, delta: 50, reset: 30 * time.Second},
			{at: 61 * time.Second, room: -10, wait: 29 * time.Second, reset: 29 * time.Second},
			{at: 90 * time.Second, room: 60},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var marks []int64
			for i, st := range tc.steps {
				if got := tc.meter.room(st.at); got != st.room {
					t.Fatalf("step %d: room %d, want %d", i, got, st.room)
				}
				if got := tc.meter.wait(st.at, 60); got != st.wait {
					t.Fatalf("step %d: wait %v, want %v", i, got, st.wait)
				}
				if st.charge > 0 {
					marks = append(marks, tc.meter.charge(st.at, st.charge))
				}
				if st.back > 0 {
					tc.meter.correct(st.at, marks[len(marks)-st.back], st.delta)
				}
				if got := tc.meter.reset(st.at); got != st.reset {
					t.Fatalf("step %d: reset %v, want %v", i, got, st.reset)
				}
			}
		})
	}
}

// TestBucketIsExactOverAnHour takes every unit as soon as a poll at odd times
// shows it: what was granted is the capacity and an hour's refill, to the unit. The
// polls are too close together for the bucket to run over.
func TestBucketIsExactOverAnHour(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, limit := range []int64{7, 499, 30_000, 1_000_003, maxLimit} {
		b := &bucket{limit: limit, minute: int64(minute), whole: limit}
		granted, now := int64(0), time.Duration(0)
		for now < time.Hour {
			n := b.room(now)
			b.charge(now, n)
			granted += n
			now = min(now+time.Duration(1+rng.Int64N(int64(minute)/3)), time.Hour)
		}
		granted += b.room(now)
		if want := limit + 60*limit; granted != want {
			t.Errorf("limit %d: granted %d in an hour, want %d", limit, granted, want)
		}
	}
}

// TestBucketAgainstRationals drives a bucket and its definition in exact
// fractions with the same charges and refunds.
func TestBucketAgainstRationals(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		limit := 1 + rng.Int64N(1000)
		b := &bucket{limit: limit, minute: int64(minute), whole: limit}
		full := big.NewRat(limit, 1)
		level, now := big.NewRat(limit, 1), time.Duration(0)
		for i := range 300 {
			step := rng.Int64N(int64(minute) / 4)
			now += time.Duration(step)
			level.Add(level, new(big.Rat).Mul(full, big.NewRat(step, int64(minute))))
			if level.Cmp(full) > 0 {
				level.Set(full)
			}
			whole := new(big.Int).Div(level.Num(), level.Denom()) // rounds down
			if got := b.room(now); got != whole.Int64() {
				t.Fatalf("limit %d, step %d: room %d, want %v", limit, i, got, level)
			}
			delta := rng.Int64N(limit) - limit/4
			b.correct(now, 0, delta)
			level.Sub(level, big.NewRat(delta, 1))
			if level.Cmp(full) > 0 {
				level.Set(full)
			}
		}
	}
}

// TestSlidingAgainstList compares a long life of charges and corrections with the
// plain list of them, which forgets nothing.
func TestSlidingAgainstList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &sliding{limit: 1000, span: minute}
	var list []entry
	var marks []int64
	now, longest := time.Duration(0), 0
	for i := range 5000 {
		now += time.Duration(rng.Int64N(int64(minute) / 50))
		list = append(list, entry{now, rng.Int64N(50)})
		marks = append(marks, s.charge(now, list[i].n))
		j := max(0, i-rng.IntN(200))
		delta := rng.Int64N(20) - list[j].n/2
		s.correct(now, marks[j], delta)
		if list[j].at > now-minute {
			list[j].n += delta
		}
		room := int64(1000)
		for _, e := range list {
			if e.at > now-minute {
				room -= e.n
			}
		}
		if got := s.room(now); got != room {
			t.Fatalf("step %d: room %d, want %d", i, got, room)
		}
		longest = max(longest, len(s.entries))
	}
	if longest > 500 {
		t.Errorf("%d entries were kept for a window of about 100", longest)
	}
}

// TestWaitIsTheFirstMoment checks that after the wait there is room, and a
// nanosecond earlier there is not.
func TestWaitIsTheFirstMoment(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	// Looking at a meter in the future changes it, so each look has its own copy,
	// made by the same charges.
	build := func(kind string, seed uint64) (m meter, limit int64, now time.Duration) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit = 1 + rng.Int64N(1000)
		switch kind {
		case "bucket":
			m = &bucket{limit: limit, minute: int64(minute), whole: limit}
		case "fixed":
			m = &fixed{limit: limit, minute: minute, phase: time.Duration(rng.Int64N(int64(minute)))}
		default:
			m = &sliding{limit: limit, span: minute}
		}
		for range 1 + rng.IntN(100) {
			now += time.Duration(rng.Int64N(int64(minute) / 10))
			m.charge(now, rng.Int64N(limit)/3+1)
		}
		return m, limit, now
	}
	for i := range uint64(500) {
		for _, kind := range []string{"bucket", "fixed", "sliding"} {
			m, limit, now := build(kind, seed+i)
			n := 1 + int64(seed+i)&0xffff%limit
			wait := m.wait(now, n)
			if room := m.room(now + wait); room < n {
				t.Fatalf("%s %d: room %d after waiting %v for %d", kind, i, room, wait, n)
			}
			if wait > 0 {
				m, _, _ = build(kind, seed+i)
				if room := m.room(now + wait - 1); room >= n {
					t.Fatalf("%s %d: room %d for %d a nanosecond before the end of %v", kind, i, room, n, wait)
				}
			}
			m, _, _ = build(kind, seed+i)
			reset := m.reset(now)
			if room := m.room(now + reset); room != limit {
				t.Fatalf("%s %d: room %d of %d after the reset of %v", kind, i, room, limit, reset)
			}
		}
	}
}

func TestRecentForgetsTheOldest(t *testing.T) {
	r := recent[string, int]{limit: 100}
	for i := range 1000 {
		r.put(fmt.Sprint(i), i)
		for j := max(0, i-99); j <= i; j += 33 {
			if v, ok := r.get(fmt.Sprint(j)); !ok || v != j {
				t.Fatalf("after %d: %d is %d, %v", i, j, v, ok)
			}
		}
		if n := len(r.young) + len(r.old); n > 200 {
			t.Fatalf("%d keys are remembered", n)
		}
	}
}
