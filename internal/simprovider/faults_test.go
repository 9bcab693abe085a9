package simprovider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func faulty() Config {
	return Config{RPM: Unlimited, TPM: Unlimited, Faults: true}
}

func TestStatusFaults(t *testing.T) {
	s := mustNew(t, faulty())
	for _, tc := range []struct {
		fault      string
		status     int
		kind, code string
		headers    map[string]string
	}{
		{"status=429;retry_after=1;times=1;id=a", 429, "requests", "rate_limit_exceeded", map[string]string{"Retry-After": "1", "Cache-Control": "no-store"}},
		{"status=503; retry_after=2; retry_after_ms=150; should_retry=false; id=b", 503, "service_unavailable_error", "server_is_overloaded",
			map[string]string{"Retry-After": "2", "Retry-After-Ms": "150", "X-Should-Retry": "false", "Cache-Control": "no-store"}},
		{"status=500;id=c", 500, "server_error", "", map[string]string{"Retry-After": ""}},
		{"status=408;id=d", 408, "invalid_request_error", "", nil},
		{"status=429", 429, "requests", "rate_limit_exceeded", map[string]string{"Retry-After": ""}},
	} {
		rec := chat(s, "x", "", "X-Sim-Fault", tc.fault)
		if _, kind, _, code := errorOf(t, rec); rec.Code != tc.status || kind != tc.kind || code != tc.code {
			t.Errorf("%s: %d %s", tc.fault, rec.Code, rec.Body)
		}
		for name, want := range tc.headers {
			if got := rec.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tc.fault, name, got, want)
			}
		}
	}
	rec := chat(s, "x", "", "X-Sim-Fault", "status=503;retry_after=date")
	if at, err := http.ParseTime(rec.Header().Get("Retry-After")); err != nil || time.Until(at) > 2*time.Second || time.Until(at) < 0 {
		t.Errorf("Retry-After %q: %v", rec.Header().Get("Retry-After"), err)
	}
	if n := s.Stats().Accepted; n != 0 {
		t.Errorf("%d faults were charged", n)
	}
}

func TestFaultTimes(t *testing.T) {
	cfg := instant()
	cfg.Faults = true
	s := mustNew(t, cfg)
	statuses := func(fault string, n int) (got []int) {
		for range n {
			got = append(got, chat(s, "words=1", "", "X-Sim-Fault", fault).Code)
		}
		return got
	}
	for fault, want := range map[string][]int{
		"status=503;times=2;id=a": {503, 503, 200, 200},
		"status=503;id=b":         {503, 200},
		"status=503;times=0;id=c": {200},
		"status=503":              {503, 503, 503},
		"":                        {200},
	} {
		if got := statuses(fault, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", fault, got, want)
		}
	}
	for _, bad := range []string{"status=200", "status=x", "times=-1", "keepalive=99999", "delay_ms=-1", "stream_error_after=", "nonsense", "x=1", "=1", "id=" + strings.Repeat("x", 129)} {
		rec := chat(s, "x", "", "X-Sim-Fault", bad)
		if _, _, param, _ := errorOf(t, rec); rec.Code != 400 || param != "X-Sim-Fault" {
			t.Errorf("%q: %d %s", bad, rec.Code, rec.Body)
		}
	}
	for _, bad := range []string{"0", "-1", "1.5", "1000001", "x"} {
		rec := chat(s, "x", "", "X-Sim-Output-Tokens", bad)
		if _, _, param, _ := errorOf(t, rec); rec.Code != 400 || param != "X-Sim-Output-Tokens" {
			t.Errorf("%q: %d %s", bad, rec.Code, rec.Body)
		}
	}
	if got := mustNew(t, instant()); chat(got, "words=1", "", "X-Sim-Fault", "status=503").Code != 200 {
		t.Error("a fault was obeyed although Faults is not set")
	}
}

func TestStreamFaults(t *testing.T) {
	const failure = `data: {"error":{"message":"upstream closed the connection","type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"
	for _, tc := range []struct {
		fault, text string
		chunks      int // of content
		broken      bool
		took        time.Duration
		comments    int
	}{
		{"keepalive=3", "words=5", 1, false, 700 * time.Millisecond, 3},
		{"delay_ms=1500", "words=5", 1, false, 2200 * time.Millisecond, 0},
		// The fourth chunk would have come after 1 s; then 100 ms pass.
		{"stream_error_after=3;keepalive=2", "words=200", 3, true, 1100 * time.Millisecond, 2},
		{"stream_error_after=0", "words=200", 0, true, 800 * time.Millisecond, 0},
		// A stream that is too short for it fails at its end.
		{"stream_error_after=9", "words=5", 1, true, 800 * time.Millisecond, 0},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mustNew(t, faulty())
				begin := time.Now()
				rec, broken := do(s, http.MethodPost, "/v1/chat/completions", chatJSON(tc.text, `,"stream":true`), "X-Sim-Fault", tc.fault)
				body := rec.Body.String()
				if took := time.Since(begin); broken != tc.broken || took != tc.took {
					t.Errorf("broken %v after %v, want %v after %v", broken, took, tc.broken, tc.took)
				}
				if n := strings.Count(body, `"delta":{"content"`); n != tc.chunks {
					t.Errorf("%d chunks of content, want %d", n, tc.chunks)
				}
				if !strings.HasPrefix(body, strings.Repeat(": keep-alive\n\n", tc.comments)+"data: ") {
					t.Errorf("not %d comments first: %q", tc.comments, body)
				}
				if tc.broken != strings.HasSuffix(body, failure) || tc.broken == strings.Contains(body, "[DONE]") || tc.broken == strings.Contains(body, `"finish_reason":"stop"`) {
					t.Errorf("it ends with %q", body[max(0, len(body)-200):])
				}
			})
		})
	}
}
