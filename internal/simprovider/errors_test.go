package simprovider

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// errorOf checks the shape of an error: an object of exactly four keys, as
// OpenAI's schema has it, in JSON, with an id.
func errorOf(t *testing.T, rec *httptest.ResponseRecorder) (message, kind, param, code string) {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	if rec.Header().Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
	body := decode[map[string]map[string]*string](t, rec)
	e := body["error"]
	if len(body) != 1 || len(e) != 4 || e["message"] == nil || *e["message"] == "" || e["type"] == nil {
		t.Fatalf("bad error %s", rec.Body)
	}
	text := func(key string) string {
		s, ok := e[key]
		if !ok {
			t.Fatalf("no %s in %s", key, rec.Body)
		}
		if s == nil {
			return ""
		}
		return *s
	}
	return text("message"), text("type"), text("param"), text("code")
}

func TestErrorShapes(t *testing.T) {
	s := mustNew(t, instant())
	const chatPath, embedPath = "/v1/chat/completions", "/v1/embeddings"
	msg := `"model":"gpt-4o-mini","messages":[{"role":"user","content":"x"}]`
	in := `"model":"text-embedding-3-small","input":"x"`
	tools := `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		param, code              string
	}{
		{"bad JSON", "POST", chatPath, `{"model":`, 400, "", ""},
		{"empty body", "POST", chatPath, ``, 400, "", ""},
		{"two bodies", "POST", chatPath, `{` + msg + `}{}`, 400, "", ""},
		{"not an object", "POST", chatPath, `[]`, 400, "", ""},
		{"null", "POST", chatPath, `null`, 400, "model", "missing_required_parameter"},
		{"no model", "POST", chatPath, `{"messages":[{"role":"user","content":"x"}]}`, 400, "model", "missing_required_parameter"},
		{"model of wrong type", "POST", chatPath, `{"model":7}`, 400, "model", "invalid_type"},
		{"no messages", "POST", chatPath, `{"model":"gpt-4o-mini"}`, 400, "messages", "invalid_value"},
		{"empty messages", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[]}`, 400, "messages", "invalid_value"},
		{"messages of wrong type", "POST", chatPath, `{"model":"gpt-4o-mini","messages":"x"}`, 400, "messages", "invalid_type"},
		{"role", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":"king","content":"x"}]}`, 400, "messages[0].role", "invalid_value"},
		{"role of wrong type", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":1,"content":"x"}]}`, 400, "messages.role", "invalid_type"},
		{"content of wrong type", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":"user","content":7}]}`, 400, "messages[0].content", "invalid_type"},
		{"part of wrong type", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":"user","content":[{"type":"text","text":7}]}]}`, 400, "messages[0].content", "invalid_type"},
		{"part without type", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":"user","content":[{"text":"x"}]}]}`, 400, "messages[0].content", "invalid_type"},
		{"no content", "POST", chatPath, `{"model":"gpt-4o-mini","messages":[{"role":"system","content":"x"},{"role":"user"}]}`, 400, "messages[1].content", "invalid_type"},
		{"temperature", "POST", chatPath, `{` + msg + `,"temperature":99}`, 400, "temperature", "invalid_value"},
		{"temperature below", "POST", chatPath, `{` + msg + `,"temperature":-0.1}`, 400, "temperature", "invalid_value"},
		{"temperature of wrong type", "POST", chatPath, `{` + msg + `,"temperature":"hot"}`, 400, "temperature", "invalid_type"},
		{"streamed temperature", "POST", chatPath, `{` + msg + `,"temperature":99,"stream":true}`, 400, "temperature", "invalid_value"},
		{"top_p", "POST", chatPath, `{` + msg + `,"top_p":1.5}`, 400, "top_p", "invalid_value"},
		{"n", "POST", chatPath, `{` + msg + `,"n":0}`, 400, "n", "invalid_value"},
		{"max_tokens", "POST", chatPath, `{` + msg + `,"max_tokens":0}`, 400, "max_tokens", "invalid_value"},
		{"max_tokens not whole", "POST", chatPath, `{` + msg + `,"max_tokens":1.5}`, 400, "max_tokens", "invalid_type"},
		{"max_tokens beyond all", "POST", chatPath, `{` + msg + `,"max_tokens":9223372036854775807,"n":128}`, 400, "max_tokens", "invalid_value"},
		{"max_completion_tokens", "POST", chatPath, `{` + msg + `,"max_completion_tokens":-1}`, 400, "max_completion_tokens", "invalid_value"},
		{"stream_options", "POST", chatPath, `{` + msg + `,"stream_options":{"include_usage":true}}`, 400, "stream_options", ""},
		{"tools", "POST", chatPath, `{` + msg + `,"tools":[{"type":"function"}]}`, 400, "tools", "invalid_value"},
		{"tool_choice", "POST", chatPath, `{` + msg + `,` + tools + `,"tool_choice":"always"}`, 400, "tool_choice", "invalid_value"},
		{"unknown tool", "POST", chatPath, `{` + msg + `,` + tools + `,"tool_choice":{"type":"function","function":{"name":"g"}}}`, 400, "tool_choice", "invalid_value"},
		{"required without tools", "POST", chatPath, `{` + msg + `,"tool_choice":"required"}`, 400, "tool_choice", "invalid_value"},
		{"unknown model", "POST", chatPath, `{"model":"gpt-0","messages":[{"role":"user","content":"x"}]}`, 404, "", "model_not_found"},
		{"too large a body", "POST", chatPath, strings.Repeat(" ", maxBody+1), 413, "", "request_too_large"},
		{"no input", "POST", embedPath, `{"model":"m"}`, 400, "input", "invalid_value"},
		{"null input", "POST", embedPath, `{"model":"m","input":null}`, 400, "input", "invalid_value"},
		{"no inputs", "POST", embedPath, `{"model":"m","input":[]}`, 400, "input", "invalid_value"},
		{"empty input", "POST", embedPath, `{"model":"m","input":["a",""]}`, 400, "input", "invalid_value"},
		{"input of wrong type", "POST", embedPath, `{"model":"m","input":[true]}`, 400, "input", "invalid_value"},
		{"no embeddings model", "POST", embedPath, `{"input":"x"}`, 400, "model", "missing_required_parameter"},
		{"encoding_format", "POST", embedPath, `{` + in + `,"encoding_format":"hex"}`, 400, "encoding_format", "invalid_value"},
		{"dimensions", "POST", embedPath, `{` + in + `,"dimensions":0}`, 400, "dimensions", "invalid_value"},
		{"unknown embeddings model", "POST", embedPath, `{"model":"m","input":"x"}`, 404, "", "model_not_found"},
		{"unknown model by name", "GET", "/v1/models/gpt-0", ``, 404, "model", "model_not_found"},
		{"unknown route", "GET", "/v1/nope", ``, 404, "", ""},
		{"no prefix", "POST", "/chat/completions", ``, 404, "", ""},
		{"wrong method", "GET", chatPath, ``, 405, "", "method_not_supported"},
		{"wrong method for a model", "DELETE", "/v1/models/gpt-4o-mini", ``, 405, "", "method_not_supported"},
		{"bad from", "GET", "/sim/stats?from=yesterday", ``, 400, "from", "invalid_value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, _ := do(s, tc.method, tc.path, tc.body)
			_, kind, param, code := errorOf(t, rec)
			if rec.Code != tc.status || kind != "invalid_request_error" || param != tc.param || code != tc.code {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if allow := rec.Header().Get("Allow"); (tc.status == 405) != (allow != "") {
				t.Errorf("Allow %q", allow)
			}
		})
	}
	if n := s.Stats().Accepted; n != 0 {
		t.Errorf("%d of the bad requests were charged", n)
	}
}

func TestKey(t *testing.T) {
	cfg := instant()
	cfg.APIKey = "sk-right"
	s := mustNew(t, cfg)
	for _, tc := range []struct {
		header string
		status int
		code   string
	}{
		{"", 401, ""},
		{"Bearer ", 401, ""},
		{"sk-right", 401, ""},
		{"Bearer sk-wrong", 401, "invalid_api_key"},
		{"Bearer sk-right", 200, ""},
	} {
		rec := chat(s, "words=1", "", "Authorization", tc.header)
		if rec.Code != tc.status {
			t.Errorf("%q: status %d", tc.header, rec.Code)
		}
		if tc.status == 401 {
			if _, kind, _, code := errorOf(t, rec); kind != "invalid_request_error" || code != tc.code {
				t.Errorf("%q: %s", tc.header, rec.Body)
			}
		}
	}
	for _, path := range []string{"/v1/models", "/sim/stats"} {
		if rec, _ := do(s, "GET", path, ""); rec.Code != 401 {
			t.Errorf("%s without a key: %d", path, rec.Code)
		}
	}
}

// TestRefusals checks the words and headers of each refusal. The figures are those
// of a 429 published for OpenAI: Limit 30000, Used 28432, Requested 3120 makes
// 3.104 s, and 1568 left make a reset of 56.864 s.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 2, TPM: 30_000, FirstByte: -1, OutputPerMinute: -1})
		check := func(rec *httptest.ResponseRecorder, kind, message string, headers map[string]string) {
			t.Helper()
			m, k, param, code := errorOf(t, rec)
			if rec.Code != 429 || k != kind || param != "" || code != "rate_limit_exceeded" || m != message {
				t.Errorf("%d %s\nwant %s", rec.Code, rec.Body, message)
			}
			headers["Cache-Control"] = "no-store"
			for name, want := range headers {
				if got := rec.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		}
		if rec := chat(s, "", `,"max_tokens":28432`); rec.Code != 200 {
			t.Fatalf("status %d", rec.Code)
		}
		check(chat(s, "", `,"max_tokens":3120`), "tokens",
			"Rate limit reached for gpt-4o-mini in organization org-sim on tokens per min (TPM): Limit 30000, Used 28432, Requested 3120. Please try again in 3.104s.",
			map[string]string{"Retry-After": "4", "Retry-After-Ms": "3104", "X-Should-Retry": "", "X-Ratelimit-Remaining-Tokens": "1568", "X-Ratelimit-Reset-Tokens": "56.864s", "X-Ratelimit-Remaining-Requests": "1"})
		check(chat(s, "", `,"max_tokens":41250`), "tokens",
			"Request too large for gpt-4o-mini in organization org-sim on tokens per min (TPM): Limit 30000, Requested 41250. The input or output tokens must be reduced in order to run successfully.",
			map[string]string{"Retry-After": "", "Retry-After-Ms": "", "X-Should-Retry": "false", "X-Ratelimit-Limit-Tokens": "30000"})
		if rec := chat(s, "", `,"max_tokens":1000`); rec.Code != 200 {
			t.Fatalf("status %d", rec.Code)
		}
		check(chat(s, "", `,"max_tokens":1`), "requests",
			"Rate limit reached for gpt-4o-mini in organization org-sim on requests per min (RPM): Limit 2, Used 2, Requested 1. Please try again in 30s.",
			map[string]string{"Retry-After": "30", "Retry-After-Ms": "30000", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s"})
		// Both are short: it says requests, and the hint is the longer wait.
		check(chat(s, "", `,"max_tokens":30000`), "requests",
			"Rate limit reached for gpt-4o-mini in organization org-sim on requests per min (RPM): Limit 2, Used 2, Requested 1. Please try again in 58.864s.",
			map[string]string{"Retry-After": "59", "Retry-After-Ms": "58864"})

		st := s.Stats()
		want := Counts{Accepted: 2, RefusedRequests: 2, RefusedTokens: 1, RefusedTooLarge: 1, TokensAdmitted: 29_432, TokensCharged: 29_432}
		if st.Counts != want {
			t.Errorf("counts %+v, want %+v", st.Counts, want)
		}
		// The hint is true, and exact.
		time.Sleep(58_863 * time.Millisecond)
		if rec := chat(s, "", `,"max_tokens":30000`); rec.Code != 429 || rec.Header().Get("Retry-After") != "1" || rec.Header().Get("Retry-After-Ms") != "1" {
			t.Errorf("a millisecond early: %d %v", rec.Code, rec.Header())
		}
		time.Sleep(time.Millisecond)
		if rec := chat(s, "", `,"max_tokens":30000`); rec.Code != 200 {
			t.Errorf("after the hint: %s", rec.Body)
		}
	})
}

func TestUnlimitedHasNoHeaders(t *testing.T) {
	h := chat(mustNew(t, Config{RPM: Unlimited, TPM: 100_000, FirstByte: -1}), "words=1", "").Header()
	if h.Get("X-Ratelimit-Limit-Requests")+h.Get("X-Ratelimit-Remaining-Requests")+h.Get("X-Ratelimit-Reset-Requests") != "" || h.Get("X-Ratelimit-Limit-Tokens") != "100000" {
		t.Errorf("headers %v", h)
	}
}
