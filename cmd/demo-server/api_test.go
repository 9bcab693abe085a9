package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Every bad input is a 400 that names the field, in the shape of its endpoint.
func TestBadInput(t *testing.T) {
	s := start(t, "-max-body", "1")
	big := `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}]}`
	chat, embed, jobs := "/v1/chat/completions", "/v1/embeddings", "/v1/jobs"
	for _, tt := range []struct {
		name, method, path, body, header string
		status                           int
		param, code                      string
	}{
		{"bad JSON", "POST", chat, `{"model":`, "", 400, "", ""},
		{"empty", "POST", chat, ``, "", 400, "", ""},
		{"array", "POST", chat, `[]`, "", 400, "", ""},
		{"two values", "POST", chat, hello + hello, "", 400, "", ""},
		{"no model", "POST", chat, `{"messages":[{"role":"user","content":"x"}]}`, "", 400, "model", "missing_required_parameter"},
		{"model of a wrong type", "POST", chat, `{"model":7,"messages":[{"role":"user","content":"x"}]}`, "", 400, "model", "invalid_type"},
		{"unknown model", "POST", chat, strings.Replace(hello, "gpt-4o-mini", "gpt-9", 1), "", 404, "model", "model_not_found"},
		{"no messages", "POST", chat, `{"model":"gpt-4o-mini"}`, "", 400, "messages", "missing_required_parameter"},
		{"a prompt for messages", "POST", chat, `{"model":"gpt-4o-mini","prompt":"x"}`, "", 400, "messages", "missing_required_parameter"},
		{"empty messages", "POST", chat, `{"model":"gpt-4o-mini","messages":[ ]}`, "", 400, "messages", "invalid_value"},
		{"messages of a wrong type", "POST", chat, `{"model":"gpt-4o-mini","messages":"x"}`, "", 400, "messages", "invalid_type"},
		{"stream of a wrong type", "POST", chat, `{"model":"gpt-4o-mini","messages":[1],"stream":"yes"}`, "", 400, "stream", "invalid_type"},
		{"max_tokens of a wrong type", "POST", chat, `{"model":"gpt-4o-mini","messages":[1],"max_tokens":"1"}`, "", 400, "max_tokens", "invalid_type"},
		{"temperature, refused by the provider", "POST", chat, strings.Replace(hello, "{", `{"temperature":99,`, 1), "", 400, "temperature", "invalid_value"},
		{"the same, streamed", "POST", chat, strings.Replace(hello, "{", `{"temperature":99,"stream":true,`, 1), "", 400, "temperature", "invalid_value"},
		{"priority too large", "POST", chat, strings.Replace(hello, "{", `{"priority":10,`, 1), "", 400, "priority", "invalid_value"},
		{"priority as text", "POST", chat, strings.Replace(hello, "{", `{"priority":"1",`, 1), "", 400, "priority", "invalid_value"},
		{"tier", "POST", chat, strings.Replace(hello, "{", `{"tier":"gold",`, 1), "", 400, "tier", "invalid_value"},
		{"tenant", "POST", chat, strings.Replace(hello, "{", `{"tenant":["a"],`, 1), "", 400, "tenant", "invalid_value"},
		{"X-Priority", "POST", chat, hello, "X-Priority: urgent", 400, "X-Priority", "invalid_value"},
		{"X-Tier", "POST", chat, hello, "X-Tier: 1", 400, "X-Tier", "invalid_value"},
		{"X-Tenant", "POST", chat, hello, "X-Tenant: a b", 400, "X-Tenant", "invalid_value"},
		{"too large a body", "POST", chat, big, "", 413, "", "request_too_large"},
		{"too large for the limit", "POST", chat, strings.Replace(hello, `20}`, `6000}`, 1), "", 413, "", "request_too_large"},
		{"embeddings without input", "POST", embed, `{"model":"text-embedding-3-small"}`, "", 400, "input", "missing_required_parameter"},
		{"embeddings with null", "POST", embed, `{"model":"text-embedding-3-small","input":null}`, "", 400, "input", "invalid_type"},
		{"embeddings of an unknown model", "POST", embed, `{"model":"m","input":"x"}`, "", 404, "model", "model_not_found"},
		{"a streamed job", "POST", jobs, strings.Replace(hello, "{", `{"stream":true,`, 1), "", 400, "stream", "invalid_value"},
		{"a job without messages", "POST", jobs, `{"model":"gpt-4o-mini"}`, "", 400, "messages", "missing_required_parameter"},
		{"a job's wrong id", "GET", jobs + "/job_x", ``, "", 404, "id", "job_not_found"},
		{"cancel a wrong id", "DELETE", jobs + "/job_x", ``, "", 404, "id", "job_not_found"},
		{"model not there", "GET", "/v1/models/gpt-9", ``, "", 404, "model", "model_not_found"},
		{"unknown path", "GET", "/v1/nope", ``, "", 404, "", ""},
		{"wrong method", "GET", chat, ``, "", 405, "", "method_not_supported"},

		{"/chat: bad JSON", "POST", "/chat", `{"prompt"`, "", 400, "", ""},
		{"/chat: nothing to say", "POST", "/chat", `{"tier":"paid"}`, "", 400, "prompt", "missing_required_parameter"},
		{"/chat: both", "POST", "/chat", `{"prompt":"a","messages":[]}`, "", 400, "prompt", "invalid_value"},
		{"/chat: empty prompt", "POST", "/chat", `{"prompt":""}`, "", 400, "prompt", "invalid_value"},
		{"/chat: prompt of a wrong type", "POST", "/chat", `{"prompt":{}}`, "", 400, "prompt", "invalid_value"},
		{"/chat: empty messages", "POST", "/chat", `{"messages":[]}`, "", 400, "messages", "invalid_value"},
		{"/chat: tier", "POST", "/chat", `{"prompt":"a","tier":"vip"}`, "", 400, "tier", "invalid_value"},
		{"/chat: max_tokens", "POST", "/chat", `{"prompt":"a","max_tokens":0}`, "", 400, "max_tokens", "invalid_value"},
		{"/chat: a misspelt field", "POST", "/chat", `{"prompt":"a","teir":"paid"}`, "", 400, "teir", "unknown_parameter"},
		{"/chat: model", "POST", "/chat", `{"prompt":"a","model":"gpt-9"}`, "", 404, "model", "model_not_found"},
		{"/chat: refused by the provider", "POST", "/chat", `{"messages":[{"role":"nobody","content":"x"}]}`, "", 400, "messages[0].role", "invalid_value"},
		{"/chat: wrong method", "GET", "/chat", ``, "", 405, "", "method_not_supported"},
		{"unknown path elsewhere", "POST", "/nope", ``, "", 404, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				headers = []string{name, value}
			}
			a := s.send(tt.method, tt.path, tt.body, headers...)
			if a.err != nil {
				t.Fatal(a.err)
			}
			if a.StatusCode != tt.status || !strings.HasPrefix(a.Header.Get("X-Request-Id"), "req_") {
				t.Errorf("status %d, want %d; %v %s", a.StatusCode, tt.status, a.Header, a.body)
			}
			if strings.HasPrefix(tt.path, "/v1/") {
				if e := errorOf(t, a); e.Param != tt.param || e.Code != tt.code {
					t.Errorf("param %q, code %q, want %q, %q: %s", e.Param, e.Code, tt.param, tt.code, e.Message)
				}
				return
			}
			var p struct {
				Status                     int
				Title, Detail, Code, Param string
			}
			if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("not a problem: %v %s", a.Header, a.body)
			}
			if p.Status != tt.status || p.Title != http.StatusText(tt.status) || p.Detail == "" || p.Param != tt.param || p.Code != tt.code {
				t.Errorf("%s", a.body)
			}
		})
	}
	// A request that failed took nothing and left nothing: BerriAI/litellm#1477.
	s.idle()
	if a := s.send("POST", chat, hello); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	s.holdsNothing()
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct{ method, path, body, contentType, want string }{
		{"POST", "/chat", `{"prompt":"echo: grüezi","tier":"paid","max_tokens":50}`, "application/json", `{"reply":"grüezi"}`},
		{"POST", "/chat", `{"messages":[{"role":"user","content":"echo: a"}]}`, "application/json", `{"reply":"a"}`},
		{"POST", "/v1/chat/completions", hello, "application/json", `"object":"chat.completion"`},
		{"POST", "/v1/embeddings", `{"model":"text-embedding-3-small","input":["a","b"],"encoding_format":"base64"}`, "application/json", `"index":1,"embedding":"`},
		{"GET", "/v1/models", ``, "application/json", `{"object":"list","data":[{"id":"gpt-4o-mini","object":"model","created":`},
		{"GET", "/v1/models/text-embedding-3-small", ``, "application/json", `{"id":"text-embedding-3-small","object":"model"`},
		{"GET", "/healthz", ``, "text/plain; charset=utf-8", "ok"},
		{"GET", "/livez", ``, "text/plain; charset=utf-8", "ok"},
		{"GET", "/readyz", ``, "text/plain; charset=utf-8", "ready"},
		{"GET", "/", ``, "text/plain; charset=utf-8", "curl"},
		{"GET", "/metrics", ``, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "\npaceline_inflight_requests 0\n"},
	} {
		a := s.send(tt.method, tt.path, tt.body)
		if a.err != nil || a.StatusCode != 200 || a.Header.Get("Content-Type") != tt.contentType || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s %s: %v\n%s", tt.method, tt.path, a.Response, a.body)
		}
	}
	for name, want := range map[string]string{
		`llm_bucket_remaining{limit="tpm model=\"gpt-4o-mini\"",tenant=""}`:       "",
		`llm_bucket_remaining{limit="tenant-tpm",tenant="anonymous"}`:             "",
		`paceline_http_responses_total{path="/v1/chat/completions",status="200"}`: "1",
		`paceline_requests_total{class="paid",outcome="ok"}`:                      "1",
		`llm_queue_wait_seconds_count{class="free",tenant="anonymous"}`:           "3",
		`llm_estimate_drift_tokens_count`:                                         "4",
	} {
		if got := s.metric(name); got == "" || want != "" && got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}
