package simprovider

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

type chatAnswer struct {
	ID      string
	Choices []struct {
		Index   int
		Message struct {
			Content   *string
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	}
}

func TestPlainGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 500, TPM: 30_000})
		begin := time.Now()
		rec := chat(s, "words=3", `,"max_tokens":10`)
		want := `{"id":"chatcmpl-4ae3fb162","object":"chat.completion","created":946684800,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"alpha beta gamma","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`
		want = strings.ReplaceAll(want, "4ae3fb16", s.run)
		if got := rec.Body.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		// 600 ms before the first byte, and 3 tokens at 3,000 a minute.
		if took := time.Since(begin); took != 660*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		// A charge of 2+10 at 30,000 a minute is back after 24 ms.
		for name, want := range map[string]string{
			"Content-Type":                   "application/json",
			"Content-Length":                 fmt.Sprint(len(want)),
			"X-Request-Id":                   "req_" + s.run + "1",
			"X-Ratelimit-Limit-Requests":     "500",
			"X-Ratelimit-Remaining-Requests": "499",
			"X-Ratelimit-Reset-Requests":     "120ms",
			"X-Ratelimit-Limit-Tokens":       "30000",
			"X-Ratelimit-Remaining-Tokens":   "29988",
			"X-Ratelimit-Reset-Tokens":       "24ms",
		} {
			if got := rec.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// TestAnswers checks what is said and counted, plain and streamed alike.
func TestAnswers(t *testing.T) {
	s := mustNew(t, instant())
	const weather = `,"tools":[{"type":"function","function":{"name":"get_time"}},{"type":"function","function":{"name":"get_weather"}}],"tool_choice":`
	awkward := "Grüße 👩‍👩‍👧‍👦 日本語, \"quotes\" \\ \ttab, <b>&amp;</b>, \u2028 end"
	for _, tc := range []struct {
		name, text, extra, header string
		content, tool, finish     string
		choices                   int
		prompt, completion        int64
	}{
		{name: "echo", text: "echo: hello there", content: "hello there", finish: "stop", choices: 1, prompt: 5, completion: 3},
		{name: "echo verbatim", text: "echo:" + awkward, content: awkward, finish: "stop", choices: 1,
			prompt: int64(utf8.RuneCountInString(awkward)+5+3) / 4, completion: int64(utf8.RuneCountInString(awkward)+3) / 4},
		{name: "empty echo", text: "echo:", finish: "stop", choices: 1, prompt: 2, completion: 1},
		{name: "words", text: "Say it. words=7", content: "alpha beta gamma delta epsilon alpha beta", finish: "stop", choices: 1, prompt: 4, completion: 7},
		{name: "no words", text: "words=0", content: "alpha", finish: "stop", choices: 1, prompt: 2, completion: 1},
		{name: "default", text: "hi", extra: `,"max_tokens":200`, content: strings.TrimSpace(strings.Repeat(" alpha beta gamma delta epsilon", 20)), finish: "stop", choices: 1, prompt: 1, completion: 100},
		{name: "cap", text: "words=7", extra: `,"max_tokens":2`, content: "alpha beta", finish: "length", choices: 1, prompt: 2, completion: 2},
		{name: "smaller cap", text: "echo: 123456789", extra: `,"max_tokens":100,"max_completion_tokens":2`, content: "12345678", finish: "length", choices: 1, prompt: 4, completion: 2},
		{name: "three choices", text: "words=2", extra: `,"n":3`, content: "alpha beta", finish: "stop", choices: 3, prompt: 2, completion: 6},
		{name: "exact", text: "words=2", header: "5000", content: strings.TrimSpace(strings.Repeat(" alpha beta gamma delta epsilon", 6)) + " alpha beta", finish: "stop", choices: 1, prompt: 2, completion: 5000},
		{name: "exact but capped", text: "x", extra: `,"max_tokens":3`, header: "5000", content: "alpha beta gamma", finish: "length", choices: 1, prompt: 1, completion: 3},
		{name: "tool by name", text: "x", extra: weather + `{"type":"function","function":{"name":"get_weather"}}`, tool: "get_weather", content: toolArguments, finish: "tool_calls", choices: 1, prompt: 27, completion: 9},
		{name: "tool required", text: "x", extra: weather + `"required","n":2`, tool: "get_time", content: toolArguments, finish: "tool_calls", choices: 2, prompt: 27, completion: 18},
		{name: "no tool", text: "words=1", extra: weather + `"none"`, content: "alpha", finish: "stop", choices: 1, prompt: 29, completion: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var headers []string
			if tc.header != "" {
				headers = []string{"X-Sim-Output-Tokens", tc.header}
			}
			rec := chat(s, tc.text, tc.extra, headers...)
			plain := decode[chatAnswer](t, rec)
			events := readStream(t, chat(s, tc.text, tc.extra+`,"stream":true,"stream_options":{"include_usage":true}`, headers...))
			streamed := assemble(t, events)
			for mode, got := range map[string]chatAnswer{"plain": plain, "streamed": streamed} {
				if len(got.Choices) != tc.choices {
					t.Fatalf("%s: %d choices, want %d: %s", mode, len(got.Choices), tc.choices, rec.Body)
				}
				for i, c := range got.Choices {
					content, tool := "", ""
					if c.Message.Content != nil {
						content = *c.Message.Content
					}
					if len(c.Message.ToolCalls) == 1 {
						f := c.Message.ToolCalls[0]
						content, tool = f.Function.Arguments, f.Function.Name
						if f.ID == "" || f.Type != "function" {
							t.Errorf("%s: tool call %+v", mode, f)
						}
					}
					if c.Index != i || content != tc.content || tool != tc.tool || c.FinishReason != tc.finish {
						t.Errorf("%s: choice %d: %q, tool %q, finish %q; want %q, %q, %q", mode, c.Index, content, tool, c.FinishReason, tc.content, tc.tool, tc.finish)
					}
				}
				if got.Usage.Prompt != tc.prompt || got.Usage.Completion != tc.completion || got.Usage.Total != tc.prompt+tc.completion {
					t.Errorf("%s: usage %+v, want %d and %d", mode, got.Usage, tc.prompt, tc.completion)
				}
			}
		})
	}
}

// TestInputCharacters checks what counts as input.
func TestInputCharacters(t *testing.T) {
	s := mustNew(t, instant())
	for _, tc := range []struct {
		name, messages, extra string
		want                  int64
	}{
		{"code points, not bytes", `{"role":"user","content":"日本語テキスト"}`, "", 2},
		{"escapes", `{"role":"user","content":"\u00e9\n\ud83d\ude00\\\"\/xy"}`, "", 2},
		{"halves of surrogate pairs", `{"role":"user","content":"\ude00\ud83d\ud83dA\uD83D"}`, "", 2},
		{"all messages, rounded once", `{"role":"system","content":"abc"},{"role":"user","content":"de"}`, "", 2},
		{"parts", `{"role":"user","content":[{"type":"text","text":"abcd"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"efgh"}]}`, "", 2},
		{"null content", `{"role":"user","content":"abcd"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1"}]},{"role":"tool","tool_call_id":"call_1","content":"{}"}`, "", 2},
		{"tools as sent", `{"role":"user","content":"abcd"}`, `,"tools":[{"type":"function", "function":{"name":"é"}}]`, 13},
		{"nothing", `{"role":"user","content":""}`, "", 0},
	} {
		rec, _ := do(s, http.MethodPost, "/v1/chat/completions", `{"model":"gpt-4o-mini","messages":[`+tc.messages+`]`+tc.extra+`}`)
		if got := decode[chatAnswer](t, rec).Usage.Prompt; got != tc.want {
			t.Errorf("%s: %d prompt tokens, want %d", tc.name, got, tc.want)
		}
	}
}

// TestAdmissionCharge checks input + n × the largest cap, and the default.
func TestAdmissionCharge(t *testing.T) {
	for _, tc := range []struct {
		name, extra   string
		defaultOutput int64
		settle        Settle
		want          int64
	}{
		{"cap", `,"max_tokens":100`, 0, Final, 102},
		{"larger cap", `,"max_tokens":100,"max_completion_tokens":7`, 0, Final, 102},
		{"times n", `,"max_tokens":100,"n":3`, 0, Final, 302},
		{"default", ``, 0, Final, 642},
		{"default times n", `,"n":2`, 50, Final, 102},
		{"no default", ``, -1, Final, 2},
		{"actual charges the cap first", `,"max_tokens":100`, 0, Actual, 102},
		{"produced charges the input", `,"max_tokens":100`, 0, Produced, 2},
	} {
		cfg := instant()
		cfg.DefaultOutput, cfg.Settle = tc.defaultOutput, tc.settle
		s := mustNew(t, cfg)
		chat(s, "words=1", tc.extra)
		if got := s.Stats().TokensAdmitted; got != tc.want {
			t.Errorf("%s: admitted %d tokens, want %d", tc.name, got, tc.want)
		}
	}
}

// TestGoneClient: generation stops with the client, and the charge is settled.
func TestGoneClient(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, tc := range []struct {
			settle Settle
			after  time.Duration
			want   int64
		}{
			{Final, 1600 * time.Millisecond, 3 + 100},
			{Actual, 300 * time.Millisecond, 3},             // before the first byte
			{Actual, 1610 * time.Millisecond, 3 + 2*50},     // a second's worth, twice
			{Produced, 1610 * time.Millisecond, 3 + 2*50},   // charged as it came
			{Produced, 100_000 * time.Millisecond, 3 + 160}, // longer than it takes
		} {
			t.Run(fmt.Sprintf("%s,%v,%v", tc.settle, tc.after, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mustNew(t, Config{RPM: 10, TPM: 10_000, Settle: tc.settle, DefaultOutput: 50})
					ctx, cancel := context.WithTimeout(t.Context(), tc.after)
					defer cancel()
					var rec *httptest.ResponseRecorder
					var broken bool
					go func() {
						rec, broken = doContext(ctx, s, http.MethodPost, "/v1/chat/completions", chatJSON("words=80...", fmt.Sprintf(`,"n":2,"stream":%v`, stream)))
					}()
					synctest.Wait()
					if n := s.Stats().InFlight; n != 1 {
						t.Errorf("%d in flight", n)
					}
					time.Sleep(tc.after)
					synctest.Wait()
					st := s.Stats()
					if st.InFlight != 0 || st.TokensCharged != tc.want {
						t.Errorf("%d in flight, %d tokens charged, want %d", st.InFlight, st.TokensCharged, tc.want)
					}
					late := tc.after > 2200*time.Millisecond // when the answer is complete
					switch {
					case late && (broken || rec.Code != http.StatusOK):
						t.Errorf("a complete answer was broken off: %d, %v", rec.Code, broken)
					case !late && (stream && tc.after > 600*time.Millisecond) != broken:
						t.Errorf("broken %v", broken)
					case !late && !broken && rec.Code != http.StatusServiceUnavailable:
						t.Errorf("status %d", rec.Code)
					case strings.Contains(rec.Body.String(), "[DONE]") != (late && stream):
						t.Errorf("body %s", rec.Body)
					}
				})
			})
		}
	}
}

func TestLengths(t *testing.T) {
	cfg := instant()
	cfg.Output = Lengths{Mean: 300, Sigma: 0.8}
	const draws = 20_000
	draw := func(seed uint64) (lengths []int64, mean int64) {
		cfg.Seed = seed
		s := mustNew(t, cfg)
		// The first through the front door.
		lengths = append(lengths, decode[chatAnswer](t, chat(s, "hi", "")).Usage.Completion)
		for len(lengths) < draws {
			lengths = append(lengths, s.drawLength())
		}
		for _, n := range lengths {
			mean += n
		}
		return lengths, mean / draws
	}
	a, mean := draw(1)
	b, _ := draw(1)
	c, _ := draw(2)
	if !slices.Equal(a, b) {
		t.Error("the same seed gives other lengths")
	}
	if slices.Equal(a, c) {
		t.Error("another seed gives the same lengths")
	}
	// The standard error of the mean is 2 tokens, and the median is 300·exp(-σ²/2).
	slices.Sort(a)
	if median := a[draws/2]; mean < 290 || mean > 310 || median < 210 || median > 226 {
		t.Errorf("the mean length is %d and the median %d, want about 300 and 218", mean, median)
	}
}
