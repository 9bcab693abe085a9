package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	s := start(t, "-faults")
	for _, tt := range []struct {
		name, fault string
		status      int
		header      map[string]string
	}{
		{"status", "status=503;retry_after=1;id=a", 503, map[string]string{"Retry-After": "1", "X-Should-Retry": "", "Retry-After-Ms": ""}},
		{"the same id again", "status=503;retry_after=1;id=a", 200, nil},
		{"all headers", "status=429;retry_after=2;retry_after_ms=150;should_retry=false;times=2;id=b", 429,
			map[string]string{"Retry-After": "2", "Retry-After-Ms": "150", "X-Should-Retry": "false"}},
		{"twice", "status=429;times=2;id=b", 429, map[string]string{"Retry-After": ""}},
		{"and no more", "status=429;times=2;id=b", 200, nil},
		{"without an id, always", "status=418", 418, nil},
		{"not a status", "status=200", 400, nil},
		{"not a number", "status=x", 400, nil},
		{"unknown, which the simulator refuses", "colour=red", 400, nil},
	} {
		a := s.send("POST", "/v1/chat/completions", hello, "X-Sim-Fault", tt.fault)
		if a.StatusCode != tt.status {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
		if tt.status != 200 {
			errorOf(t, a)
		}
		for name, want := range tt.header {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.name, name, got, want)
			}
		}
	}
	if a := s.send("POST", "/v1/chat/completions", hello, "X-Sim-Fault", "status=503;retry_after=date"); !strings.HasSuffix(a.Header.Get("Retry-After"), "GMT") {
		t.Errorf("%v", a.Header)
	}
	if a := s.send("POST", "/v1/chat/completions", streamed, "X-Sim-Fault", "status=503;times=0;keepalive=2;stream_error_after=1"); a.err == nil || strings.Count(a.body, ": keep-alive") != 2 {
		t.Errorf("the simulator's part: %v %s", a.err, a.body)
	}
	if a := s.send("POST", "/chat", `{"prompt":"x"}`, "X-Sim-Fault", "status=503"); a.StatusCode != 503 || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}

// Without the flag the header does nothing and goes nowhere.
func TestFaultsAreOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	if a := s.send("POST", "/v1/chat/completions", hello, "X-Sim-Fault", "status=503"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	h := forwarded(http.Header{"X-Sim-Fault": {"status=503"}})
	if h.Get("X-Sim-Fault") != "" {
		t.Errorf("%v", h)
	}
}

func TestFaultIDsAreBounded(t *testing.T) {
	f := &faults{struck: make(map[string]int)}
	for i := range 3 * maxFaultIDs {
		f.due(strings.Repeat("x", i%7)+string(rune(i)), 1)
	}
	if len(f.struck) > maxFaultIDs {
		t.Errorf("%d ids are kept", len(f.struck))
	}
}
