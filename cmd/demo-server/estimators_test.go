package main

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-go/paceline/internal/redistest"
)

// Calls teach what the next ones will use, by provider, model and tenant. A cap that is
// far too high is lowered, if the operator says so, where the provider counts it.
func TestServerLearns(t *testing.T) {
	s := startFleet(t, "-lower-max-tokens", "2")
	chat := strings.Replace(hello, `"max_tokens":20`, `"max_tokens":4096`, 1)
	message := strings.Replace(strings.Replace(aMessage, "gpt-4o-mini", "claude-x", 1), `"max_tokens":20`, `"max_tokens":4096`, 1)
	if !strings.Contains(chat, "4096") || !strings.Contains(message, "4096") {
		t.Fatal(chat, message)
	}
	for i := range 25 {
		for path, body := range map[string]string{"/v1/chat/completions": chat, "/v1/messages": message} {
			if a := s.send("POST", path, body, "Authorization", paidKey); a.StatusCode != 200 {
				t.Fatalf("call %d: %d %s", i, a.StatusCode, a.body)
			}
		}
		if sent, _, _ := s.openAI.last(); i == 0 && sent != chat {
			t.Errorf("sent %s", sent)
		}
	}
	if sent, _, _ := s.openAI.last(); sent != strings.Replace(chat, "4096", "256", 1) {
		t.Errorf("sent %s", sent)
	}
	if sent, _, _ := s.claude.last(); sent != message {
		t.Errorf("sent %s, where nothing is gained", sent)
	}
	s.idle()
	for name, want := range map[string]float64{
		`llm_output_quantile_tokens{model="gpt-4o-mini",provider="openai"}`: 2,
		`llm_output_quantile_tokens{model="claude-x",provider="anthropic"}`: 2,
		`llm_output_missed_ratio{model="claude-x",provider="anthropic"}`:    0,
		`llm_estimate_factor{model="claude-x",provider="anthropic"}`:        4, // 1,030 tokens: at most
		`llm_estimate_factor{model="gpt-4o-mini",provider="openai"}`:        0, // is exact
		`llm_estimates_total{method="exact"}`:                               25,
		`llm_estimates_total{method="weighted"}`:                            25,
	} {
		if got := metricOf(t, s.running, name); got < want-1e-3 || got > want+1e-3 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for flag, want := range map[string]string{"0.5": "-lower-max-tokens", "-1": "-lower-max-tokens", "NaN": "-lower-max-tokens", "1001": "-lower-max-tokens"} {
		if _, err := parseConfig([]string{"-lower-max-tokens", flag}, func(string) string { return "" }, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// What one server learns the next one knows from its start.
func TestServersLearnTogether(t *testing.T) {
	t.Parallel()
	args := []string{"-ledger", redistest.Start(t).URL(), "-model", "claude-x", "-tenant-default", "0"}
	first := start(t, args...)
	body := strings.Replace(hello, "gpt-4o-mini", "claude-x", 1)
	var clients sync.WaitGroup
	for range 25 {
		clients.Go(func() {
			if a := first.send("POST", "/v1/chat/completions", body); a.StatusCode != 200 {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	clients.Wait()
	const factor = `llm_estimate_factor{model="claude-x",provider="generic"}`
	learnt := metricOf(t, first, factor)
	first.stop()
	if err := <-first.done; err != nil {
		t.Fatal(err)
	}
	second := start(t, args...)
	eventually(t, "the second server knows", func() bool { return metricOf(t, second, factor) != 0 })
	if got := metricOf(t, second, factor); learnt == 0 || got < learnt*.999 || got > learnt*1.001 {
		t.Errorf("%v, want %v", got, learnt)
	}
}
