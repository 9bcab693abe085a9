package simprovider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// readStream checks the framing that real clients need, and returns the data of
// the events before [DONE].
func readStream(t *testing.T, rec *httptest.ResponseRecorder) [][]byte {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); rec.Code != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("status %d, Content-Type %q: %s", rec.Code, ct, rec.Body)
	}
	frames := bytes.Split(rec.Body.Bytes(), []byte("\n\n"))
	if n := len(frames); n < 2 || len(frames[n-1]) != 0 || string(frames[n-2]) != "data: [DONE]" {
		t.Fatalf("the stream does not end with [DONE] and a blank line: %q", rec.Body)
	}
	var events [][]byte
	for _, f := range frames[:len(frames)-2] {
		if string(f) == ": keep-alive" {
			continue
		}
		data, ok := bytes.CutPrefix(f, []byte("data: "))
		if !ok || bytes.Contains(f, []byte("\n")) || len(f) >= 64<<10 {
			t.Fatalf("bad frame %q", f)
		}
		events = append(events, data)
	}
	return events
}

// assemble puts the chunks of a stream with usage together, checking on the way
// that they are what clients can put together.
func assemble(t *testing.T, events [][]byte) chatAnswer {
	t.Helper()
	var all chatAnswer
	for i, e := range events {
		var keys map[string]json.RawMessage
		var chunk struct {
			ID, Object string
			Choices    []struct {
				Index *int
				Delta struct {
					Role      *string
					Content   *string
					ToolCalls []struct {
						Index    int
						ID, Type *string
						Function struct{ Name, Arguments *string }
					} `json:"tool_calls"`
				}
				FinishReason *string `json:"finish_reason"`
			}
		}
		if json.Unmarshal(e, &keys) != nil || json.Unmarshal(e, &chunk) != nil || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("bad chunk %s", e)
		}
		if _, ok := keys["error"]; ok { // openai-go fails on the key, even with null
			t.Fatalf("a chunk has a key named error: %s", e)
		}
		if all.ID == "" {
			all.ID = chunk.ID
		}
		if chunk.ID != all.ID {
			t.Fatalf("the id changes: %s", e)
		}
		last := i == len(events)-1
		if last != (string(keys["usage"]) != "null") || last != (len(chunk.Choices) == 0) {
			t.Fatalf("only the last chunk has usage and no choices: %s", e)
		}
		if last {
			if string(keys["choices"]) != "[]" || json.Unmarshal(keys["usage"], &all.Usage) != nil {
				t.Fatalf("bad usage chunk %s", e)
			}
			break
		}
		c := chunk.Choices[0]
		for len(all.Choices) <= *c.Index {
			if c.Delta.Role == nil || *c.Delta.Role != "assistant" {
				t.Fatalf("the first delta has no role: %s", e)
			}
			all.Choices = append(all.Choices, chatAnswer{}.Choices...)
			all.Choices = slices.Grow(all.Choices, 1)[:len(all.Choices)+1]
			all.Choices[*c.Index].Index = *c.Index
		}
		to := &all.Choices[*c.Index]
		if c.Delta.Content != nil {
			text := *c.Delta.Content
			if to.Message.Content != nil {
				text = *to.Message.Content + text
			}
			to.Message.Content = &text
		}
		for _, call := range c.Delta.ToolCalls {
			if call.Index == len(to.Message.ToolCalls) {
				to.Message.ToolCalls = slices.Grow(to.Message.ToolCalls, 1)[:call.Index+1]
				tc := &to.Message.ToolCalls[call.Index]
				tc.ID, tc.Type, tc.Function.Name = *call.ID, *call.Type, *call.Function.Name
			} else if call.ID != nil || call.Type != nil || call.Function.Name != nil {
				t.Fatalf("a later piece of a tool call repeats what it is: %s", e)
			}
			to.Message.ToolCalls[call.Index].Function.Arguments += *call.Function.Arguments
		}
		if c.FinishReason != nil {
			to.FinishReason = *c.FinishReason
		}
	}
	return all
}

// TestStreamGolden compares the bytes on the wire. No line is an event or id line:
// a repeated id makes openai-python 2.37 and earlier crash (llmgateway#2334).
func TestStreamGolden(t *testing.T) {
	const head = `data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":946684800,"model":"gpt-4o-mini","choices":[`
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","max_tokens":5`
	for _, tc := range []struct {
		name, text, extra string
		want              []string
	}{
		{"without usage", "words=7", "", []string{
			head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{"content":"alpha beta gamma delta epsilon"},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{"content":" alpha beta"},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			`data: [DONE]`,
		}},
		{"with usage", "echo: \"é\"", `,"stream_options":{"include_usage":true}`, []string{
			head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
			head + `{"index":0,"delta":{"content":"\"é\""},"logprobs":null,"finish_reason":null}],"usage":null}`,
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
			head + `],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`,
			`data: [DONE]`,
		}},
		{"usage not wanted", "words=1", `,"stream_options":{"include_usage":false},"n":2`, []string{
			head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{"content":"alpha"},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":1,"delta":{"content":"alpha"},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			head + `{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			`data: [DONE]`,
		}},
		{"tool call", "x", tools, []string{
			head + `{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_RUN_0","type":"function","function":{"name":"f","arguments":""}}]},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Zürich\",\"un"}}]},"logprobs":null,"finish_reason":null}]}`,
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}`,
			`data: [DONE]`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mustNew(t, Config{RPM: 10, TPM: 10_000})
				rec := chat(s, tc.text, tc.extra+`,"stream":true`)
				want := strings.Join(tc.want, "\n\n") + "\n\n"
				want = strings.NewReplacer("chatcmpl-ID", "chatcmpl-"+s.run+"2", "call_RUN", "call_"+s.run+"2").Replace(want)
				if got := rec.Body.String(); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				h := rec.Header()
				if h.Get("Content-Type") != "text/event-stream; charset=utf-8" || h.Get("Cache-Control") != "no-cache" || h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Length") != "" {
					t.Errorf("headers %v", h)
				}
			})
		})
	}
}

// timedWriter notes when each flush came.
type timedWriter struct {
	httptest.ResponseRecorder
	begin   time.Time
	flushes []time.Duration
	written []int
}

func (w *timedWriter) Flush() {
	w.flushes = append(w.flushes, time.Since(w.begin))
	w.written = append(w.written, w.Body.Len())
}

// TestStreamPace: each event is flushed when its tokens have been produced.
func TestStreamPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 10, TPM: 10_000, Minute: 6 * time.Second})
		w := &timedWriter{ResponseRecorder: *httptest.NewRecorder(), begin: time.Now()}
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatJSON("words=12", `,"stream":true`))))
		ms := time.Millisecond
		// The role after 0.01 minutes; 5, 5 and 2 tokens at 3,000 a minute; the end.
		want := []time.Duration{60 * ms, 70 * ms, 80 * ms, 84 * ms, 84 * ms, 84 * ms}
		if !slices.Equal(w.flushes, want) {
			t.Errorf("flushed at %v, want %v", w.flushes, want)
		}
		for i := 1; i < len(w.written); i++ {
			if w.written[i] <= w.written[i-1] {
				t.Errorf("nothing was written before flush %d: %v", i, w.written)
			}
		}
	})
}

// TestExactStreamIsShort: a long answer asked for by header takes its time but not
// the bytes, and what it produces is charged all the same.
func TestExactStreamIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 10, TPM: 100_000, Settle: Produced})
		begin := time.Now()
		go func() {
			rec := chat(s, "", `,"stream":true,"max_tokens":9000`, "X-Sim-Output-Tokens", "9000")
			if n := len(readStream(t, rec)); n != 34 || rec.Body.Len() > 8000 {
				t.Errorf("%d events, %d bytes", n, rec.Body.Len())
			}
			if took := time.Since(begin); took != 3*time.Minute+600*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}()
		for i := range int64(180) {
			time.Sleep(time.Until(begin.Add(600*time.Millisecond + time.Duration(i)*time.Second)))
			synctest.Wait()
			if got := s.Stats().TokensCharged; got != 50*i {
				t.Fatalf("%d tokens charged after %d s, want %d", got, i, 50*i)
			}
		}
		time.Sleep(2 * time.Second)
	})
}

// failingWriter stands for a connection that breaks after some events.
type failingWriter struct {
	httptest.ResponseRecorder
	left int
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, fmt.Errorf("broken pipe")
	}
	return w.ResponseRecorder.Write(b)
}

func TestStreamStopsAtAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{RPM: 10, TPM: 10_000, Settle: Actual})
		w := &failingWriter{*httptest.NewRecorder(), 3}
		begin := time.Now()
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("recovered %v", v)
			}
			// The role and two chunks were written; the third, of 5 tokens more, was not.
			if st := s.Stats(); time.Since(begin) != 900*time.Millisecond || st.TokensCharged != 2+15 || st.InFlight != 0 {
				t.Errorf("stopped after %v with %+v", time.Since(begin), st.Counts)
			}
		}()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatJSON("words=99", `,"stream":true`))))
	})
}
