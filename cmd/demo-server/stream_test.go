package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const streamed = `{"model":"gpt-4o-mini","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`

// slowProvider streams a chunk at a time until its client goes away. It says when
// a request came and when it went.
type slowProvider struct {
	came, went chan struct{}
	head       bool // answer at once, and not only when the request goes
	usage      string
}

func newSlowProvider(head bool) *slowProvider {
	return &slowProvider{came: make(chan struct{}, 10), went: make(chan struct{}, 10), head: head}
}

func (p *slowProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	p.came <- struct{}{}
	defer func() { p.went <- struct{}{} }()
	if !p.head {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; r.Context().Err() == nil; i++ {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]%s}\n\n", i, p.usage)
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("not within 10 s: ", what)
	}
}

// A client that goes away frees its place and ends the call, wherever it is, and gains
// nothing by it: the estimate stands, whatever the provider had said so far. BerriAI/litellm#27955 and #30020,
// Noveum/ai-gateway#30, sgl-project/sglang#31907, api7/aisix#683, Menci/Floway#66.
func TestClientsThatGoAway(t *testing.T) {
	for _, tt := range []struct {
		name   string
		head   bool // the provider has answered
		stream string
		usage  string // the provider has said
		used   func(int64) bool
	}{
		{"before the head of a stream", false, "true", "", func(n int64) bool { return n >= 50 }},
		{"before an answer in one piece", false, "false", "", func(n int64) bool { return n >= 50 }},
		{"in the middle of a stream", true, "true", "", func(n int64) bool { return n >= 50 }},
		{"in the middle of a stream that says its usage", true, "true", `,"usage":{"prompt_tokens":3,"completion_tokens":4}`, func(n int64) bool { return n >= 50 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newSlowProvider(tt.head)
			p.usage = tt.usage
			s := startOver(t, p.ServeHTTP, func(*app) {})
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			body := strings.Replace(streamed, "true", tt.stream, 1)
			go func() {
				req, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/chat/completions", strings.NewReader(body))
				req.Header.Set("Authorization", paidKey)
				resp, err := http.DefaultClient.Do(req)
				if err == nil {
					lines := bufio.NewScanner(resp.Body)
					for n := 0; n < 3 && lines.Scan(); n++ {
					}
					leave()
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				gone <- err
			}()
			await(t, "the provider gets the call", p.came)
			if got := s.metric("paceline_inflight_requests"); !tt.head && got != "1" {
				t.Errorf("%s in flight, want 1", got)
			}
			if !tt.head {
				leave()
			}
			await(t, "the provider's call ends", p.went)
			if err := <-gone; err == nil {
				t.Error("the client did not leave")
			}
			leave()
			s.idle()
			if got := s.metric("paceline_inflight_requests"); got != "0" {
				t.Errorf("%s in flight, want 0", got)
			}
			if n := s.used("acme"); !tt.used(n) {
				t.Errorf("%d tokens are used", n)
			}
		})
	}
}

// A client that leaves the queue frees its place and costs nothing:
// kubeai-project/kubeai#18, kubernetes/kubernetes#119799.
func TestClientsThatLeaveTheQueue(t *testing.T) {
	p := newSlowProvider(true)
	s := startOver(t, p.ServeHTTP, func(*app) {}, "-workers", "1")
	done := make(chan struct{})
	send := func(ctx context.Context) {
		s.sendContext(ctx, "POST", "/v1/chat/completions", streamed, "Authorization", paidKey)
		done <- struct{}{}
	}
	first, leaveFirst := context.WithCancel(t.Context())
	go send(first)
	await(t, "the first one runs", p.came)
	queue, leaveQueue := context.WithCancel(t.Context())
	for range 20 {
		go send(queue)
	}
	waiting := func() int { return s.app.server.dispatcher.Stats().Waiting[5] }
	eventually(t, "20 wait", func() bool { return waiting() == 20 })
	leaveQueue()
	eventually(t, "none waits", func() bool { return waiting() == 0 })
	leaveFirst()
	for range 21 {
		await(t, "all clients are gone", done)
	}
	await(t, "the first call ends", p.went)
	s.idle()
	select {
	case <-p.came:
		t.Error("a call was made for a client that had left")
	default:
	}
	s.holdsNothing()
}

// A stream that breaks off ends with an error and a broken connection, because a
// clean end looks like a complete answer.
func TestStreamThatBreaksOff(t *testing.T) {
	t.Parallel()
	const head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n"
	for _, tt := range []struct{ name, rest, message string }{
		{"ends cleanly without [DONE]", "", "The upstream provider broke off its answer."},
		{"is cut", "cut", "The upstream provider broke off its answer."},
		{"says why", "data: {\"error\":{\"message\":\"upstream ran hot\"}}\n\n", "The upstream provider failed: upstream ran hot"},
		{"falls silent", "silent", "The upstream provider did not answer in time."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, head)
				http.NewResponseController(w).Flush()
				switch tt.rest {
				case "cut":
					panic(http.ErrAbortHandler)
				case "silent":
					<-r.Context().Done()
				default:
					io.WriteString(w, tt.rest)
				}
			}, func(a *app) { a.upstreams[0].idle = 100 * time.Millisecond })
			a := s.send("POST", "/v1/chat/completions", streamed, "Authorization", paidKey)
			if a.Response == nil || a.StatusCode != 200 || a.err == nil {
				t.Fatalf("the stream ended cleanly: %v %v", a.Response, a.err)
			}
			want := head + `data: {"error":{"message":"` + tt.message + `","type":"server_error","param":null,"code":"upstream_`
			if !strings.HasPrefix(a.body, want) || !strings.HasSuffix(a.body, "\"}}\n\n") {
				t.Errorf("%q\nwant %q", a.body, want)
			}
			s.idle()
			if n := s.used("acme"); n < 50 {
				t.Errorf("%d tokens are used; the estimate should stand", n)
			}
		})
	}
}

// A stream that waits for long gets its head and comments; from then on it is not
// shed with a status but within the stream.
func TestStreamThatWaits(t *testing.T) {
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
	a := s.send("POST", "/v1/chat/completions", streamed, "Authorization", paidKey)
	leave()
	<-first
	if a.StatusCode != 200 || a.err == nil {
		t.Fatalf("%d %v %s", a.StatusCode, a.err, a.body)
	}
	comments, event, _ := strings.Cut(a.body, "data: ")
	if n := strings.Count(comments, keepAliveComment); n < 2 || len(comments) != n*len(keepAliveComment) {
		t.Errorf("%q", comments)
	}
	if !strings.HasPrefix(event, `{"error":{"message":`) || !strings.Contains(event, `"code":"queue_timeout"`) || strings.Contains(event, "data:") {
		t.Errorf("%q", event)
	}
}

// The same wait without a stream, and with patience, is a proper refusal.
func TestRefusalAfterTheLongestWait(t *testing.T) {
	t.Parallel()
	p := newSlowProvider(true)
	s := startOver(t, p.ServeHTTP, func(*app) {}, "-workers", "1", "-max-wait", "2s")
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan answer, 1)
	go func() {
		first <- s.sendContext(ctx, "POST", "/v1/chat/completions", streamed, "Authorization", paidKey)
	}()
	await(t, "the first one runs", p.came)
	start := time.Now()
	a := s.send("POST", "/v1/chat/completions", streamed, "Authorization", freeKey)
	if e := errorOf(t, a); a.StatusCode != 503 || e.Code != "queue_timeout" || a.Header.Get("X-Should-Retry") != "false" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("refused after %v", took)
	}
	// A client that says how long it waits is told before it gives up.
	start = time.Now()
	a = s.send("POST", "/v1/chat/completions", hello, "Authorization", freeKey, "X-Stainless-Timeout", "0.2")
	if took := time.Since(start); a.StatusCode != 503 || took < 200*time.Millisecond || took > 1900*time.Millisecond {
		t.Errorf("%d after %v", a.StatusCode, took)
	}
	leave()
	<-first
}

// A tenant that waited for its own limit is told that it is its own: 429.
func TestRefusalByTheOwnLimit(t *testing.T) {
	t.Parallel()
	s := start(t, "-tenant", "a=60", "-max-wait", "1s")
	if a := s.send("POST", "/v1/chat/completions", hello, "X-Tenant", "a"); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	a := s.send("POST", "/v1/chat/completions", hello, "X-Tenant", "a")
	if e := errorOf(t, a); a.StatusCode != 429 || e.Code != "rate_limit_exceeded" || e.Type != "tokens" || a.Header.Get("X-Should-Retry") != "false" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a := s.send("POST", "/v1/chat/completions", hello, "X-Tenant", "b"); a.StatusCode != 200 {
		t.Errorf("another tenant: %d %s", a.StatusCode, a.body)
	}
}
