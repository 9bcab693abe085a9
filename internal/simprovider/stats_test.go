package simprovider

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func near(a, b float64) bool { return a-b < 0.001 && b-a < 0.001 }

// TestUtilisation: a steady load is measured as what it is, whatever the time of
// the reading, and the end of the load can be chosen afterwards.
func TestUtilisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 60, TPM: 1000, Rule: Sliding, FirstByte: -1, OutputPerMinute: -1})
		time.Sleep(time.Hour) // before the first request
		for i := range 4 * 30 {
			// 10 tokens every 2 s: 300 a minute, and 30 requests.
			chat(s, "", `,"max_tokens":10`)
			time.Sleep(2 * time.Second)
			if st := s.Stats().Pools[0]; i < 59 && (st.Measured != 0 || st.TokenUtilisation != 0) {
				t.Fatalf("after %d requests: %+v", i+1, st)
			}
		}
		end := time.Now()
		check := func(st Stats, tokens, requests float64, measured time.Duration) {
			t.Helper()
			p := st.Pools[0]
			if !near(p.TokenUtilisation, tokens) || !near(p.RequestUtilisation, requests) || p.Measured != measured {
				t.Errorf("utilisation %.4f and %.4f over %v, want %.4f and %.4f over %v", p.TokenUtilisation, p.RequestUtilisation, p.Measured, tokens, requests, measured)
			}
		}
		check(s.Stats(), 0.3, 0.5, 2*time.Minute)
		time.Sleep(time.Minute)
		// During the minute after the end, the last thirty charges run out: one
		// after 0 s, one after 2 s, and so on, 29/60 of what they were on average.
		const tail = (2 + 29.0/60) / 3
		check(s.Stats(), 0.3*tail, 0.5*tail, 3*time.Minute)
		check(s.StatsBetween(time.Time{}, end), 0.3, 0.5, 2*time.Minute)
		check(s.StatsBetween(end.Add(-time.Minute), end), 0.3, 0.5, time.Minute)
		check(s.StatsBetween(end.Add(-time.Hour), end.Add(time.Hour)), 0.3*tail, 0.5*tail, 3*time.Minute)
		check(s.StatsBetween(end, end), 0, 0, 0)

		path := "/sim/stats?to=" + end.UTC().Format(time.RFC3339Nano)
		rec, _ := do(s, http.MethodGet, path, "")
		check(decode[Stats](t, rec), 0.3, 0.5, 2*time.Minute)
	})
}

func TestDuplicatesAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 5, TPM: 10_000, Rule: Sliding, Settle: Actual})
		job := func(id string) int { return chat(s, "words=1", `,"max_tokens":100`, "X-Sim-Job", id).Code }
		if got := []int{job("a"), job("b"), job("a"), job("a"), job(""), job("a")}; !slices.Equal(got, []int{200, 200, 200, 200, 200, 429}) {
			t.Errorf("statuses %v", got)
		}
		if st := s.Stats(); st.DuplicateJobs != 2 || st.Accepted != 5 || st.TokensAdmitted != 510 || st.TokensCharged != 5*3 {
			t.Errorf("%+v", st.Counts)
		}

		time.Sleep(time.Minute)
		go job("c") // admitted before the reset, settled after it
		synctest.Wait()
		rec, _ := do(s, http.MethodPost, "/sim/reset", "")
		if rec.Code != http.StatusNoContent {
			t.Errorf("status %d", rec.Code)
		}
		if st := s.Stats(); st.Counts != (Counts{InFlight: 1}) || !st.Pools[0].FirstRequest.IsZero() {
			t.Errorf("after the reset: %+v", st)
		}
		time.Sleep(time.Second)
		if st := s.Stats(); st.Counts != (Counts{}) {
			t.Errorf("a charge from before the reset was counted: %+v", st.Counts)
		}
		// The limits have not forgotten the sixth request.
		statuses := map[int]int{}
		for range 5 {
			statuses[job("a")]++
		}
		if statuses[200] != 4 || statuses[429] != 1 {
			t.Errorf("statuses after the reset: %v", statuses)
		}
		if st := s.Stats(); st.DuplicateJobs != 3 || st.Pools[0].FirstRequest.IsZero() {
			t.Errorf("after the reset: %+v", st)
		}
	})
}

func TestScopes(t *testing.T) {
	models := []Model{{ID: "a"}, {ID: "b", RPM: 2, TPM: 500}}
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{RPM: 3, TPM: 1000, Models: models}, "a:3/6 b:2/6 "},
		{Config{RPM: 3, TPM: 1000, Models: models[:1], Scope: Account}, ":3/6 "},
		{Config{RPM: 3, TPM: 1000, Models: []Model{{ID: "a"}, {ID: "b"}}, Scope: Account}, ":3/12 "},
	} {
		cfg := tc.cfg
		cfg.FirstByte, cfg.OutputPerMinute = -1, -1
		s := mustNew(t, cfg)
		for range 6 {
			for _, m := range cfg.Models {
				do(s, http.MethodPost, "/v1/chat/completions", `{"model":"`+m.ID+`","messages":[{"role":"user","content":"x"}],"max_tokens":1}`)
			}
		}
		got := ""
		for _, p := range s.Stats().Pools {
			got += fmt.Sprintf("%s:%d/%d ", p.Model, p.Accepted, p.Accepted+p.RefusedRequests)
		}
		if got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.cfg, got, tc.want)
		}
	}
}

// TestHistoryIsBounded: it forgets the oldest minutes, and averages over the rest.
func TestHistoryIsBounded(t *testing.T) {
	h := history{slice: time.Minute / slicesPerMinute}
	h.begin(0)
	for i := range 60 * 400 {
		h.add(time.Duration(i)*time.Second, amount{dimRequests: 1, dimTokens: int64(i)})
	}
	end := 400 * time.Minute
	if n := len(h.slices); n > historyMinutes*slicesPerMinute {
		t.Errorf("%d slices", n)
	}
	average, span := h.average(0, end)
	if requests := average[dimRequests]; !near(requests/60, 1) || span < (historyMinutes-2)*time.Minute || span > historyMinutes*time.Minute {
		t.Errorf("%v in a minute over %v", average, span)
	}
	h.add(time.Minute, amount{dimTokens: 1 << 40}) // a correction of what is forgotten
	h.add(24*time.Hour, amount{dimRequests: 7})    // after a long pause
	if average, _ := h.average(0, 24*time.Hour+time.Minute); average[dimRequests] > 7 || average[dimTokens] != 0 {
		t.Errorf("%v after a pause of hours", average)
	}
	var empty history
	if _, span := empty.average(0, end); span != 0 {
		t.Errorf("an empty history covers %v", span)
	}
}
