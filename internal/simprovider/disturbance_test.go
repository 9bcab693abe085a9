package simprovider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOtherTraffic: somebody takes a share, and what we can get is the rest.
func TestOtherTraffic(t *testing.T) {
	for _, cfg := range []Config{
		{RPM: 6000, TPM: 6000}, {RPM: 6000, TPM: 6000, Rule: Fixed}, {RPM: 6000, TPM: 6000, Rule: Sliding},
		{Imitate: KindAzure, RPM: 6000, TPM: 6000},
	} {
		t.Run(fmt.Sprint(cfg.Imitate, cfg.Rule), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.FirstByte, cfg.OutputPerMinute = -1, -1
				cfg.Disturbances = []Disturbance{{OtherTraffic: 0.4}}
				s := mustNew(t, cfg)
				// 60 tokens every second, 3,600 of the 6,000, all find room.
				time.Sleep(2 * time.Minute)
				tokens := int64(60)
				if cfg.Imitate == KindAzure {
					tokens-- // and 1 for the message
				}
				for i := range 240 {
					if rec := ask(s, cfg.Imitate, 1, tokens); rec.Code != 200 {
						t.Fatalf("call %d: %s", i, rec.Body)
					}
					time.Sleep(time.Second)
				}
				p := s.Stats().Pools[0]
				b := p.Binding()
				if b.Name != "tokens" || !near(b.Utilisation, 0.6) || !near(b.OtherUtilisation, 0.4) || !near(p.TokenUtilisation, 0.6) {
					t.Errorf("%+v", b)
				}
				// There is no more than that, in any minute.
				if code := ask(s, cfg.Imitate, 1, 120).Code; s.cfg.Rule != Bucket && s.cfg.Rule != Fixed && code != 429 {
					t.Errorf("status %d beyond it", code)
				}
			})
		})
	}
}

// TestOtherTrafficChanges: each share counts from its own beginning.
func TestOtherTrafficChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: Unlimited, TPM: 6000, Rule: Sliding, Disturbances: []Disturbance{{OtherTraffic: 0.5}, {After: time.Minute, OtherTraffic: 0.2}, {After: 2 * time.Minute}}})
		s.pools[0].others.begin(0)
		for _, want := range []int64{6000, 4500, 3000, 3900, 4800, 5400, 6000} {
			s.mu.Lock()
			if got := s.pools[0].dims[dimTokens].meter.room(s.advance()); got < want-10 || got > want+10 {
				t.Errorf("at %v: room %d, want %d", s.clock(), got, want)
			}
			s.mu.Unlock()
			time.Sleep(30 * time.Second)
		}
		sum := int64(0)
		for _, n := range s.pools[0].others.slices {
			sum += n[dimTokens]
		}
		if sum != 3000+1200 {
			t.Errorf("the others took %d", sum)
		}
	})
}

// TestLimitChange: a cut and a raise take effect at their times, and the
// utilisation is relative to the limit that was in force.
func TestLimitChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: Unlimited, TPM: 6000, Rule: Sliding, FirstByte: -1, OutputPerMinute: -1,
			Disturbances: []Disturbance{{After: 4 * time.Minute, LimitFactor: 0.5}, {After: 8 * time.Minute}}})
		steady := func(d time.Duration, tokens int64) {
			t.Helper()
			for end := s.clock() + d; s.clock() < end; time.Sleep(time.Second) {
				if rec := ask(s, "", 1, tokens); rec.Code != 200 {
					t.Fatalf("at %v: %s", s.clock(), rec.Body)
				}
			}
		}
		steady(3*time.Minute, 100)
		if b := s.Stats().Pools[0].Binding(); !near(b.Utilisation, 1) || b.Limit != 6000 {
			t.Errorf("%+v", b)
		}
		steady(time.Minute-time.Second, 100)
		time.Sleep(time.Second)
		rec := ask(s, "", 1, 50)
		headers(t, rec, map[string]string{"X-Ratelimit-Limit-Tokens": "3000", "X-Ratelimit-Remaining-Tokens": "0"})
		if rec.Code != 429 {
			t.Errorf("after the cut: %d", rec.Code)
		}
		time.Sleep(30 * time.Second)
		cutAt := time.Now()
		steady(3*time.Minute, 50)
		st := s.StatsBetween(cutAt.Add(time.Minute), time.Time{})
		if b := st.Pools[0].Binding(); !near(b.Utilisation, 1) || b.Limit != 3000 {
			t.Errorf("%+v", b)
		}
		steady(30*time.Second, 50)
		if rec := ask(s, "", 1, 3000); rec.Code != 200 {
			t.Errorf("after the raise: %s", rec.Body)
		}

		// At run time.
		rec, _ = do(s, "POST", "/sim/disturb", `[{"LimitFactor":2},{"After":1000000000,"LimitFactor":0.1}]`)
		if rec.Code != http.StatusNoContent {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		headers(t, ask(s, "", 1, 1), map[string]string{"X-Ratelimit-Limit-Tokens": "12000"})
		time.Sleep(time.Second)
		headers(t, ask(s, "", 1, 1), map[string]string{"X-Ratelimit-Limit-Tokens": "600"})
		for _, bad := range []string{`[{"Cut":7}]`, `{}`, `[{"After":2},{"After":1}]`} {
			if rec, _ := do(s, "POST", "/sim/disturb", bad); rec.Code != 400 {
				t.Errorf("%s: %d", bad, rec.Code)
			}
		}
	})
}

// TestMeterLimits: what each meter makes of a cut to 40, when 10 of 60 are charged,
// and of a raise to 80 after it.
func TestMeterLimits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		meter meter
		want  [3]int64
	}{
		// A bucket of 50 spills 10 at the cut; the raise gives it room, not content.
		{"bucket", &bucket{limit: 60, minute: int64(minute), whole: 60}, [3]int64{40, 40, 53}},
		{"fixed", &fixed{limit: 60, minute: minute}, [3]int64{30, 70, 70}},
		{"sliding", &sliding{limit: 60, span: minute}, [3]int64{30, 70, 70}},
		{"sixth", &sixth{sliding{limit: 60, span: minute / 6}}, [3]int64{30, 70, 80}},
	} {
		factor := int64(1)
		if tc.name == "sixth" {
			factor = 6
		}
		m := tc.meter
		m.charge(0, 10)
		m.setLimit(0, factor*40)
		got := [3]int64{m.room(0)}
		m.setLimit(0, factor*80)
		got[1] = m.room(0)
		got[2] = m.room(10 * time.Second) // 80/6 more in the bucket
		if got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestMishaps checks the words of each, who is charged, and the shares.
func TestMishaps(t *testing.T) {
	for _, tc := range []struct {
		kind                 Kind
		d                    Disturbance
		status               int
		body                 string
		retryAfter, limit    string // of the headers
		accepted, tokensMore int64
	}{
		{"", Disturbance{Overloaded: 1}, 503, `"code":"server_is_overloaded"`, "", "", 0, 0},
		{KindOpenAI, Disturbance{Overloaded: 1}, 503, `"code":"server_is_overloaded"`, "", "100000000", 1, 7},
		{KindAzure, Disturbance{Overloaded: 1}, 429, `high demand`, "", "", 0, 0},
		{KindAnthropic, Disturbance{Overloaded: 1}, 529, `"type":"overloaded_error"`, "", "", 0, 0},
		{KindBedrock, Disturbance{Overloaded: 1}, 503, `Bedrock is unable`, "", "", 0, 0},
		{KindGroq, Disturbance{Overloaded: 1}, 503, `"message"`, "", "", 0, 0},
		{KindOpenAI, Disturbance{Failing: 1}, 500, `"type":"server_error"`, "", "100000000", 1, 7},
		{KindAnthropic, Disturbance{Failing: 1}, 500, `"type":"api_error"`, "", "", 0, 0},
		{"", Disturbance{Refused: 1, RefusedFor: 1500 * time.Millisecond}, 429, "Please try again in 1.5s", "2", "", 0, 0},
		{"", Disturbance{Refused: 1}, 429, "Rate limit reached", "", "", 0, 0},
		{KindOpenAI, Disturbance{Refused: 1, RefusedFor: time.Second}, 429, "Please try again in 1s", "1", "100000000", 1, 7},
		{KindOpenAI, Disturbance{Refused: 1}, 429, `Requested 1. Visit`, "", "", 1, 7},
		{KindAzure, Disturbance{Refused: 1, RefusedFor: time.Second}, 429, "retry after 1 seconds", "1", "", 0, 0},
		{KindAzure, Disturbance{Refused: 1}, 429, `pricing tier."`, "", "", 0, 0},
		{KindAnthropic, Disturbance{Refused: 1, RefusedFor: time.Second}, 429, "rate_limit_error", "1", "", 0, 0},
		{KindGroq, Disturbance{Refused: 1, RefusedFor: time.Minute, NoHints: true}, 429, "Requested 1. Visit", "", "", 0, 0},
	} {
		t.Run(fmt.Sprint(tc.kind, tc.d), func(t *testing.T) {
			cfg := imitating(tc.kind)
			cfg.Disturbances = []Disturbance{tc.d}
			s := mustNew(t, cfg)
			rec := ask(s, tc.kind, 1, 7)
			if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.body) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			headers(t, rec, map[string]string{"Retry-After": tc.retryAfter, "X-Ratelimit-Limit-Tokens": tc.limit})
			if st := s.Stats(); st.Accepted != tc.accepted || st.TokensCharged != tc.tokensMore || st.Disturbed != 1 || st.InFlight != 0 {
				t.Errorf("%+v", st.Counts)
			}
		})
	}
	cfg := imitating("")
	cfg.Disturbances = []Disturbance{{Overloaded: 0.2, Failing: 0.3, Refused: 0.1}}
	draw := func(seed uint64) (text string, counts map[int]int) {
		cfg.Seed, counts = seed, map[int]int{}
		s := mustNew(t, cfg)
		for range 2000 {
			code := ask(s, "", 1, 7).Code
			counts[code]++
			text += fmt.Sprint(code)
		}
		return text, counts
	}
	a, counts := draw(1)
	if b, _ := draw(1); a != b {
		t.Error("the same seed, other mishaps")
	}
	for code, want := range map[int]int{503: 400, 500: 600, 429: 200, 200: 800} {
		if n := counts[code]; n < want-100 || n > want+100 {
			t.Errorf("%d answers %d, want about %d", n, code, want)
		}
	}
}

// TestNoHints: a refusal by a limit of ours says nothing but that it is one.
func TestNoHints(t *testing.T) {
	s := mustNew(t, Config{Imitate: KindOpenAI, RPM: 10, TPM: 100, FirstByte: -1, OutputPerMinute: -1, Disturbances: []Disturbance{{NoHints: true}}})
	ask(s, KindOpenAI, 1, 100)
	rec := ask(s, KindOpenAI, 1, 100)
	headers(t, rec, map[string]string{"Retry-After": "", "Retry-After-Ms": "", "X-Ratelimit-Limit-Tokens": ""})
	if rec.Code != 429 || strings.Contains(rec.Body.String(), "try again") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestCutAndSlow: streams break off anywhere, without a word, and what they had
// produced is charged; some first bytes are late.
func TestCutAndSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: Unlimited, TPM: Unlimited, Settle: Actual, Disturbances: []Disturbance{{Cut: 0.5, Slow: 0.5, SlowBy: 7 * time.Second}}})
		cuts, slow := 0, 0
		charged := map[int64]bool{}
		for range 200 {
			before, begin := s.Stats().TokensCharged, time.Now()
			rec, broken := do(s, "POST", "/v1/chat/completions", chatJSON("", `,"stream":true`), "X-Sim-Output-Tokens", "100")
			if broken {
				cuts++
				charged[s.Stats().TokensCharged-before] = true
				if body := rec.Body.String(); strings.Contains(body, "[DONE]") || strings.Contains(body, "upstream_error") {
					t.Fatalf("%s", body)
				}
			}
			if time.Since(begin) >= 7*time.Second {
				slow++
			}
		}
		if cuts < 75 || cuts > 125 || slow < 75 || slow > 125 || len(charged) < 15 {
			t.Errorf("%d cut at %d places, %d slow", cuts, len(charged), slow)
		}
		if n := s.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

// arrival tells, to 10 ms, how long the next request takes to be counted.
func arrival(s *Server) <-chan time.Duration {
	counted := func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pools[0].counts.Accepted + s.pools[0].counts.RefusedRequests
	}
	begin, n, after := time.Now(), counted(), make(chan time.Duration, 1)
	go func() {
		for counted() == n {
			time.Sleep(10 * time.Millisecond)
		}
		after <- time.Since(begin)
	}()
	return after
}

// TestNetworkDelay: a request is counted after its way, and its answer comes after
// another; refusals too.
func TestNetworkDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = time.Second
		s := mustNew(t, Config{RPM: 30, TPM: Unlimited, Rule: Sliding, FirstByte: -1, OutputPerMinute: -1, Disturbances: []Disturbance{{NetworkDelay: most}}})
		var there, back, longest time.Duration
		for i := range 50 {
			begin := time.Now()
			arrived := arrival(s)
			rec := chat(s, "x", fmt.Sprintf(`,"stream":%v`, i%2 == 0))
			took, in := time.Since(begin), <-arrived
			if rec.Code != 200 && rec.Code != 429 || took > 2*most || in > most+10*time.Millisecond {
				t.Fatalf("%d after %v, counted after %v", rec.Code, took, in)
			}
			there, back, longest = there+in, back+took-in, max(longest, took)
		}
		if there < 15*time.Second || there > 35*time.Second || back < 15*time.Second || back > 35*time.Second || longest < 1300*time.Millisecond {
			t.Errorf("%v there, %v back, at most %v", there, back, longest)
		}
		begin := time.Now()
		do(s, "GET", "/sim/stats", "")
		if time.Since(begin) != 0 {
			t.Error("the statistics were delayed")
		}
	})
}
