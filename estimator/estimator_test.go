package estimator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-go/paceline/job"
)

func TestEstimateRequests(t *testing.T) {
	e := newEstimator(t, Config{})
	const body = `{"model":"gpt-4","messages":[{"role":"user","content":"hello world"}],"max_tokens":10,"n":3}`
	want := job.Estimate{Input: 9, Output: 30, Declared: true, Method: Exact}
	for _, r := range []any{parseChat(t, body), []byte(body), json.RawMessage(body)} {
		got, err := e.Estimate(job.Spec{Model: "gpt-4o", Request: r})
		if err != nil || got != want {
			t.Errorf("%T: got %+v %v, want %+v", r, got, err, want)
		}
	}
	want = job.Estimate{Input: 9, Output: 512, Method: Exact}
	if got, err := e.Estimate(job.Spec{Model: "gpt-4o", Request: "hello world"}); err != nil || got != want {
		t.Errorf("string: got %+v %v, want %+v", got, err, want)
	}
	if got, err := e.Estimate(job.Spec{Model: "gpt-4o", Request: &Request{}}); err != nil || got.Input != 3 || got.Output != 512 {
		t.Errorf("zero Request: got %+v %v", got, err)
	}
	if got, err := e.Estimate(job.Spec{Model: "gpt-4o", Request: "\xff\xff"}); err != nil || got.Input < 8 || got.Upper != 0 {
		t.Errorf("bad bytes: got %+v %v", got, err)
	}
	for _, r := range []any{nil, (*Request)(nil), 5, Request{}, map[string]any{}} {
		if got, err := e.Estimate(job.Spec{Request: r}); !errors.Is(err, ErrRequest) || got != (job.Estimate{}) {
			t.Errorf("%T: got %+v %v, want ErrRequest", r, got, err)
		}
	}
	var re *RequestError
	if _, err := e.Estimate(job.Spec{Request: []byte(`{"messages":1}`)}); !errors.As(err, &re) || re.Param != "messages" {
		t.Errorf("got %v, want a RequestError", err)
	}
}

func TestModelOfSpecComesFirst(t *testing.T) {
	e := newEstimator(t, Config{})
	r := parseChat(t, `{"model":"gpt-4","messages":[]}`)
	if got := measure(t, e, "gpt-4o", r).Encoding; got != "o200k_base" {
		t.Errorf("got %s, want the encoding of the model given", got)
	}
	if got := measure(t, e, "", r).Encoding; got != "cl100k_base" {
		t.Errorf("got %s, want the encoding of the request's model", got)
	}
}

func TestOutput(t *testing.T) {
	e := newEstimator(t, Config{DefaultOutput: 100, Outputs: map[string]int64{"GPT-4o": 200, "gpt-4o-mini": 300, "mine": 400}})
	for _, c := range []struct {
		model, fields string
		want          int64
		declared      bool
	}{
		{"gpt-4", ``, 100, false},
		{"gpt-4o-2024-08-06", ``, 200, false},
		{"openai/gpt-4o-mini", ``, 300, false},
		{"mine-2", `"n":2,`, 800, false},
		{"mine", `"max_tokens":7,`, 7, true},
		{"mine", `"max_tokens":7,"n":5,`, 35, true},
		{"mine", `"max_tokens":7,"n":2,"best_of":4,`, 28, true},
		{"mine", `"max_tokens":0,`, 0, true},
		// BerriAI/litellm#37001, #34223: not 1, and not 10,001.
		{"mine", `"max_tokens":1,"max_completion_tokens":10000,`, 10000, true},
	} {
		got := measure(t, e, c.model, parseChat(t, `{`+c.fields+`"messages":[]}`))
		if got.Output != c.want || got.Declared != c.declared {
			t.Errorf("%s {%s}: got %d %v, want %d %v", c.model, c.fields, got.Output, got.Declared, c.want, c.declared)
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	for _, cfg := range []Config{
		{Counters: map[string]Counter{"mine": nil}},
		{DefaultOutput: -1}, {FileTokens: -1}, {AudioTokensPerSecond: MaxTokens + 1},
		{Outputs: map[string]int64{"gpt-4o": 0}}, {Outputs: map[string]int64{"gpt-4o": -5}},
	} {
		if e, err := New(cfg); err == nil || e != nil || !strings.HasPrefix(err.Error(), "estimator: ") {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestUnknownModels(t *testing.T) {
	var log bytes.Buffer
	e := newEstimator(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r := parseChat(t, `{"messages":[{"role":"user","content":"hello world"}]}`)
	for range 3 {
		got := measure(t, e, "grok-4", r)
		// As many tokens as bytes, in a vocabulary of one byte a token.
		if !got.UnknownModel || got.Encoding != "o200k_base" || got.Method != Fallback || got.Input != 9 || got.Upper != 7+11 {
			t.Errorf("got %+v", got)
		}
	}
	if got := measure(t, e, "gpt-4o", r); got.UnknownModel {
		t.Error("gpt-4o is said to be unknown")
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "grok-4") {
		t.Errorf("logged %d lines, want one that names the model: %s", n, log.String())
	}
	for i := range 2 * maxLogged {
		measure(t, e, fmt.Sprintf("invented-%d-%s", i, strings.Repeat("x", 1000)), r)
	}
	if n := strings.Count(log.String(), "\n"); n != maxLogged || log.Len() > 400*maxLogged {
		t.Errorf("logged %d lines of %d bytes, want %d short ones", n, log.Len(), maxLogged)
	}
}

func TestLoadError(t *testing.T) {
	e := newEstimator(t, Config{})
	broken := errors.New("broken")
	e.load = func(tokenizer) (counter, error) { return nil, broken }
	if _, err := e.Estimate(job.Spec{Request: "x"}); !errors.Is(err, broken) {
		t.Errorf("Estimate: %v", err)
	}
	if err := e.Load("gpt-4o"); !errors.Is(err, broken) {
		t.Errorf("Load: %v", err)
	}
	if err := e.Load(); !errors.Is(err, broken) {
		t.Errorf("Load: %v", err)
	}
}

// Many requests at once share the memo and the counters.
func TestConcurrentUse(t *testing.T) {
	e := newEstimator(t, Config{})
	r := parseChat(t, string(chatOf(t, strings.Repeat("What goes up must come down. ", 300), 700)))
	results := make([]Result, 16)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i], _ = e.Measure(modelOf[i%2], r) })
	}
	wg.Wait()
	for i, got := range results {
		if got != results[i%2] || got.Method != Exact || got.Input < 2000 {
			t.Errorf("got %+v and %+v", got, results[i%2])
		}
	}
}

// Models of other makers are counted in o200k_base and weighted: here by the ratios
// that their tokenizers had on text of that kind, within 15 %.
func TestOtherFamilies(t *testing.T) {
	e := newEstimator(t, Config{Logger: slog.New(slog.DiscardHandler)})
	english := strings.Repeat("All human beings are born free and equal in dignity and rights, she said. ", 40)
	chinese := strings.Repeat("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", 40)
	numbers := strings.Repeat("482,915,377,206,", 100)
	for _, c := range []struct {
		model, text string
		ratio       float64 // median, of documents of this kind
	}{
		{"claude-sonnet-4-5", english, 1.05}, {"claude-sonnet-4-5", chinese, 1.26}, {"claude-sonnet-4-5", numbers, 1.00},
		{"gemini-2.5-pro", english, 1.04}, {"gemini-2.5-pro", chinese, .90}, {"gemini-2.5-pro", numbers, 1.80},
		{"llama-3.3-70b", english, 1.02}, {"llama-3.3-70b", chinese, 1.04}, {"llama-3.3-70b", numbers, 1.00},
		{"qwen3-max", english, 1.03}, {"qwen3-max", chinese, .90}, {"qwen3-max", numbers, 1.80},
		{"deepseek-chat", english, 1.02}, {"deepseek-chat", chinese, .85}, {"deepseek-chat", numbers, 1.00},
	} {
		got := textTokens(t, e, c.model, c.text)
		want := c.ratio * float64(textTokens(t, e, "gpt-4o", c.text).Input)
		if math.Abs(float64(got.Input)-want) > .15*want || got.Method != Weighted || got.Upper != int64(len(c.text)) {
			t.Errorf("%s %.12q: got %+v, want about %.0f", c.model, c.text, got, want)
		}
	}
}

type fixedCounter int

func (c fixedCounter) Count(string) int { return int(c) }

func TestConfiguredCounters(t *testing.T) {
	e := newEstimator(t, Config{Counters: map[string]Counter{"mine": fixedCounter(5), "mine-too": fixedCounter(-1), "gpt-4": fixedCounter(7)}})
	for model, want := range map[string]int64{"mine": 5, "Mine-2": 5, "mine-too": 1, "gpt-4-turbo": 7} {
		got := measure(t, e, model, parseChat(t, `{"prompt":"hello world"}`))
		if got.Input != want || got.Method != Exact || got.UnknownModel || got.Encoding != "configured" {
			t.Errorf("%s: got %+v, want %d", model, got, want)
		}
	}
	// What is counted of a long text is bounded.
	c := &fakeCounter{}
	e = newEstimator(t, Config{Counters: map[string]Counter{"mine": public{c}}})
	long := strings.Repeat("some words. ", 20_000)
	if got := textTokens(t, e, "mine", long); got.Method != Sampled || c.bytes > 128*(64+32) || got.Input < 50_000 {
		t.Errorf("got %+v for %d bytes, %d of them counted", got, len(long), c.bytes)
	}
}

type public struct{ c *fakeCounter }

func (p public) Count(text string) int { n, _ := p.c.count(text); return n }

// BerriAI/litellm#10409, #10383: a longer conversation never costs less.
func TestMoreMessagesNeverCostLess(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	messages := []string{
		`{}`, `null`, `""`, `{"role":"user","content":"hi"}`, `{"role":"assistant","content":null}`,
		`{"role":"tool","tool_call_id":"c","content":"72 degrees"}`,
		`{"role":"function","name":"f","content":""}`, `{"role":"function","content":null}`,
		`{"role":"user","name":"a","content":[{"type":"text","text":"x"},{"type":"image_url"}]}`,
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}`,
		`{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}}`,
	}
	for _, model := range []string{"gpt-4o", "gpt-3.5-turbo-0301", "claude-x"} {
		e := newEstimator(t, Config{Logger: slog.New(slog.DiscardHandler)})
		for range 20 {
			var chat []string
			before := chatTokens(t, e, model, `[]`)
			for range 12 {
				chat = append(chat, messages[r.IntN(len(messages))])
				now := chatTokens(t, e, model, `[`+strings.Join(chat, ",")+`]`)
				if now <= before {
					t.Fatalf("%s: %d tokens after %d, with %s", model, now, before, chat)
				}
				before = now
			}
		}
	}
}

func TestTokensAreAtMostBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, model := range modelOf {
		e := newEstimator(t, Config{})
		for range 200 {
			b := make([]rune, 1+r.IntN(60))
			for i := range b {
				b[i] = rune(r.IntN(1 << (3 + r.IntN(15))))
			}
			text := strings.ToValidUTF8(string(b), "")
			if got := textTokens(t, e, model, text); got.Input > int64(max(1, len(text))) {
				t.Errorf("%q: %+v in %d bytes", text, got, len(text))
			}
		}
	}
}

func FuzzParseChat(f *testing.F) {
	for _, b := range []string{
		`{"messages":[{"role":"user","content":"hello"}]}`, `{"messages":[{"role":"user","content":null}],"n":1e18}`,
		`{"input":[{"type":"function_call","name":"f","arguments":{}}],"max_output_tokens":-1}`,
		`{"prompt":["a",[1,2]],"best_of":2}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":null}}]}],"tools":[{}],"tool_choice":{"function":{"name":5}}}`,
		`{"messages":[{"content":[{"type":"tool_result","content":[{"type":"input_audio","input_audio":{"data":"UklGRgAAAABXQVZFZm10IA=="}}]}]}]}`,
		`{"messages":[{"content":"\ud83d"}],"response_format":{"json_schema":{}}}`, `{"messages":[[[[{}]]]],"messages":[]}`,
	} {
		f.Add([]byte(b))
	}
	e := withCounter(newEstimator(f, Config{Logger: slog.New(slog.DiscardHandler)}), &fakeCounter{})
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, parse := range []func([]byte) (*Request, error){ParseChat, ParseEmbeddings} {
			body := bytes.Clone(input)
			r, err := parse(body)
			if !bytes.Equal(body, input) {
				t.Fatal("the body was changed")
			}
			var re *RequestError
			if (r == nil) != (err != nil) || err != nil && !errors.As(err, &re) {
				t.Fatalf("%v %v", r, err)
			}
			if !json.Valid(body) && err == nil {
				t.Fatal("accepted what is not JSON")
			}
			if r == nil {
				continue
			}
			for _, model := range []string{"", "gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo-0301"} {
				got := measure(t, e, model, r)
				if got.Input < 1 || got.Input > MaxTokens || got.Output < 0 || got.Output > MaxTokens ||
					(got.Method == Exact) != (got.Upper == 0) || got.Upper != 0 && got.Upper < got.Input {
					t.Fatalf("%+v", got)
				}
			}
			before := measure(t, e, "gpt-4o", r)
			clear(body)
			if after := measure(t, e, "gpt-4o", r); before.Method != Sampled && after != before {
				t.Fatalf("%+v, and %+v once the body was overwritten", before, after)
			}
		}
	})
}
