package transport_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

func shed(r dispatcher.Reason, own bool, wait time.Duration) error {
	return fmt.Errorf("wrapped: %w", &dispatcher.ShedError{Reason: r, Own: own, RetryAfter: wait, Limit: "tenant billing"})
}

func tokens(charge, most int64) error {
	return &dispatcher.TooLargeError{Limit: &ledger.Limit{Key: "t", Unit: ledger.Tokens, Amount: most}, Charge: charge}
}

// The reasons and what callers are told. That a 429 always has a Retry-After is
// BerriAI/litellm#4695 and #27823.
func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		status  int
		typ     string
		code    string
		param   string
		noRetry bool
	}{
		{"queue full", shed(dispatcher.QueueFull, false, time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"tenant's queue full", shed(dispatcher.TenantQueueFull, true, time.Second), 429, "requests", "rate_limit_exceeded", "", false},
		{"background", shed(dispatcher.Background, false, time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"evicted", shed(dispatcher.Evicted, false, time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"hopeless", shed(dispatcher.Hopeless, false, 40*time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"hopeless on its own limit", shed(dispatcher.Hopeless, true, 40*time.Second), 429, "tokens", "rate_limit_exceeded", "", false},
		{"a wait that no header can tell", shed(dispatcher.QueueFull, false, time.Hour), 503, "service_unavailable_error", "server_is_overloaded", "", true},
		{"expired", shed(dispatcher.Expired, false, 30*time.Second), 503, "service_unavailable_error", "queue_timeout", "", true},
		{"expired on its own limit", shed(dispatcher.Expired, true, 30*time.Second), 429, "tokens", "rate_limit_exceeded", "", true},
		{"closing", shed(dispatcher.Closing, false, time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"a reason from the future", shed(200, false, time.Second), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"no wait known", shed(dispatcher.QueueFull, false, 0), 503, "service_unavailable_error", "server_is_overloaded", "", false},
		{"too large", tokens(5001, 5000), 413, "invalid_request_error", "request_too_large", "", true},
		{"unknown model", fmt.Errorf("%w %q", provider.ErrUnknownModel, "gpt-9"), 404, "invalid_request_error", "model_not_found", "model", false},
		{"missing", &estimator.RequestError{Param: "messages", Err: estimator.ErrMissing}, 400, "invalid_request_error", "missing_required_parameter", "messages", false},
		{"wrong type", &estimator.RequestError{Param: "n", Err: errors.New("want number, got string")}, 400, "invalid_request_error", "invalid_type", "n", false},
		{"not JSON", &estimator.RequestError{Err: errors.New("unexpected end of JSON input")}, 400, "invalid_request_error", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := transport.Refusal(tt.err)
			if e == nil {
				t.Fatal("not a refusal")
			}
			w := httptest.NewRecorder()
			e.WriteOpenAI(w)
			var body struct {
				Error map[string]any `json:"error"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"type": tt.typ, "code": null(tt.code), "param": null(tt.param)}
			for k, v := range want {
				if got, ok := body.Error[k]; !ok || got != v {
					t.Errorf("%s = %v, want %v", k, got, v)
				}
			}
			if len(body.Error) != 4 || body.Error["message"] == "" {
				t.Errorf("error object %v", body.Error)
			}
			if w.Code != tt.status || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("status %d, %v", w.Code, w.Header())
			}
			if got := w.Header().Get("X-Should-Retry") == "false"; got != tt.noRetry {
				t.Errorf("x-should-retry: false is %v, want %v", got, tt.noRetry)
			}
			checkRetryAfter(t, w.Result())
			checkWords(t, body.Error["message"].(string))
		})
	}
	for _, err := range []error{nil, errors.New("anything"), dispatcher.ErrSpec, &dispatcher.PanicError{}} {
		if e := transport.Refusal(err); e != nil {
			t.Errorf("%v is not a refusal, but gives %v", err, e)
		}
	}
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func checkRetryAfter(t *testing.T, r *http.Response) {
	t.Helper()
	text := r.Header.Get("Retry-After")
	if r.StatusCode != 429 && r.StatusCode != 503 {
		if text != "" {
			t.Errorf("a %d says Retry-After: %s", r.StatusCode, text)
		}
		return
	}
	s, err := strconv.Atoi(text)
	ms, err2 := strconv.Atoi(r.Header.Get("Retry-After-Ms"))
	if err != nil || err2 != nil || s < 1 || s > 59 || ms > 1000*s || ms <= 1000*(s-1) {
		t.Errorf("Retry-After %q, retry-after-ms %q", text, r.Header.Get("Retry-After-Ms"))
	}
	if r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", r.Header.Get("Cache-Control"))
	}
}

// stopWords is what makes LangChain never retry an error (@langchain/core 1.4.0,
// async_caller.js).
var stopWords = regexp.MustCompile(`(?i)insufficient[_ -]?quota|exceeded (your|the current|the available).+quota|usage quota|quota (has been )?exhausted|billing|credit balance|out of credits|will reset at`)

// checkWords also keeps out the digits by which langchaingo 0.1.14 sorts errors.
func checkWords(t *testing.T, message string) {
	t.Helper()
	if m := stopWords.FindString(message); m != "" {
		t.Errorf("%q holds %q", message, m)
	}
	for _, digits := range []string{"400", "429", "503"} {
		if strings.Contains(message, digits) {
			t.Errorf("%q holds %s", message, digits)
		}
	}
}

func TestTooLargeNeverLooksLikeAnotherStatus(t *testing.T) {
	for _, n := range []int64{429, 4290, 14_290, 400, 5030, 1_503_000} {
		checkWords(t, transport.Refusal(tokens(n, n-1)).Message)
	}
	if m := transport.Refusal(tokens(6000, 5000)).Message; !strings.Contains(m, "6000") || !strings.Contains(m, "5000") {
		t.Errorf("%q does not say how much", m)
	}
}

// Callers that were shed in the same instant must not come back in the same
// instant: NousResearch/hermes-agent#109234.
func TestHintsSpread(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 1500 * time.Millisecond, 4 * time.Second, 10 * time.Second, 30 * time.Second, 45 * time.Second} {
		e := transport.Refusal(shed(dispatcher.QueueFull, false, wait))
		for _, header := range []string{"Retry-After-Ms", "Retry-After"} {
			unit := time.Millisecond
			if header == "Retry-After" {
				unit = time.Second
			}
			least, most := time.Hour, time.Duration(0)
			seen := make(map[time.Duration]bool)
			for range 1000 {
				w := httptest.NewRecorder()
				e.WriteOpenAI(w)
				n, err := strconv.Atoi(w.Header().Get(header))
				if err != nil {
					t.Fatal(err)
				}
				d := time.Duration(n) * unit
				least, most = min(least, d), max(most, d)
				seen[d] = true
			}
			if least < wait {
				t.Errorf("%s tells %v, and the true wait is %v", header, least, wait)
			}
			if spread := most - least; spread < wait/5 || most > 59*time.Second {
				t.Errorf("%s for %v is from %v to %v", header, wait, least, most)
			}
			if header == "Retry-After-Ms" && len(seen) < 300 {
				t.Errorf("only %d different hints for %v", len(seen), wait)
			}
		}
	}
}

// Hints around the longest that can be told: one that is too long is told in
// words, because openai-node retries after half a second when it reads 61.
func TestLongWaits(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		long bool
	}{
		{58 * time.Second, false}, {59 * time.Second, false}, {59*time.Second + 1, true}, {2*time.Minute + 30*time.Second, true}, {24 * time.Hour, true},
	} {
		e := transport.Refusal(shed(dispatcher.QueueFull, false, tt.wait))
		for range 100 {
			w := httptest.NewRecorder()
			e.WriteOpenAI(w)
			checkRetryAfter(t, w.Result())
			if got := w.Header().Get("X-Should-Retry") == "false"; got != tt.long {
				t.Fatalf("%v: x-should-retry: false is %v", tt.wait, got)
			}
			if s, _ := strconv.Atoi(w.Header().Get("Retry-After")); s < 49 {
				t.Fatalf("%v: Retry-After %d", tt.wait, s)
			}
			if got := strings.Contains(w.Body.String(), "The wait is about"); got != tt.long {
				t.Fatalf("%v: %s", tt.wait, w.Body)
			}
		}
	}
	if e := transport.Refusal(shed(dispatcher.QueueFull, false, 150*time.Second)); !strings.Contains(string(e.Event()), "2m30s") {
		t.Errorf("%s does not say the wait", e.Event())
	}
}

func TestClosingClosesTheConnection(t *testing.T) {
	w := httptest.NewRecorder()
	transport.Refusal(shed(dispatcher.Closing, false, time.Second)).WriteOpenAI(w)
	if w.Header().Get("Connection") != "close" {
		t.Errorf("%v", w.Header())
	}
}
