package estimator

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

type noNetwork struct{ t *testing.T }

func (n noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("the network was used for %s", r.URL)
	return nil, errors.New("no network")
}

// What other projects' counters got wrong in public. Each row names the report,
// what was said there, and what a request of that kind must count: low to high.
func TestPublicReports(t *testing.T) {
	transport := http.DefaultTransport
	http.DefaultTransport = noNetwork{t}
	defer func() { http.DefaultTransport = transport }()

	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	text := func(s string) string { return user(quote(s)) }
	assistant := func(fields string) string {
		return `{"messages":[{"role":"assistant","content":null,` + fields + `}]}`
	}
	random := func(n int) string {
		r := rand.New(rand.NewPCG(1, 2))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	// A 1024x1024 image of 750,000 bytes.
	big := base64.StdEncoding.EncodeToString(append(encoded(t, 1024, 1024)["png"], make([]byte, 750_000)...))
	url := `"data:image/png;base64,` + big + `"`

	const one = 3 + 3 + 1 // a chat of one message without content
	for _, c := range []struct {
		report, was string
		model, body string
		low, high   int64
	}{
		{"BerriAI/litellm#32865", "base64 counted as text", "gpt-4o",
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"hello world"},{"type":"input_image","image_url":` + url + `}]}]}`,
			one + 2 + 765, one + 2 + 765},
		{"langchain-ai/langchain-google#879", "1,369,082 instead of 3,358", "gemini-2.0-flash",
			user(`[{"type":"image_url","image_url":{"url":` + url + `}}]`), one + 85, 3358},
		{"langchain-ai/langchain#34873", "25,000 instead of 85", "gpt-4o",
			user(`[{"type":"image_url","image_url":{"detail":"low","url":` + url + `}}]`), one + 85, one + 85},
		{"HKUDS/nanobot#2277", "images not counted", "gpt-4o",
			user(`[` + strings.Repeat(`{"type":"image_url","image_url":{"url":"https://x/y"}},`, 9) + `{"type":"text","text":"hello world"}]`),
			one + 9*765, one + 9*1445 + 2},
		{"openai/codex#11845", "payload of an image in a tool's output counted", "gpt-4o",
			`{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":` + url + `}]}]}`,
			3 + 3 + 765, 3 + 3 + 765},
		{"BerriAI/litellm#4036", "text beside an image lost", "gpt-4o",
			user(`[{"type":"image_url","image_url":{"url":"https://x/y","detail":"low"}},{"type":"text","text":"hello world"}]`),
			one + 85 + 2, one + 85 + 2},
		{"FoundationAgents/MetaGPT#1961", "only the last text counted", "gpt-4o",
			user(`[{"type":"text","text":"hello world"},{"type":"text","text":"hello world"}]`), one + 4, one + 4},
		{"FoundationAgents/MetaGPT#1961", "TypeError for an image alone", "gpt-4o",
			user(`[{"type":"image_url","image_url":{"url":"https://x/y","detail":"low"}}]`), one + 85, one + 85},
		{"langchain-ai/langchainjs#8310", "0 for an array", "gpt-4o",
			user(`[{"type":"text","text":"hello world"}]`), one + 2, one + 2},
		{"langchain-ai/langchain#26046", "the image was fetched", "gpt-4o",
			user(`[{"type":"image_url","image_url":{"url":"http://127.0.0.1:1/redirects.png"}}]`), one + 1445, one + 1445},
		{"Azure/azure-openai-benchmark#59", "TypeError for null content", "gpt-4",
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null}]}`, 12, 12},
		{"langchain-ai/langchain#23388", "ValueError for tool calls", "gpt-4o",
			`{"messages":[{"role":"assistant","content":"hello world","tool_calls":[{"id":"c","type":"function","function":{"name":"hello world","arguments":"{}"}}]}]}`,
			one + 2 + 3 + 2 + 1, one + 2 + 3 + 2 + 1},
		{"langchain-ai/langchain#6706, #24901", "TypeError for a function call", "gpt-4",
			assistant(`"function_call":{"name":"hello world","arguments":"{}"}`), one + 3 + 2 + 1, one + 3 + 2 + 1},
		{"BerriAI/litellm#31741", "4,000 characters of arguments not counted", "gpt-4o",
			assistant(`"function_call":{"name":"f","arguments":"{\"a\":\"` + strings.Repeat("word ", 800) + `\"}"}`), 800, 830},
		{"BerriAI/litellm#10409, #10383", "a message of a tool made the total fall", "gpt-4o",
			`{"messages":[{"role":"user","content":"hello world"},{"role":"tool","tool_call_id":"c","content":"hello world"}]}`,
			one + 2 + 4 + 2, one + 2 + 4 + 2},
		{"BerriAI/litellm#6958, headroomlabs-ai/headroom#2782", "crash for arguments that are an object", "gpt-4o",
			assistant(`"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]`), one + 3 + 1 + 4, one + 3 + 1 + 6},
		{"headroomlabs-ai/headroom#2782", "crash for arguments that are null", "gpt-4o",
			assistant(`"tool_calls":[{"function":{"name":"f","arguments":null}}]`), one + 3 + 1, one + 3 + 1},
		{"headroomlabs-ai/headroom#2782", "crash for arguments that are a number", "gpt-4o",
			assistant(`"tool_calls":[{"function":{"name":"f","arguments":7}}]`), one + 3 + 1 + 1, one + 3 + 1 + 1},
		{"zurawiki/tiktoken-rs#40", "66 for a function call and its result", "gpt-4-0613",
			`{"messages":[{"role":"system","content":"You are a friendly chatbot.\n"},` +
				`{"role":"assistant","content":"Hello, I am a friendly chatbot!\n"},` +
				`{"role":"user","content":"What is the weather in New York?"},` +
				`{"role":"assistant","content":"","function_call":{"name":"get_weather","arguments":"{\n  \"city\": \"New York\"\n}"}},` +
				`{"role":"function","name":"get_weather","content":"{\"temperature\": 72, \"conditions\": \"partly_cloudy\"}"}]}`,
			78, 78},
		{"BerriAI/litellm#14236, #10734", "exception for tool_use and tool_result parts", "gpt-4o",
			user(`[{"type":"tool_use","name":"f","input":{"a":"hello world"}},{"type":"tool_result","content":[{"type":"text","text":"hello world"}]}]`),
			one + 4, one + 30},
		{"BerriAI/litellm#16348, #36604", "exception for file and reasoning parts", "gpt-4o",
			user(`[{"type":"file","file":{"file_id":"f"}},{"type":"thinking","thinking":"hello world"}]`), one + 4096 + 2, one + 4096 + 12},
		{"BerriAI/litellm#40436", "exception for an unknown part", "gpt-4o", user(`[{"type":"hologram"},{}]`), one + 1, one + 8},
		{"BerriAI/litellm#1702", "always 3", "gpt-4o",
			text("this long text should be more than 3 tokens bla bla sdfkjs sdflkj sdf"), one + 19, one + 19},
		{"openai/openai-cookbook#1270", "TypeError for a weight", "gpt-4o",
			assistant(`"weight":1`), one, one},
		{"RooCodeInc/Roo-Code#7539, kolega-ai/kolega-code#411, pinecone-io/canopy#70", "exception for a special token", "gpt-4o",
			text("<|endoftext|>"), one + 7, one + 7},
		{"openai/tiktoken#82", "UnicodeEncodeError for half a pair", "gpt-4o", user(`"\ud83d"`), one + 1, one + 1},
		{"openai/tiktoken#541", "UnicodeEncodeError for half a pair", "gpt-4", user(`"\udbc0"`), one + 1, one + 1},
		{"openai/tiktoken#15, #245, #327, #400", "panic", "gpt-4", text(strings.Repeat("^", 1_000_000)), 250_000, 260_000},
		{"openai/tiktoken#15, #245, #327, #400", "panic", "gpt-4o", text(strings.Repeat("^", 1_000_000)), 125_000, 130_000},
		{"openai/tiktoken#195", "quadratic", "gpt-4o", text(strings.Repeat("a", 100_000)), 12_500, 13_000},
		{"openai/tiktoken#195", "quadratic", "gpt-4o", text(strings.Repeat("a ", 50_000)), 50_001, 52_000},
		{"yethee/tiktoken-php#25", "5 minutes", "gpt-4o", text(random(100_000)), 50_300, 54_500},
		{"openai/harmony#93", "stack overflow", "gpt-4o", text(strings.Repeat("a", 1_300_000)), 162_500, 169_000},
		{"zurawiki/tiktoken-rs#117", "stack overflow", "gpt-4o", text(strings.Repeat("A", 1_000_000)), 125_000, 130_000},
		{"gptscript-ai/gptscript#942", "20,000 by characters / 3", "gpt-4o", text(strings.Repeat("1\n", 30_000)), 60_000 + one, 60_000 + one},
		{"microsoft/autogen#6980, openai/tiktoken#474", "tools not counted", "gpt-4o",
			`{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"` + strings.Repeat("word ", 500) + `"}}]}`,
			515, 540},
		{"router-for-me/CLIProxyAPI#679", "system prompt not counted", "gpt-4o",
			`{"instructions":"` + strings.Repeat("word ", 500) + `","input":"hello world"}`, 3 + 501 + 4 + 6, 3 + 502 + 4 + 6},
		// 8 tokens in o200k_base, 9 in cl100k_base.
		{"pkoukk/tiktoken-go#55", "no encoding for o1", "o1", text("お誕生日おめでとう"), one + 8, one + 8},
		{"pkoukk/tiktoken-go#12", "no encoding for dated names", "gpt-3.5-turbo-0613", text("お誕生日おめでとう"), one + 9, one + 9},
		{"openai/tiktoken#363, #329", "cl100k_base for a fine-tuned gpt-4o", "ft:gpt-4o:acme::abc123", text("お誕生日おめでとう"), one + 8, one + 8},
		{"argilla-io/distilabel#1178", "ValueError for a null answer sent back", "gpt-4o",
			assistant(`"refusal":null`), one, one},
		{"tiktoken-go/tokenizer v0.10.0", "2", "gpt-4o", text("\n    \n"), one + 1, one + 1},
		{"tiktoken-go/tokenizer v0.10.0", "4", "gpt-4o", text("a\n    \nb"), one + 3, one + 3},
	} {
		e := newEstimator(t, Config{Logger: slog.New(slog.DiscardHandler)})
		r := parseChat(t, c.body)
		got := measure(t, e, c.model, r)
		if got.Input < c.low || got.Input > c.high {
			t.Errorf("%s (%s): got %d by %s, want %d to %d", c.report, c.was, got.Input, got.Method, c.low, c.high)
		}
	}
}
