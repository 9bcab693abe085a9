package simprovider

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The oracle knows every admitted call and works out each decision from nothing,
// by the definitions of the rules. It keeps no state between decisions.
type oracle struct {
	cfg   Config
	phase time.Duration
	calls []oracleCall
}

type oracleCall struct {
	at              time.Duration
	input, cap, out int64
}

type event struct {
	at time.Duration
	n  int64
}

// made is when n tokens of the answer have been produced.
func (o *oracle) made(c oracleCall, n int64) time.Duration {
	rate := o.cfg.OutputPerMinute
	return c.at + o.cfg.FirstByte + time.Duration((n*int64(o.cfg.Minute)+rate-1)/rate)
}

// charges are the tokens charged up to now, as they stand now.
func (o *oracle) charges(now time.Duration) []event {
	var all []event
	for _, c := range o.calls {
		done := o.made(c, c.out) <= now
		switch {
		case o.cfg.Settle == Final:
			all = append(all, event{c.at, c.input + c.cap})
		case o.cfg.Settle == Produced:
			all = append(all, event{c.at, c.input})
			const step = 5 // 3,000 a minute, in 600 steps
			for n := int64(0); n < c.out; n += step {
				k := min(step, c.out-n)
				if at := o.made(c, n+k); at <= now {
					all = append(all, event{at, k})
				}
			}
		case o.cfg.Rule == Bucket:
			all = append(all, event{c.at, c.input + c.cap})
			if done {
				all = append(all, event{o.made(c, c.out), c.out - c.cap})
			}
		case done:
			all = append(all, event{c.at, c.input + c.out})
		default:
			all = append(all, event{c.at, c.input + c.cap})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

func (o *oracle) room(now time.Duration, limit int64, all []event, sixth bool) int64 {
	if o.cfg.Rule == Bucket {
		// In token·nanoseconds, which the figures of this test keep small.
		full := limit * int64(o.cfg.Minute)
		level, last := full, time.Duration(0)
		for _, e := range append(all, event{at: now}) {
			level = min(level+int64(e.at-last)*limit, full)
			level = min(level-e.n*int64(o.cfg.Minute), full)
			last = e.at
		}
		return int64(math.Floor(float64(level) / float64(o.cfg.Minute)))
	}
	span := o.cfg.Minute
	if sixth {
		limit, span = limit/6, span/6
	}
	for _, e := range all {
		counts := e.at > now-span
		if o.cfg.Rule == Fixed {
			counts = (e.at+o.phase)/span == (now+o.phase)/span
		}
		if counts {
			limit -= e.n
		}
	}
	return limit
}

// decide returns what the server must do with a call that comes now, and the room
// for tokens before it.
func (o *oracle) decide(now time.Duration, input, limit int64) (verdict string, tokens int64) {
	n := input + limit
	if o.cfg.Settle == Produced {
		n = input
	}
	var requests []event
	for _, c := range o.calls {
		requests = append(requests, event{c.at, 1})
	}
	tokens = o.room(now, o.cfg.TPM, o.charges(now), false)
	switch {
	case n > o.cfg.TPM:
		return "too large", tokens
	case o.room(now, o.cfg.RPM, requests, o.cfg.Rule == Azure) < 1:
		return "requests", tokens
	case tokens < n:
		return "tokens", tokens
	}
	return "accepted", tokens
}

// TestAgainstOracle sends random traffic, above the limits, in virtual time. Every
// decision of every rule must be the oracle's, and so must the room in the headers
// of refusals, the settled charges and the utilisation.
func TestAgainstOracle(t *testing.T) {
	limits := map[string][2]int64{"tokens": {1000, 2500}, "requests": {24, 8000}, "either": {60, 5000}}
	for _, rule := range []Rule{Bucket, Fixed, Sliding, Azure} {
		for _, settle := range []Settle{Final, Actual, Produced} {
			for short, limit := range limits {
				t.Run(fmt.Sprintf("%s,%s,%s", rule, settle, short), func(t *testing.T) {
					t.Parallel()
					seed := rand.Uint64()
					t.Logf("seed %d", seed)
					synctest.Test(t, func(t *testing.T) {
						refused := driveAgainstOracle(t, Config{RPM: limit[0], TPM: limit[1], Rule: rule, Settle: settle, Minute: 6 * time.Second, Seed: seed})
						if short != "either" && refused[short] == 0 || refused["accepted"] == 0 {
							t.Errorf("the test is too easy: %v", refused)
						}
					})
				})
			}
		}
	}
}

// driveAgainstOracle returns the number of calls with each verdict.
func driveAgainstOracle(t *testing.T, cfg Config) (verdicts map[string]int) {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	s := mustNew(t, cfg)
	o := &oracle{cfg: s.cfg}
	if f, ok := s.pools[0].dims[dimTokens].meter.(*fixed); ok {
		o.phase = f.phase
	}
	pool := func() Counts { return s.Stats().Pools[0].Counts }
	verdicts = map[string]int{}
	var first time.Duration
	var running sync.WaitGroup
	for i := range 150 {
		gap := 100 * time.Millisecond
		if rng.IntN(100) == 0 {
			gap = 12 * time.Second
		}
		if i == 75 {
			time.Sleep(cfg.Minute) // so that there is more than two minutes to measure
		}
		time.Sleep(time.Duration(1 + rng.Int64N(int64(gap))))
		chars, limit := rng.Int64N(400), 1+rng.Int64N(200)
		if rng.IntN(40) == 0 {
			chars, limit = 4*cfg.TPM, 1
		}
		// Sometimes more than the cap allows.
		want := 1 + rng.Int64N(min(limit, 250)+20)
		call := oracleCall{at: s.clock(), input: (chars + 3) / 4, cap: limit, out: min(want, limit)}
		if i == 0 {
			first = call.at
		}
		verdict, room := o.decide(call.at, call.input, call.cap)
		verdicts[verdict]++
		before := pool()
		var rec *httptest.ResponseRecorder
		stream := rng.IntN(2) == 0
		running.Go(func() {
			rec = chat(s, strings.Repeat("é", int(chars)), fmt.Sprintf(`,"max_tokens":%d,"stream":%v`, limit, stream), "X-Sim-Output-Tokens", fmt.Sprint(want))
		})
		synctest.Wait()
		after := pool()
		got := map[string]int64{
			"accepted":  after.Accepted - before.Accepted,
			"requests":  after.RefusedRequests - before.RefusedRequests,
			"tokens":    after.RefusedTokens - before.RefusedTokens,
			"too large": after.RefusedTooLarge - before.RefusedTooLarge,
		}
		if got[verdict] != 1 || got["accepted"]+got["requests"]+got["tokens"]+got["too large"] != 1 {
			t.Fatalf("call %d at %v, %d+%d tokens: %v, want %s (room %d)", i, call.at, call.input, call.cap, got, verdict, room)
		}
		if verdict == "accepted" {
			o.calls = append(o.calls, call)
			continue
		}
		if got, want := rec.Header().Get("X-Ratelimit-Remaining-Tokens"), fmt.Sprint(max(room, 0)); got != want {
			t.Fatalf("call %d: remaining tokens %s, want %s", i, got, want)
		}
		if verdict == "too large" {
			continue
		}
		// The hint is in whole milliseconds, and true if nothing else happens:
		// under Final nothing does.
		ms, err := strconv.ParseInt(rec.Header().Get("Retry-After-Ms"), 10, 64)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if wait := time.Duration(ms) * time.Millisecond; cfg.Settle == Final {
			if v, _ := o.decide(call.at+wait, call.input, call.cap); v != "accepted" {
				t.Fatalf("call %d: still %s after the hint of %v", i, v, wait)
			}
			if v, _ := o.decide(call.at+wait-time.Millisecond, call.input, call.cap); v == "accepted" && ms > 1 {
				t.Fatalf("call %d: accepted a millisecond before the hint of %v", i, wait)
			}
		}
	}
	running.Wait()
	now := s.clock()
	if cfg.Rule == Sliding && cfg.Settle == Final {
		checkAnyInterval(t, o)
	}

	// What was charged, at the time it counts for: by now every call is settled.
	final := &oracle{cfg: o.cfg, calls: o.calls}
	if cfg.Rule == Bucket {
		final.cfg.Rule = Sliding // whose corrections are in place
	}
	charged := final.charges(now)
	sum := int64(0)
	for _, e := range charged {
		sum += e.n
	}
	st := s.Stats().Pools[0]
	if st.TokensCharged != sum || st.InFlight != 0 || st.Accepted != int64(len(o.calls)) {
		t.Errorf("stats %+v, want %d tokens charged and %d accepted", st.Counts, sum, len(o.calls))
	}
	begin := first + 2*o.cfg.Minute
	if st.Measured != now-begin {
		t.Errorf("measured %v, want %v", st.Measured, now-begin)
	}
	checkUtilisation(t, "token", st.TokenUtilisation, charged, begin, now, o.cfg.Minute, o.cfg.TPM)
	var requests []event
	for _, c := range o.calls {
		requests = append(requests, event{c.at, 1})
	}
	checkUtilisation(t, "request", st.RequestUtilisation, requests, begin, now, o.cfg.Minute, o.cfg.RPM)
	return verdicts
}

// checkUtilisation works out the time average of the sum of the minute before. The
// history files a charge up to half a slice from its time, which matters for those
// whose minute crosses an end.
func checkUtilisation(t *testing.T, kind string, got float64, all []event, from, to, minute time.Duration, limit int64) {
	t.Helper()
	slice := minute / slicesPerMinute
	sum, slack := 0.0, 0.0
	for _, e := range all {
		if share := min(to, e.at+minute) - max(from, e.at); share > 0 {
			sum += float64(e.n) * float64(share)
		}
		for _, end := range []time.Duration{from, to} {
			if e.at > end-minute-slice && e.at < end+slice {
				slack += float64(e.n) * float64(slice) / 2
			}
		}
	}
	full := float64(limit) * float64(to-from)
	if want := sum / full; math.Abs(got-want) > slack/full+1e-9 {
		t.Errorf("%s utilisation %.5f, want %.5f +- %.5f", kind, got, want, slack/full)
	}
}

// checkAnyInterval: the sum in an interval of a minute is largest in one that
// begins with a charge.
func checkAnyInterval(t *testing.T, o *oracle) {
	t.Helper()
	for i, begin := range o.calls {
		requests, tokens := int64(0), int64(0)
		for _, c := range o.calls[i:] {
			if c.at < begin.at+o.cfg.Minute {
				requests++
				tokens += c.input + c.cap
			}
		}
		if requests > o.cfg.RPM || tokens > o.cfg.TPM {
			t.Fatalf("%d requests and %d tokens in the minute from %v", requests, tokens, begin.at)
		}
	}
}
