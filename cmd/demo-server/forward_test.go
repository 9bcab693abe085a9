package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recording is a provider that remembers what it is sent.
type recording struct {
	mu     sync.Mutex
	bodies []string
	header http.Header
	path   string
	answer func(w http.ResponseWriter, n int) // n counts requests from 1
}

func (p *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.bodies = append(p.bodies, string(b))
	p.header, p.path = r.Header.Clone(), r.URL.Path
	n := len(p.bodies)
	p.mu.Unlock()
	p.answer(w, n)
}

func (p *recording) last() (body, path string, h http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bodies[len(p.bodies)-1], p.path, p.header
}

func (p *recording) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bodies)
}

// What a client sends reaches the provider byte for byte, without what is ours:
// BerriAI/litellm#7144. What the provider answers comes back likewise.
func TestForwarding(t *testing.T) {
	const completion = `{ "id":"x", "choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"x":1.50}],"reasoning_content" : "\u00fc","usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5} }`
	p := &recording{answer: func(w http.ResponseWriter, _ int) {
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "17")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, completion)
	}}
	s := startOver(t, p.ServeHTTP, func(*app) {})
	for _, tt := range []struct{ path, sent, want string }{
		{"/v1/chat/completions",
			`{"model":"gpt-4o-mini", "messages":[{"role":"user","content":"hi","priority":3}],"temperature":1.0e0,"seed":12345678901234567890,"priority":1,"service_tier":"flex", "x":{"tier":1},"metadata":{"a":1,"a":2}}`,
			`{"model":"gpt-4o-mini", "messages":[{"role":"user","content":"hi","priority":3}],"temperature":1.0e0,"seed":12345678901234567890,"service_tier":"flex", "x":{"tier":1},"metadata":{"a":1,"a":2}}`},
		{"/v1/chat/completions", ` {"tier":"paid","tenant":"globex","model":"gpt-4o-mini","messages":[1]}` + "\n", ` {"model":"gpt-4o-mini","messages":[1]}` + "\n"},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":[[1,2]],"encoding_format":"base64","pri\u006frity":1}`, `{"model":"text-embedding-3-small","input":[[1,2]],"encoding_format":"base64"}`},
	} {
		a := s.send("POST", tt.path, tt.sent, "Authorization", paidKey, "Cookie", "c=1", "X-Tenant", "globex", "X-Priority", "1", "X-Tier", "paid",
			"X-Sim-Output-Tokens", "5", "X-Sim-Fault", "status=500", "X-Forwarded-For", "10.0.0.1", "Openai-Organization", "org-other", "Openai-Project", "p",
			"Connection", "X-Hop", "X-Hop", "1", "X-Custom", "kept", "Openai-Beta", "kept", "User-Agent", "test/1")
		if a.StatusCode != 200 || a.body != completion {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		if a.Header.Get("Set-Cookie") != "" || a.Header.Get("X-Ratelimit-Remaining-Tokens") == "17" {
			t.Errorf("the provider's own headers came back: %v", a.Header)
		}
		body, path, h := p.last()
		if body != tt.want || path != tt.path {
			t.Errorf("%s got %s\nwant %s", path, body, tt.want)
		}
		var names []string
		for name := range h {
			names = append(names, name)
		}
		slices.Sort(names)
		if want := "Authorization Content-Length Content-Type Openai-Beta User-Agent X-Custom"; strings.Join(names, " ") != want {
			t.Errorf("headers %v, want %s", names, want)
		}
		if h.Get("Authorization") != "Bearer sk-upstream" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
	}
	if a := s.send("POST", "/chat", `{"prompt":"a\u00fc","tier":"paid","max_tokens":7}`, "Authorization", paidKey); a.body != `{"reply":"hi"}` {
		t.Errorf("%s", a.body)
	}
	if body, _, _ := p.last(); body != `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"a\u00fc"}],"max_tokens":7}` {
		t.Errorf("/chat sends %s", body)
	}
}

// A stream is asked for its usage, whatever the client asked.
func TestStreamIsAskedForUsage(t *testing.T) {
	p := &recording{answer: func(w http.ResponseWriter, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
	}}
	s := startOver(t, p.ServeHTTP, func(*app) {})
	for _, tt := range []struct{ sent, want, events string }{
		{`{"model":"gpt-4o-mini","messages":[1],"stream":true}`,
			`{"model":"gpt-4o-mini","messages":[1],"stream":true,"stream_options":{"include_usage":true}}`,
			"data: {\"choices\":[{}]}\n\ndata: [DONE]\n\n"},
		{`{"model":"gpt-4o-mini","messages":[1],"stream":true,"stream_options":{"include_usage":false}}`,
			`{"model":"gpt-4o-mini","messages":[1],"stream":true,"stream_options":{"include_usage":true}}`,
			"data: {\"choices\":[{}]}\n\ndata: [DONE]\n\n"},
		{`{"model":"gpt-4o-mini","messages":[1],"stream":true,"stream_options":{"include_usage":true}}`,
			`{"model":"gpt-4o-mini","messages":[1],"stream":true,"stream_options":{"include_usage":true}}`,
			"data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"},
	} {
		a := s.send("POST", "/v1/chat/completions", tt.sent, "Authorization", paidKey)
		if body, _, _ := p.last(); body != tt.want {
			t.Errorf("sent %s\nwant %s", body, tt.want)
		}
		if a.StatusCode != 200 || a.err != nil || a.body != tt.events {
			t.Errorf("%v %s\nwant %s", a.err, a.body, tt.events)
		}
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Length": ""} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	if got := s.metric(`paceline_tokens_total{direction="input"}`); got != "900" {
		t.Errorf("%s tokens were settled, want 900", got)
	}
}
