package simprovider

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// named is an event with a name.
type named struct {
	name string
	data map[string]any
}

// namedEvents reads a stream of events with names.
func namedEvents(t *testing.T, rec *httptest.ResponseRecorder) (events []named, names string) {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); rec.Code != 200 || !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("status %d, Content-Type %q: %s", rec.Code, ct, rec.Body)
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(rec.Body.String(), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(frame, "\ndata: ")
		name, ok2 := strings.CutPrefix(name, "event: ")
		e := named{name: name}
		if err := json.Unmarshal([]byte(data), &e.data); !ok || !ok2 || err != nil || e.data["type"] != name {
			t.Fatalf("bad frame %q: %v", frame, err)
		}
		events = append(events, e)
		names += name + " "
	}
	return events, names
}

// at follows keys and indices into a value of JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			a, _ := v.([]any)
			if p >= len(a) {
				return nil
			}
			v = a[p]
		}
	}
	return v
}

const awkwardText = "Grüße 👩‍👧 \"q\" \\ <b>&, %s end"

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

func TestMessages(t *testing.T) {
	cfg := imitating(KindAnthropic)
	s := mustNew(t, cfg)
	cache := []string{"X-Sim-Cache-Read-Tokens", "6", "X-Sim-Cache-Write-Tokens", "3"}
	body := func(text, extra string) string {
		return `{"model":"claude-x","unknown":{"a":1},"system":[{"type":"text","text":"xxxxxxxx"}],"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"text","text":` + quoted(text) + `,"cache_control":{"type":"ephemeral"}}]}]` + extra + `}`
	}
	rec, _ := do(s, "POST", "/v1/messages", body("echo: "+awkwardText, `,"max_tokens":1000`), cache...)
	m := decode[map[string]any](t, rec)
	n := float64((len([]rune(awkwardText)) + 3) / 4)
	// 8 + 5 + 1 code points beside the text and its "echo: ".
	input := float64((len([]rune(awkwardText))+6+14+3)/4) - 9
	if at(m, "content", 0, "text") != awkwardText || m["type"] != "message" || m["role"] != "assistant" || m["stop_reason"] != "end_turn" ||
		at(m, "usage", "input_tokens") != input || at(m, "usage", "cache_read_input_tokens") != 6.0 || at(m, "usage", "cache_creation_input_tokens") != 3.0 || at(m, "usage", "output_tokens") != n {
		t.Errorf("%s", rec.Body)
	}

	rec, _ = do(s, "POST", "/v1/messages", body("words=50", `,"max_tokens":40,"stream":true`), cache...)
	events, names := namedEvents(t, rec)
	// All at once, in steps of 16 tokens.
	if names != "message_start content_block_start ping content_block_delta message_delta content_block_delta content_block_delta content_block_stop message_delta message_stop " {
		t.Errorf("events %s", names)
	}
	text := ""
	for _, e := range events {
		if e.name == "content_block_delta" {
			text += at(e.data, "delta", "text").(string)
		}
	}
	usage := at(events[0].data, "message", "usage")
	last := events[len(events)-2].data
	if len(strings.Fields(text)) != 40 || at(usage, "input_tokens") != 0.0 || at(usage, "cache_read_input_tokens") != 6.0 || at(usage, "output_tokens") != 1.0 ||
		at(events[4].data, "usage", "output_tokens") != 16.0 || at(last, "usage", "output_tokens") != 40.0 || at(last, "usage", "cache_read_input_tokens") != 6.0 || at(last, "delta", "stop_reason") != "max_tokens" {
		t.Errorf("%s", rec.Body)
	}

	before := s.Stats().Counts
	rec, _ = do(s, "POST", "/v1/messages/count_tokens", body("words=50", ``))
	sameJSON(t, rec, `{"input_tokens":6}`)
	if s.Stats().Counts != before {
		t.Error("counting was counted")
	}
}

func TestMessagesStreamFails(t *testing.T) {
	cfg := imitating(KindAnthropic)
	cfg.Faults = true
	s := mustNew(t, cfg)
	body := texts("claude-x", `,"max_tokens":100,"stream":true`, 4)
	rec, broken := do(s, "POST", "/v1/messages", body, "X-Sim-Fault", "stream_error_after=2", "X-Sim-Output-Tokens", "32")
	events, names := namedEvents(t, rec)
	if !broken || !strings.HasSuffix(names, "content_block_delta error ") || at(events[len(events)-1].data, "error", "type") != "overloaded_error" {
		t.Errorf("broken %v, %s", broken, names)
	}
	rec, broken = do(s, "POST", "/v1/messages", body, "X-Sim-Fault", "cut_after=1", "X-Sim-Output-Tokens", "32")
	if _, names := namedEvents(t, rec); !broken || !strings.HasSuffix(names, "ping content_block_delta message_delta ") {
		t.Errorf("broken %v, %s", broken, names)
	}
	rec, _ = do(s, "POST", "/v1/messages", body, "X-Sim-Fault", "status=529;retry_after=3")
	headers(t, rec, map[string]string{"Retry-After": "3"})
	if rec.Code != 529 || !strings.Contains(rec.Body.String(), `"type":"overloaded_error"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestResponses(t *testing.T) {
	s := mustNew(t, imitating(KindOpenAI))
	rec, _ := do(s, "POST", "/v1/responses", `{"model":"other","store":false,"instructions":"xxxx","input":`+quoted("echo: "+awkwardText)+`}`, "X-Sim-Cache-Read-Tokens", "5")
	m := decode[map[string]any](t, rec)
	n := float64((len([]rune(awkwardText)) + 3) / 4)
	input := float64((len([]rune(awkwardText)) + 6 + 4 + 3) / 4)
	if m["object"] != "response" || m["status"] != "completed" || at(m, "output", 0, "content", 0, "text") != awkwardText ||
		at(m, "usage", "input_tokens") != input || at(m, "usage", "input_tokens_details", "cached_tokens") != 5.0 || at(m, "usage", "output_tokens") != n || at(m, "usage", "total_tokens") != input+n {
		t.Errorf("%s", rec.Body)
	}

	rec, _ = do(s, "POST", "/v1/responses", `{"model":"other","stream":true,"max_output_tokens":20,"input":[{"role":"user","content":[{"type":"input_text","text":"words=50"}]},{"type":"function_call_output","output":"x"}]}`)
	events, names := namedEvents(t, rec)
	if names != "response.created response.output_item.added response.content_part.added response.output_text.delta response.output_text.delta response.output_text.done response.content_part.done response.output_item.done response.incomplete " {
		t.Errorf("events %s", names)
	}
	text := ""
	for i, e := range events {
		if e.data["sequence_number"] != float64(i) {
			t.Errorf("event %d: %v", i, e.data)
		}
		if e.name == "response.output_text.delta" {
			text += e.data["delta"].(string)
		}
	}
	last := at(events[len(events)-1].data, "response")
	if at(events[0].data, "response", "usage") != nil || len(strings.Fields(text)) != 20 || text != at(last, "output", 0, "content", 0, "text") ||
		at(last, "usage", "output_tokens") != 20.0 || at(last, "usage", "input_tokens") != 2.0 || at(last, "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("%s", rec.Body)
	}
}

func TestConverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Config{Imitate: KindBedrock, TPM: 100_000, Models: []Model{{ID: "arn:aws:bedrock:x/claude:0"}}})
		rec, _ := do(s, "POST", "/model/arn:aws:bedrock:x%2Fclaude:0/converse",
			`{"system":[{"text":"xxxx"}],"messages":[{"role":"user","content":[{"text":"words=10"},{"cachePoint":{"type":"default"}}]}],"inferenceConfig":{"maxTokens":5,"temperature":1}}`,
			"X-Sim-Cache-Read-Tokens", "2")
		// 600 ms to the first byte, and 5 tokens at 50 a second.
		sameJSON(t, rec, `{"output":{"message":{"role":"assistant","content":[{"text":"alpha beta gamma delta epsilon"}]}},"stopReason":"max_tokens","usage":{"inputTokens":1,"outputTokens":5,"totalTokens":8,"cacheReadInputTokens":2,"cacheWriteInputTokens":0},"metrics":{"latencyMs":700}}`)
		if got := s.Stats().TokensCharged; got != 1+5*5 {
			t.Errorf("charged %d", got)
		}
		if s.clock() != 700*time.Millisecond {
			t.Errorf("it took %v", s.clock())
		}
	})
}
