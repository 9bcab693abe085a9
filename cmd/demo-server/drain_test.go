package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// After SIGTERM what runs is finished, what is new is refused, and nothing is cut
// off that ends in time.
func TestDrain(t *testing.T) {
	finish := make(chan struct{})
	came := make(chan struct{}, 2)
	s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-finish
		if strings.Contains(r.Header.Get("Accept"), "event-stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write([]byte(chunk1 + chunkDone))
			return
		}
		writeJSON(w, 200, []byte(`{"choices":[]}`))
	}, func(*app) {}, "-workers", "2")
	answers := make(chan answer, 3)
	go func() {
		answers <- s.send("POST", "/v1/chat/completions", streamed, "Authorization", paidKey, "Accept", "text/event-stream")
	}()
	go func() { answers <- s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey) }()
	await(t, "the first call", came)
	await(t, "the second call", came)
	go func() { answers <- s.send("POST", "/v1/chat/completions", hello, "Authorization", freeKey) }()
	eventually(t, "the third waits", func() bool { return s.app.server.dispatcher.Stats().Waiting[5] == 1 })
	job := jobOf(t, s.send("POST", "/v1/jobs", hello, "Authorization", freeKey), 202)

	s.stop()
	eventually(t, "not ready", func() bool { return s.send("GET", "/readyz", "").StatusCode == 503 })
	if a := s.send("GET", "/healthz", ""); a.StatusCode != 200 {
		t.Errorf("a server that drains is alive: %d", a.StatusCode)
	}
	eventually(t, "new calls are refused", func() bool {
		a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey)
		return a.StatusCode == 503 && errorOf(t, a).Code == "server_is_overloaded" && a.Close && a.Header.Get("Retry-After") != ""
	})
	if got := jobOf(t, s.send("GET", "/v1/jobs/"+job.ID, "", "Authorization", freeKey), 200).Status; got != "queued" {
		t.Errorf("the job is %s", got)
	}
	close(finish)
	for range 3 {
		if a := <-answers; a.err != nil || a.StatusCode != 200 {
			t.Errorf("%v %v %s", a.err, a.Response, a.body)
		}
	}
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	if resp, err := http.Get(s.url + "/healthz"); err == nil {
		resp.Body.Close()
		t.Error("the server still answers")
	}
}

// What outlives the drain is told so and cut off, streams too.
func TestDrainIsLimited(t *testing.T) {
	p := newSlowProvider(true)
	q := newSlowProvider(false)
	s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "event-stream") {
			p.ServeHTTP(w, r)
			return
		}
		q.ServeHTTP(w, r)
	}, func(*app) {}, "-drain", "100ms")
	stream, plain := make(chan answer, 1), make(chan answer, 1)
	go func() {
		stream <- s.send("POST", "/v1/chat/completions", streamed, "Authorization", paidKey, "Accept", "text/event-stream")
	}()
	go func() { plain <- s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey) }()
	await(t, "the stream", p.came)
	await(t, "the call", q.came)
	time.Sleep(50 * time.Millisecond) // some of the stream arrives
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	a := <-stream
	if a.Response == nil || a.err == nil || !strings.Contains(a.body, "data: {\"error\":{\"message\":\"The server is shutting down.") {
		t.Errorf("the stream: %v %s", a.err, a.body)
	}
	b := <-plain
	if e := errorOf(t, b); b.StatusCode != 503 || e.Code != "server_is_overloaded" {
		t.Errorf("the call: %d %s", b.StatusCode, b.body)
	}
}

// /readyz says no while the ledger does not answer, and /healthz does not care.
func TestReady(t *testing.T) {
	var fails error
	pings := 0
	h := &health{ping: func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the ping may take for ever")
		}
		pings++
		return fails
	}}
	if why := h.ready(t.Context()); why != "" || pings != 1 {
		t.Errorf("%q after %d pings", why, pings)
	}
	fails = errors.New("no")
	if why := h.ready(t.Context()); why != "" || pings != 1 {
		t.Errorf("the ledger answered lately: %q, %d pings", why, pings)
	}
	h.last.Store(time.Now().Add(-2 * recent).UnixNano())
	if why := h.ready(t.Context()); why == "" {
		t.Error("ready without a ledger")
	}
	(observer{health: h, Metrics: newTestMetrics()}).LedgerCalled("reserve", 0, nil)
	if why := h.ready(t.Context()); why != "" {
		t.Errorf("a call of the ledger succeeded, and still %q", why)
	}
	h.draining.Store(true)
	if why := h.ready(t.Context()); why != "draining" {
		t.Errorf("%q", why)
	}
}
