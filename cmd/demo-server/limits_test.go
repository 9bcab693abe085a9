package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Who is over the queue's bounds is refused: 429 for a tenant's own, 503 for what
// all share, each with a Retry-After.
func TestQueuesAreBounded(t *testing.T) {
	p := newSlowProvider(false)
	s := startOver(t, p.ServeHTTP, func(*app) {}, "-workers", "1", "-max-queue", "4", "-max-tenant-queue", "2")
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	send := func(key string) {
		clients.Go(func() { s.sendContext(ctx, "POST", "/v1/chat/completions", hello, "Authorization", key) })
	}
	waiting := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " wait"), func() bool {
			sum := 0
			for _, w := range s.app.server.dispatcher.Stats().Waiting {
				sum += w
			}
			return sum == n
		})
	}
	send(paidKey)
	await(t, "the first one runs", p.came)
	send(paidKey)
	send(paidKey)
	waiting(2)
	a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey)
	if e := errorOf(t, a); a.StatusCode != 429 || e.Code != "rate_limit_exceeded" || e.Type != "requests" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	send(freeKey)
	send(zeroKey) // from here on nobody has more than a newcomer would
	waiting(4)
	a = s.send("POST", "/v1/chat/completions", hello, "Authorization", zeroKey)
	if e := errorOf(t, a); a.StatusCode != 503 || e.Code != "server_is_overloaded" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	a = s.send("POST", "/chat", `{"prompt":"x"}`, "Authorization", batchKey)
	if a.StatusCode != 503 || a.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, `"retry_after":`) {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	leave()
	clients.Wait()
	for name, want := range map[string]string{
		`paceline_shed_total{reason="tenant_queue_full"}`: "1",
		`llm_tenant_rejections_total{tenant="acme"}`:      "1",
		`llm_tenant_rejections_total{tenant="initech"}`:   "1",
	} {
		if got := s.metric(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Each tenant has a budget of its own, and what is charged is what is checked:
// envoyproxy/ai-gateway#2551, #2460.
func TestTenantsHaveTheirOwnBudgets(t *testing.T) {
	t.Parallel()
	s := start(t, "-tenant", "a=1000", "-tenant-default", "1000")
	large := strings.NewReplacer(`20}`, `900}`, `hello`, `words=5`).Replace(hello)
	if a := s.send("POST", "/v1/chat/completions", large, "X-Tenant", "a"); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	for _, tenant := range []string{"b", "c", ""} {
		if n := s.used(tenant); n != 0 {
			t.Errorf("%q has used %d", tenant, n)
		}
	}
	if n := s.used("a"); n < 5 {
		t.Errorf("a has used %d", n)
	}
	if a := s.send("POST", "/v1/chat/completions", large, "X-Tenant", "b"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.send("POST", "/v1/chat/completions", strings.Replace(hello, `20}`, `1000}`, 1), "X-Tenant", "a"); a.StatusCode != 413 {
		t.Errorf("more than all: %d %s", a.StatusCode, a.body)
	}
}

// With wide limits nobody waits; and the simulator, which has the same limits,
// never had to refuse.
func TestSimulatorAgrees(t *testing.T) {
	t.Parallel()
	s := start(t, "-rpm", "1200", "-tenant-default", "0")
	var clients sync.WaitGroup
	for range 60 {
		clients.Go(func() {
			if a := s.send("POST", "/v1/chat/completions", hello); a.StatusCode != 200 {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	clients.Wait()
	st := s.app.simulator.Stats()
	if st.Accepted != 60 || st.RefusedRequests+st.RefusedTokens+st.RefusedTooLarge != 0 {
		t.Errorf("%+v", st.Counts)
	}
}

// Large bodies are bounded together, not only one by one.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, "-max-body", "1", "-max-memory", "2")
	held := int64(2<<20 - 1000)
	if !s.app.server.memory.take(held) {
		t.Fatal("no memory")
	}
	body := `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"` + strings.Repeat(" ", 1<<20-200) + `"}],"max_tokens":5}`
	a := s.send("POST", "/v1/chat/completions", body)
	if e := errorOf(t, a); a.StatusCode != 503 || e.Code != "server_is_overloaded" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.send("POST", "/v1/chat/completions", hello); a.StatusCode != 200 {
		t.Errorf("a small one: %d %s", a.StatusCode, a.body)
	}
	s.app.server.memory.give(held)
	// Without a length the most is held, and given back.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/chat/completions", struct{ *strings.Reader }{strings.NewReader(hello)})
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	s.holdsNothing()
}
