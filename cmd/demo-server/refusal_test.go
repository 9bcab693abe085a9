package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a provider answers, how often it is asked, and what callers are told: from
// the code they can tell whose limit it was (tensorzero/tensorzero#3678).
func TestProviderRefusals(t *testing.T) {
	t.Parallel()
	openAI := func(message, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"t","param":null,"code":%q}}`, message, code)
	}
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		headers  string
		attempts int
		want     int
		code     string
		noRetry  bool
	}{
		{"never", 429, openAI("Request too large", "rate_limit_exceeded"), "X-Should-Retry: false", 1, 413, "upstream_too_large", true},
		{"no money left", 429, openAI("You exceeded your current quota", "insufficient_quota"), "", 1, 502, "upstream_account", true},
		{"overloaded", 503, "<html>", "Retry-After-Ms: 5", 3, 503, "upstream_overloaded", false},
		{"overloaded otherwise", 529, "", "Retry-After-Ms: 5", 3, 503, "upstream_overloaded", false},
		{"error", 500, openAI("oops", ""), "Retry-After-Ms: 5", 3, 502, "upstream_error", false},
		{"gateway timeout", 504, "", "Retry-After-Ms: 5", 3, 504, "upstream_timeout", false},
		{"our key", 401, openAI("Incorrect API key provided: sk-upstream", "invalid_api_key"), "", 1, 502, "upstream_key", true},
		{"our account", 403, openAI("Country not supported", ""), "", 1, 502, "upstream_key", true},
		{"the caller's mistake", 400, openAI("Bad temperature", "invalid_value"), "", 1, 400, "invalid_value", false},
		{"the caller's mistake, as text", 422, "no", "", 1, 422, "upstream_refused", false},
		{"elsewhere", 302, "", "Location: https://example.com", 1, 502, "upstream_error", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &recording{answer: func(w http.ResponseWriter, _ int) {
				if name, value, ok := strings.Cut(tt.headers, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}}
			s := startOver(t, p.ServeHTTP, func(*app) {})
			for _, stream := range []string{"false", "true"} {
				before := p.count()
				a := s.send("POST", "/v1/chat/completions", strings.Replace(hello, "{", `{"stream":`+stream+`,`, 1), "Authorization", paidKey)
				e := errorOf(t, a)
				if a.StatusCode != tt.want || e.Code != tt.code {
					t.Errorf("%d %s, want %d and %s", a.StatusCode, a.body, tt.want, tt.code)
				}
				if n := p.count() - before; n != tt.attempts {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				}
				if got := a.Header.Get("X-Should-Retry") == "false"; got != tt.noRetry {
					t.Errorf("x-should-retry: false is %v, want %v", got, tt.noRetry)
				}
				if after, err := strconv.Atoi(a.Header.Get("Retry-After")); a.StatusCode == 503 && (err != nil || after < 1 || after > 59) {
					t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
				}
				if a.StatusCode < 500 && !strings.HasPrefix(tt.code, "upstream_") && a.body != tt.body {
					t.Errorf("the provider's own words became %s", a.body)
				}
				if strings.Contains(a.body, "sk-upstream") {
					t.Errorf("the answer has our key: %s", a.body)
				}
			}
			// Refused calls cost no tokens, and stay counted as requests.
			s.idle()
			if n := s.used("acme"); n != 0 {
				t.Errorf("%d tokens are used", n)
			}
			if got := s.metric(fmt.Sprintf(`paceline_provider_refusals_total{status="%d"}`, tt.status)); got != strconv.Itoa(2*tt.attempts) {
				t.Errorf("%s refusals were counted", got)
			}
		})
	}
}

// A rate limit closes for everybody. Who can not wait for it hears so at once, whether the
// provider said it or we know it.
func TestProviderRateLimit(t *testing.T) {
	t.Parallel()
	p := &recording{answer: func(w http.ResponseWriter, _ int) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`)
	}}
	s := startOver(t, p.ServeHTTP, func(*app) {})
	for _, code := range []string{"upstream_rate_limited", "server_is_overloaded"} {
		a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey)
		e := errorOf(t, a)
		if a.StatusCode != http.StatusServiceUnavailable || e.Code != code || a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %s, want %s", a.StatusCode, a.body, code)
		}
	}
	if n := p.count(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A refusal that passes is not seen by the caller.
func TestProviderRecovers(t *testing.T) {
	p := &recording{answer: func(w http.ResponseWriter, n int) {
		if n < 3 {
			w.Header().Set("Retry-After-Ms", "20")
			w.WriteHeader(429)
			return
		}
		writeJSON(w, 200, []byte(`{"choices":[]}`))
	}}
	s := startOver(t, p.ServeHTTP, func(*app) {})
	start := time.Now()
	if a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey); a.StatusCode != 200 || p.count() != 3 {
		t.Errorf("%d after %d attempts", a.StatusCode, p.count())
	}
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("asked again after %v, less than the hints", took)
	}
}

// A provider that can not be reached, and answers that are none.
func TestProviderIsBroken(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	for _, tt := range []struct {
		name     string
		provider http.HandlerFunc
		status   int
		code     string
	}{
		{"breaks off before the head", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "upstream_error"},
		{"breaks off within the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			io.WriteString(w, "{")
		}, 502, "upstream_error"},
		{"says nothing", func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		}, 504, "upstream_timeout"},
		{"is not JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, 502, "upstream_error"},
		{"success with an error inside", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 200, []byte(`{"error":{"message":"upstream is out of memory"}}`))
		}, 502, "upstream_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startOver(t, tt.provider, func(a *app) { a.upstreams[0].timeout = 300 * time.Millisecond })
			for _, stream := range []string{"false", "true"} {
				a := s.send("POST", "/v1/chat/completions", strings.Replace(hello, "{", `{"stream":`+stream+`,`, 1), "Authorization", paidKey)
				if e := errorOf(t, a); a.StatusCode != tt.status || e.Code != tt.code {
					t.Errorf("stream %s: %d %s", stream, a.StatusCode, a.body)
				}
			}
			// Nobody knows whether the provider counted it: the estimate stands.
			s.idle()
			if n := s.used("acme"); n < 2*20 {
				t.Errorf("%d tokens are used after two calls of at least 20", n)
			}
		})
	}
	close(silent)
}

// A call that never left costs nothing, not even a request.
func TestProviderIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	s := startWith(t, func(*app) {}, map[string]string{"OPENAI_API_KEY": "k"}, "-upstream", url, "-keys", keyFile(t, testKeys))
	a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey)
	if e := errorOf(t, a); a.StatusCode != 502 || e.Code != "upstream_unreachable" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if n := s.used("acme"); n != 0 {
		t.Errorf("%d tokens are used", n)
	}
	if got := s.metric(`llm_bucket_remaining{limit="rpm model=\"gpt-4o-mini\"",tenant=""}`); got != "20" { // the burst, 4 % of 500
		t.Errorf("%s requests are left", got)
	}
}
