package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	aMessage  = `{"model":"gpt-4o-mini","max_tokens":20,"messages":[{"role":"user","content":"echo: hi"}]}`
	aResponse = `{"model":"gpt-4o-mini","max_output_tokens":20,"input":"echo: hi"}`
)

// anthropicErrorOf reads an error in Anthropic's shape, and fails the test on any other.
func anthropicErrorOf(t *testing.T, a answer) (typ, code, message string) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	var v struct {
		Type  string
		Error struct {
			Type, Message string
			Details       struct {
				Code string `json:"error_code"`
			}
		}
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d: not Anthropic's shape: %s", a.StatusCode, a.body)
	}
	if v.Type != "error" || v.Error.Type == "" || v.Error.Message == "" || !strings.HasPrefix(a.Header.Get("Request-Id"), "req_") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	return v.Error.Type, v.Error.Details.Code, v.Error.Message
}

// The built-in provider answers both APIs, whole and streamed, and what they used is
// settled.
func TestOtherAPIs(t *testing.T) {
	s := start(t)
	for _, tt := range []struct{ path, body, whole, first, last string }{
		{"/v1/messages", aMessage, `"text":"hi"`, "event: message_start\ndata: {", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		{"/v1/responses", aResponse, `"text":"hi"`, "event: response.created\ndata: {", `"total_tokens":`},
	} {
		a := s.send("POST", tt.path, tt.body, "X-Tenant", "acme")
		if a.StatusCode != 200 || !strings.Contains(a.body, tt.whole) || a.Header.Get("Content-Type") != "application/json" || a.Header.Get(waitHeader) == "" {
			t.Errorf("%s: %v %s", tt.path, a.Response, a.body)
		}
		a = s.send("POST", tt.path, strings.Replace(tt.body, "{", `{"stream":true,`, 1), "X-Tenant", "acme")
		if a.err != nil || a.StatusCode != 200 || !strings.HasPrefix(a.body, tt.first) || !strings.Contains(a.body, tt.last) ||
			a.Header.Get("Content-Type") != "text/event-stream" || strings.Contains(a.body, "[DONE]") {
			t.Errorf("%s: %v %v %s", tt.path, a.err, a.Response, a.body)
		}
	}
	s.idle()
	if n := s.used("acme"); n < 4*2 || n >= 4*20 {
		t.Errorf("%d tokens are used after four short answers", n)
	}
	s.holdsNothing()
}

// What callers send reaches the provider byte for byte without what is ours, and what
// it answers comes back likewise.
func TestOtherAPIsPassThrough(t *testing.T) {
	const (
		message  = `{ "id":"m", "type":"message","error":null,"content":[{"x":1.50}],"usage":{"input_tokens":300,"cache_read_input_tokens":100,"output_tokens":2} , "new":"\u00fc"}`
		response = `{"id":"r","status":"completed","error":null , "output":[],"usage":{"input_tokens":500,"output_tokens":3},"new":1e0}`
		// One that failed has its error inside.
		failure  = `{"id":"r","status":"failed","error":{"code":"server_error","message":"no"},"usage":{"input_tokens":100,"output_tokens":0}}`
		messages = messageStart + messagePing + messageText + messageDelta + messageStop
	)
	var answer string
	p := &recording{answer: func(w http.ResponseWriter, _ int) {
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "17")
		w.Header().Set("Anthropic-Ratelimit-Tokens-Remaining", "17")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(answer, "event") {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		io.WriteString(w, answer)
	}}
	s := startOver(t, p.ServeHTTP, func(*app) {})
	var input int64
	for _, tt := range []struct {
		path, sent, want, answer string
		input                    int64
	}{
		{"/v1/messages", `{"model":"gpt-4o-mini", "tier":"paid", "max_tokens":20,"messages":[{"role":"user","content":"x","tier":1}],"thinking":{"budget":1.0}, "service_tier":"auto"}`,
			`{"model":"gpt-4o-mini", "max_tokens":20,"messages":[{"role":"user","content":"x","tier":1}],"thinking":{"budget":1.0}, "service_tier":"auto"}`,
			message, 400},
		{"/v1/messages", `{"model":"gpt-4o-mini","max_tokens":20,"messages":[1],"stream":true}`, "", messages, 9},
		{"/v1/responses", `{"model":"gpt-4o-mini","input":[{"role":"user","content":"x"}],"store":false,"priority":1,"include":["a"],"seed":12345678901234567890}`,
			`{"model":"gpt-4o-mini","input":[{"role":"user","content":"x"}],"store":false,"include":["a"],"seed":12345678901234567890}`, response, 500},
		{"/v1/responses", `{"model":"gpt-4o-mini","input":"x"}`, "", failure, 100},
		{"/v1/responses", `{"model":"gpt-4o-mini","prompt":{"id":"pmpt_1"}}`, "", response, 500},
		{"/v1/responses", `{"model":"gpt-4o-mini","input":"x","stream":true,"stream_options":{"include_obfuscation":false}}`, "", responseDelta + responseDone, 7},
	} {
		answer = tt.answer
		a := s.send("POST", tt.path, tt.sent, "Authorization", paidKey, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "x", "X-Api-Key", "k", "Api-Key", "k")
		want := cmp.Or(tt.want, tt.sent)
		if a.err != nil || a.StatusCode != 200 || a.body != tt.answer {
			t.Errorf("%v %s\nwant %s", a.err, a.body, tt.answer)
		}
		if a.Header.Get("Anthropic-Ratelimit-Tokens-Remaining") != "" || a.Header.Get("X-Ratelimit-Remaining-Tokens") == "17" {
			t.Errorf("the provider's own headers came back: %v", a.Header)
		}
		body, path, h := p.last()
		if body != want || path != tt.path {
			t.Errorf("%s got %s\nwant %s", path, body, want)
		}
		if h.Get("Authorization") != "Bearer sk-upstream" || h.Get("X-Api-Key")+h.Get("Api-Key") != "" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Anthropic-Beta") != "x" {
			t.Errorf("headers %v", h)
		}
		s.idle()
		before := input
		input = int64(metricOf(t, s, `paceline_tokens_total{direction="input"}`))
		if input-before != tt.input {
			t.Errorf("%s: %d tokens of input are settled, want %d", tt.sent, input-before, tt.input)
		}
	}
}

// Every error of /v1/messages is in the shape of its clients.
func TestMessagesErrors(t *testing.T) {
	s := start(t, "-faults", "-max-body", "1", "-tenant", "small=60", "-max-wait", "1s")
	with := func(field string) string { return strings.Replace(aMessage, "{", "{"+field+",", 1) }
	for _, tt := range []struct {
		name, method, body, header string
		status                     int
		typ, code                  string
	}{
		{"bad JSON", "POST", `{"model":`, "", 400, "invalid_request_error", ""},
		{"no messages", "POST", `{"model":"gpt-4o-mini","max_tokens":5}`, "", 400, "invalid_request_error", "missing_required_parameter"},
		{"a prompt for messages", "POST", `{"model":"gpt-4o-mini","prompt":"x"}`, "", 400, "invalid_request_error", "missing_required_parameter"},
		{"no model", "POST", `{"messages":[1]}`, "", 400, "invalid_request_error", "missing_required_parameter"},
		{"unknown model", "POST", strings.Replace(aMessage, "gpt-4o-mini", "claude-9", 1), "", 404, "not_found_error", "model_not_found"},
		{"tier", "POST", with(`"tier":"gold"`), "", 400, "invalid_request_error", "invalid_value"},
		{"refused by the provider", "POST", strings.Replace(aMessage, "20", "0", 1), "", 400, "invalid_request_error", ""},
		{"the same, streamed", "POST", strings.Replace(with(`"stream":true`), "20", "0", 1), "", 400, "invalid_request_error", ""},
		{"too large a body", "POST", strings.Replace(aMessage, "hi", strings.Repeat("x", 1<<20), 1), "", 413, "request_too_large", "request_too_large"},
		{"too large for the limit", "POST", strings.Replace(aMessage, "20", "6000", 1), "", 413, "request_too_large", "request_too_large"},
		{"wrong method", "GET", "", "", 405, "invalid_request_error", "method_not_supported"},
		{"a fault", "POST", aMessage, "X-Sim-Fault: status=429;retry_after=7", 429, "rate_limit_error", "rate_limit_exceeded"},
		{"another", "POST", aMessage, "X-Sim-Fault: status=529;retry_after=7", 529, "overloaded_error", "server_is_overloaded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				headers = []string{name, value}
			}
			a := s.send(tt.method, "/v1/messages", tt.body, headers...)
			if typ, code, _ := anthropicErrorOf(t, a); a.StatusCode != tt.status || typ != tt.typ || code != tt.code {
				t.Errorf("%d %s, want %d %s %s", a.StatusCode, a.body, tt.status, tt.typ, tt.code)
			}
			if want := ""; tt.header != "" && a.Header.Get("Retry-After") != "7" || tt.header == "" && a.Header.Get("Retry-After") != want {
				t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
			}
		})
	}
	if a := s.send("POST", "/v1/messages/batches", "{}"); a.StatusCode != 404 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	} else if typ, _, _ := anthropicErrorOf(t, a); typ != "not_found_error" {
		t.Errorf("%s", a.body)
	}
	// A tenant whose own limit is spent.
	if a := s.send("POST", "/v1/messages", strings.NewReplacer("20", "40", "echo: hi", "hello").Replace(aMessage), "X-Tenant", "small"); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	a := s.send("POST", "/v1/messages", strings.Replace(aMessage, "20", "45", 1), "X-Tenant", "small")
	if typ, _, _ := anthropicErrorOf(t, a); a.StatusCode != 429 || typ != "rate_limit_error" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	s.idle()
}

func TestResponsesErrors(t *testing.T) {
	s := start(t)
	for _, tt := range []struct {
		name, body  string
		status      int
		param, code string
	}{
		{"no input", `{"model":"gpt-4o-mini"}`, 400, "input", "missing_required_parameter"},
		{"input of a wrong type", `{"model":"gpt-4o-mini","input":7}`, 400, "input", "invalid_type"},
		{"no model", `{"input":"x"}`, 400, "model", "missing_required_parameter"},
		{"in the background", strings.Replace(aResponse, "{", `{"background":true,`, 1), 400, "background", "invalid_value"},
		{"unknown model", strings.Replace(aResponse, "gpt-4o-mini", "o9", 1), 404, "model", "model_not_found"},
		{"refused by the provider", strings.Replace(aResponse, "20", "0", 1), 400, "max_output_tokens", "invalid_value"},
	} {
		a := s.send("POST", "/v1/responses", tt.body)
		if e := errorOf(t, a); a.StatusCode != tt.status || e.Param != tt.param || e.Code != tt.code {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
}

// What the provider refuses is told in the shape of the caller's API: in its own words
// where the shape is right.
func TestRefusalsInTheCallersShape(t *testing.T) {
	const (
		theirs = `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too many"},"request_id":"req_theirs"}`
		openAI = `{"error":{"message":"Bad n","type":"invalid_request_error","param":"n","code":"invalid_value"}}`
	)
	var status int
	var body string
	s := startOver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Should-Retry", "false")
		writeJSON(w, status, []byte(body))
	}, func(*app) {})
	for _, tt := range []struct {
		status   int
		body     string
		want     int
		typ      string
		code     string
		verbatim bool
	}{
		{400, theirs, 400, "invalid_request_error", "", true},
		{400, openAI, 400, "invalid_request_error", "invalid_value", false},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"input tokens per minute"}}`, 503, "overloaded_error", "upstream_rate_limited", false},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 503, "overloaded_error", "upstream_overloaded", false},
		{401, theirs, 502, "api_error", "upstream_key", false},
	} {
		status, body = tt.status, tt.body
		a := s.send("POST", "/v1/messages", aMessage, "Authorization", paidKey)
		if typ, code, _ := anthropicErrorOf(t, a); a.StatusCode != tt.want || typ != tt.typ || code != tt.code || (a.body == tt.body) != tt.verbatim {
			t.Errorf("%d %s became %d %s", tt.status, tt.body, a.StatusCode, a.body)
		}
	}
	status, body = 400, theirs
	a := s.send("POST", "/v1/responses", aResponse, "Authorization", paidKey)
	if e := errorOf(t, a); a.StatusCode != 400 || e.Message != "max_tokens: too many" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// A stream that breaks off ends with an error that its clients understand and a broken
// connection; one that told an error itself gets no second one.
func TestOtherStreamsThatBreakOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, body string
		stream           string
		kept             string // what the client gets of it
		event            string
		cut              bool
	}{
		{"a message, cut", "/v1/messages", aMessage, messageStart + messageText[:50], messageStart, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"The upstream provider broke off", true},
		{"a message that just ends", "/v1/messages", aMessage, messageStart, messageStart, "event: error\ndata: {\"type\":\"error\",", false},
		{"a message that told why", "/v1/messages", aMessage, messageStart + messageError, messageStart + messageError, "", true},
		{"a response, cut", "/v1/responses", aResponse, responseDelta + responseDelta, responseDelta + responseDelta, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"code\":\"upstream_error\",", true},
		{"a response that fell silent", "/v1/responses", aResponse, responseDelta, responseDelta, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":1,\"code\":\"upstream_timeout\",", false},
		{"within a very long event", "/v1/responses", aResponse, responseDelta + "data: " + strings.Repeat("x", 2*maxHeld), "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, tt.stream)
				http.NewResponseController(w).Flush()
				switch {
				case strings.Contains(tt.name, "silent"):
					<-r.Context().Done()
				case tt.cut:
					panic(http.ErrAbortHandler)
				}
			}, func(a *app) {
				if strings.Contains(tt.name, "silent") {
					a.upstreams[0].idle = 100 * time.Millisecond
				}
			})
			a := s.send("POST", tt.path, strings.Replace(tt.body, "{", `{"stream":true,`, 1), "Authorization", paidKey)
			if a.Response == nil || a.StatusCode != 200 || a.err == nil {
				t.Fatalf("the stream ended cleanly: %v %v", a.Response, a.err)
			}
			rest, ok := strings.CutPrefix(a.body, tt.kept)
			if !ok || tt.kept != "" && (!strings.HasPrefix(rest, tt.event) || (tt.event == "") != (rest == "")) || strings.Count(a.body, "event: error") > 1 {
				t.Errorf("%.500q\nwant %q and %q", a.body, tt.kept, tt.event)
			}
			s.idle()
			if n := s.used("acme"); n < 20 {
				t.Errorf("%d tokens are used; the estimate should stand", n)
			}
		})
	}
}

// Who aborts ends the call at once and gains nothing by it.
func TestOtherStreamsThatAreAborted(t *testing.T) {
	for _, tt := range []struct{ path, body, event string }{
		{"/v1/messages", aMessage, messageStart},
		{"/v1/responses", aResponse, responseDelta},
	} {
		went := make(chan struct{}, 1)
		s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, tt.event)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			went <- struct{}{}
		}, func(*app) {})
		ctx, leave := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", s.url+tt.path, strings.NewReader(strings.Replace(tt.body, "{", `{"stream":true,`, 1)))
		req.Header.Set("Authorization", paidKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		// The event is here although the provider has not said more.
		if _, err := io.ReadFull(resp.Body, make([]byte, len(tt.event))); err != nil {
			t.Fatal(err)
		}
		leave()
		resp.Body.Close()
		await(t, "the provider's call ends", went)
		s.idle()
		if n := s.used("acme"); n < 20 {
			t.Errorf("%s: %d tokens are used; the estimate should stand", tt.path, n)
		}
	}
}

// A stream that is shed after it got its head is told so in its own shape.
func TestOtherStreamsThatWait(t *testing.T) {
	t.Parallel()
	p := newSlowProvider(true)
	s := startOver(t, p.ServeHTTP, func(a *app) {
		a.server.patience, a.server.comment = 30*time.Millisecond, 50*time.Millisecond
	}, "-workers", "1", "-max-wait", "1s")
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan answer, 1)
	go func() {
		first <- s.sendContext(ctx, "POST", "/v1/chat/completions", streamed, "Authorization", paidKey)
	}()
	await(t, "the first one runs", p.came)
	for path, want := range map[string]string{
		"/v1/messages":  "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",",
		"/v1/responses": "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"queue_timeout\",",
	} {
		body := map[string]string{"/v1/messages": aMessage, "/v1/responses": aResponse}[path]
		a := s.send("POST", path, strings.Replace(body, "{", `{"stream":true,`, 1), "Authorization", paidKey)
		events := strings.ReplaceAll(a.body, keepAliveComment, "")
		if a.err == nil || !strings.HasPrefix(a.body, keepAliveComment) || !strings.HasPrefix(events, want) {
			t.Errorf("%s: %v %s", path, a.err, a.body)
		}
	}
	leave()
	<-first
}
