package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParseFields(t *testing.T) {
	const m = `"messages":[]`
	for _, c := range []struct {
		body string
		want Request // without its prompt
	}{
		{`{` + m + `}`, Request{Choices: 1}},
		{` {"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},` + m + `} `,
			Request{Model: "gpt-4o", Stream: true, IncludeUsage: true, Choices: 1}},
		{`{"model":null,"stream":null,"stream_options":null,"max_tokens":null,"n":null,` + m + `}`, Request{Choices: 1}},
		{`{"stream":false,"stream_options":{"include_usage":"yes"},` + m + `}`, Request{Choices: 1}},
		{`{"max_tokens":7,` + m + `}`, Request{OutputCap: 7, Declared: true, Choices: 1}},
		{`{"max_tokens":0,` + m + `}`, Request{Declared: true, Choices: 1}},
		{`{"max_tokens":1,"max_completion_tokens":10000,"max_output_tokens":5,` + m + `}`,
			Request{OutputCap: 10000, Declared: true, Choices: 1}},
		{`{"max_tok\u0065ns":9,` + m + `}`, Request{OutputCap: 9, Declared: true, Choices: 1}},
		{`{"n":3,"best_of":5,` + m + `}`, Request{Choices: 5}},
		{`{"n":0,"best_of":-2,` + m + `}`, Request{Choices: 1}},
		{`{"max_tokens":-1,` + m + `}`, Request{Choices: 1}},
		{`{"max_tokens":1.5,"n":2.0,` + m + `}`, Request{OutputCap: 2, Declared: true, Choices: 2}},
		{`{"max_tokens":1e30,"n":1e999,` + m + `}`, Request{OutputCap: MaxTokens, Declared: true, Choices: MaxTokens}},
		{`{"max_tokens":9223372036854775808,` + m + `}`, Request{OutputCap: MaxTokens, Declared: true, Choices: 1}},
		{`{"max_tokens":1,"max_tokens":2,"model":"a","model":"b",` + m + `}`,
			Request{Model: "b", OutputCap: 2, Declared: true, Choices: 1}},
		{`{"prompt":["a","b","c"],"n":2}`, Request{Choices: 6}},
		{`{"prompt":[1,2,3],"n":2}`, Request{Choices: 2}},
		{`{"prompt":[[1,2],[3]]}`, Request{Choices: 2}},
	} {
		got := *parseChat(t, c.body)
		got.prompt = prompt{}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v, want %+v", c.body, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	chat := func(b []byte) error { _, err := ParseChat(b); return err }
	embeddings := func(b []byte) error { _, err := ParseEmbeddings(b); return err }
	for _, c := range []struct {
		parse       func([]byte) error
		body, param string
		message     string
	}{
		{chat, ``, "", "unexpected end of JSON input"},
		{chat, `{"messages":[}`, "", "invalid character"},
		{chat, `{"messages":[]} x`, "", "invalid character"},
		{chat, "{\"messages\":[\"\x01\"]}", "", "invalid character"},
		{chat, `[]`, "", "want object, got array"},
		{chat, `null`, "", "want object, got null"},
		{chat, `"x"`, "", "want object, got string"},
		{chat, `{}`, "messages", "missing"},
		{chat, `{"messages":null}`, "messages", "want array, got null"},
		{chat, `{"messages":{}}`, "messages", "want array, got object"},
		{chat, `{"messages":"hi"}`, "messages", "want array, got string"},
		{chat, `{"input":5}`, "input", "want array, got number"},
		{chat, `{"messages":[],"model":4}`, "model", "want string, got number"},
		{chat, `{"messages":[],"stream":"true"}`, "stream", "want boolean, got string"},
		{chat, `{"messages":[],"stream_options":[]}`, "stream_options", "want object, got array"},
		{chat, `{"messages":[],"max_tokens":"100"}`, "max_tokens", "want number, got string"},
		{chat, `{"messages":[],"max_completion_tokens":[]}`, "max_completion_tokens", "want number, got array"},
		{chat, `{"messages":[],"max_output_tokens":true}`, "max_output_tokens", "want number, got boolean"},
		{chat, `{"messages":[],"n":{}}`, "n", "want number, got object"},
		{chat, `{"messages":[],"best_of":"2"}`, "best_of", "want number, got string"},
		{chat, `{"messages":[],"tools":{}}`, "tools", "want array, got object"},
		{chat, `{"messages":[],"functions":"f"}`, "functions", "want array, got string"},
		{chat, `{"messages":[],"messages":5}`, "messages", "want array, got number"},
		{chat, strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000), "", "max depth"},
		{embeddings, `{}`, "input", "missing"},
		{embeddings, `{"input":null}`, "input", "want string, got null"},
		{embeddings, `{"input":{}}`, "input", "want string, got object"},
		{embeddings, `{"input":1}`, "input", "want string, got number"},
	} {
		err := c.parse([]byte(c.body))
		var e *RequestError
		if !errors.As(err, &e) || e.Param != c.param || !strings.Contains(err.Error(), c.message) ||
			!strings.HasPrefix(err.Error(), "estimator: ") {
			t.Errorf("%.60s: got %v, want %q at %q", c.body, err, c.message, c.param)
		}
		if errors.Is(err, ErrMissing) != (c.message == "missing") {
			t.Errorf("%.60s: errors.Is ErrMissing is wrong for %v", c.body, err)
		}
	}
	var syntax *json.SyntaxError
	if err := chat([]byte(`{"a":}`)); !errors.As(err, &syntax) || syntax.Offset != 6 {
		t.Errorf("got %v, want a syntax error at 6", err)
	}
}

// Every content has a price, whatever its shape. Prices are in o200k_base, where
// "hello world" has 2 tokens and any role 1.
func TestContentShapes(t *testing.T) {
	const around = 3 + 3 + 1 // the chat, the message, its role
	e := newEstimator(t, Config{FileTokens: 1000})
	text := func(s string) int64 { return textTokens(t, e, "gpt-4o", s).Input }
	for _, c := range []struct {
		content string
		want    int64
	}{
		{`null`, 0},
		{`""`, 0},
		{`[]`, 0},
		{`"hello world"`, 2},
		{`["hello world","hello world"]`, 4},
		{`{"type":"text","text":"hello world"}`, 2},
		{`[{"type":"text","text":"hello world"},{"text":"hello world","type":"input_text"}]`, 4},
		{`[{"type":"output_text","text":"hello world","annotations":[]}]`, 2},
		{`[{"type":"text","text":null},{"type":"text"}]`, 0},
		{`[{"type":"text","text":5}]`, 1},
		{`[{"type":"refusal","refusal":"hello world"}]`, 2},
		{`[[{"type":"text","text":"hello world"}]]`, 2},
		{`[null,{"type":"text","text":"hello world"}]`, 2},
		{`7`, 1},
		{`true`, 1},
		{`"\ud83d"`, 1},       // openai/tiktoken#82
		{`"\udbc0"`, 1},       // openai/tiktoken#541
		{`"\ud83d\udc4d"`, 1}, // a pair is its character
		{"\"\xff\"", 1},
		{`"<|endoftext|>"`, 7},
		{`[{"type":"tool_result","content":[{"type":"text","text":"hello world"}]}]`, 2},
		{`[{"type":"tool_result","content":"hello world"}]`, 2},
		{`[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]`, 85},
		{`[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]`, 1445},
		{`[{"type":"image_url","image_url":"https://x/y.png"}]`, 1445},
		{`[{"type":"image_url"}]`, 1445},
		{`[{"type":"input_image","image_url":"https://x/y.png","detail":"low"}]`, 85},
		{`[{"type":"input_image","file_id":"file-1"}]`, 1445},
		{`[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]`, 1445},
		{`[{"type":"file","file":{"file_id":"f"}}]`, 1000},
		{`[{"type":"input_file","file_data":"data:application/pdf;base64,` + strings.Repeat("QUFB", 9999) + `"}]`, 1000},
		{`[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("AAAA", 4000) + `","format":"mp3"}}]`, 30},
		{`[{"type":"input_audio"}]`, 1000},
		// Unknown parts: every string in them, and data as a file.
		{`[{"type":"thought","thought":"hello world"}]`, text("type") + 2*text("thought") + 2},
		{`[{"kind":{"a":["hello world",1,null]}}]`, text("kind") + text("a") + 2},
		{`[{"type":"x","data":"` + strings.Repeat("QUFB", 9999) + `"}]`, text("type") + text("x") + text("data") + 1000},
		{`[{"x":"data:video/mp4;base64,AAAA"}]`, text("x") + 1000},
		{`[{"x":"` + strings.Repeat(`\u4e2d`, 200) + `"}]`, text("x") + text(strings.Repeat("中", 200))},
	} {
		got := measure(t, e, "gpt-4o", parseChat(t, `{"messages":[{"role":"user","content":`+c.content+`}]}`))
		if got.Input != around+c.want {
			t.Errorf("%.80s: got %d, want %d", c.content, got.Input-around, c.want)
		}
		if got.Method == Exact != (got.Upper == 0) || got.Upper != 0 && got.Upper < got.Input {
			t.Errorf("%.80s: %+v", c.content, got)
		}
	}
}

func TestMessageShapes(t *testing.T) {
	e := newEstimator(t, Config{})
	text := func(s string) int64 { return textTokens(t, e, "gpt-4o", s).Input }
	args := text(`{"city":"New York"}`)
	for _, c := range []struct {
		messages string
		want     int64
	}{
		{`[]`, 3},
		{`[{}]`, 6},
		{`[null,{}]`, 9},
		{`["hello world"]`, 3 + 3 + 2},
		{`[{"role":"user","name":"hello world","content":"hello world"}]`, 3 + 3 + 1 + 2 + 1 + 2},
		{`[{"role":"user","name":null,"content":"hello world"}]`, 3 + 3 + 1 + 2},
		{`[{"role":"hello world","content":null}]`, 3 + 3 + 2},
		{`[{"role":["user"],"content":"hello world"}]`, 3 + 3 + 2},
		{`[{"role":"user","content":"a","content":"hello world"}]`, 3 + 3 + 1 + 2},
		{`[{"role":"assistant","content":null,"refusal":"hello world"}]`, 3 + 3 + 1 + 2},
		{`[{"role":"assistant","content":null,"tool_calls":null}]`, 3 + 3 + 1},
		{`[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"hello world","arguments":"{\"city\":\"New York\"}"}}]}]`,
			3 + 3 + 1 + 3 + 2 + args},
		// Arguments are sent as an object by some clients, and null or a number.
		{`[{"role":"assistant","tool_calls":[{"function":{"name":"hello world","arguments":{ "city" : "New York" }}}]}]`,
			3 + 3 + 1 + 3 + 2 + args},
		{`[{"role":"assistant","tool_calls":[{"function":{"name":"hello world","arguments":null}}]}]`, 3 + 3 + 1 + 3 + 2},
		{`[{"role":"assistant","tool_calls":[{"function":{"name":"hello world","arguments":5}}]}]`, 3 + 3 + 1 + 3 + 2 + 1},
		{`[{"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"hello world","input":"hello world"}}]}]`,
			3 + 3 + 1 + 3 + 2 + 2},
		{`[{"role":"assistant","tool_calls":[{"what":"hello world"}]}]`, 3 + 3 + 1 + 3 + text("what") + 2},
		{`[{"role":"tool","tool_call_id":"call_1","content":"hello world"}]`, 3 + 3 + 1 + 2},
		// Items of the Responses API.
		{`[{"type":"function_call","call_id":"c","name":"hello world","arguments":"{}"}]`, 3 + 3 + 2 + 1 + 1},
		{`[{"type":"function_call_output","call_id":"c","output":"hello world"}]`, 3 + 3 + 2},
		{`[{"type":"function_call_output","output":[{"type":"input_text","text":"hello world"}]}]`, 3 + 3 + 2},
		{`[{"type":"reasoning","summary":[{"type":"summary_text","text":"hello world"}],"encrypted_content":"xxxx"}]`, 3 + 3 + 2},
		{`[{"type":"input_image","detail":"low"}]`, 3 + 3 + 85},
		{`[{"type":"new_thing","output":"hello world"}]`, 3 + 3 + text("type") + text("new_thing") + text("output") + 2},
	} {
		for _, field := range []string{"messages", "input"} {
			got := measure(t, e, "gpt-4o", parseChat(t, `{"`+field+`":`+c.messages+`}`)).Input
			if got != c.want {
				t.Errorf("%s %s: got %d, want %d", field, c.messages, got, c.want)
			}
		}
	}
	for body, want := range map[string]int64{
		`{"input":"hello world"}`:                                                          3 + 3 + 1 + 2,
		`{"input":"hello world","instructions":"hello world"}`:                             3 + 2*(3+1+2),
		`{"messages":[],"system":[{"type":"text","text":"hello world"}]}`:                  3 + 3 + 1 + 2,
		`{"messages":[],"input":"hello world"}`:                                            3 + 3 + 1 + 2,
		`{"prompt":"hello world"}`:                                                         2,
		`{"prompt":["hello world","hello world"]}`:                                         4,
		`{"prompt":{"id":"hello world"},"input":""}`:                                       3 + 3 + 1 + text(`{"id":"hello world"}`),
		`{"messages":[],"tools":[],"tool_choice":"none"}`:                                  3,
		`{"messages":[],"response_format":{"type":"json_object"}}`:                         3,
		`{"messages":[],"response_format":{"json_schema":{"name":"a"}}}`:                   3 + 12 + text(`{"name":"a"}`),
		`{"messages":[],"tools":[{"type":"web_search"}]}`:                                  3 + 12 + text(`[{"type":"web_search"}]`),
		`{"messages":[],"tools":[{"function":{"name":"a"}}],"tool_choice":"x"}`:            3 + 12 + 1 + text(`[{"name":"a"}]`),
		`{"messages":[],"tools":[1],"functions":[2],"tool_choice":{"name":"hello world"}}`: 3 + 12 + 7 + 2 + text(`[1,2]`),
	} {
		if got := measure(t, e, "gpt-4o", parseChat(t, body)).Input; got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
	}
}

// A description sent with \u escapes costs what it says, not its escapes.
func TestToolEscapes(t *testing.T) {
	e := newEstimator(t, Config{})
	tools := func(description string) int64 {
		return measure(t, e, "gpt-4o", parseChat(t, `{"messages":[],"tools":[{"function":{"description":`+description+`}}]}`)).Input
	}
	if a, b := tools(`"查询天气"`), tools(`"\u67e5\u8be2\u5929\u6c14"`); a != b {
		t.Errorf("%d tokens escaped, %d not", b, a)
	}
}

func TestEmbeddings(t *testing.T) {
	e := newEstimator(t, Config{})
	for input, want := range map[string]int64{
		`"hello world"`:                 2,
		`["hello world","hello world"]`: 4,
		`[1,2,3]`:                       3,
		`[[1,2],[3]]`:                   3,
		`[]`:                            1,
		`""`:                            1,
		`[null,"hello world",[1,"hello world"],{"text":"hello world"}]`: 2 + 1 + 2 + 1 + 2,
	} {
		r, err := ParseEmbeddings([]byte(`{"model":"text-embedding-3-small","input":` + input + `,"max_tokens":9}`))
		if err != nil {
			t.Fatal(err)
		}
		got := measure(t, e, "", r)
		if got.Input != want || got.Output != 0 || got.Encoding != "cl100k_base" {
			t.Errorf("%s: %+v, want %d", input, got, want)
		}
	}
}

// The sum of what a request may declare never overflows.
func TestAbsurdNumbers(t *testing.T) {
	e := newEstimator(t, Config{DefaultOutput: MaxTokens, FileTokens: MaxTokens, AudioTokensPerSecond: MaxTokens})
	for _, fields := range []string{
		`"n":1000000000000000000`,
		`"n":1000000000000000000,"max_tokens":1000000000000000000`,
		`"n":1e400,"max_tokens":1e400`,
		`"max_tokens":-1000000000000000000000`,
	} {
		got := measure(t, e, "gpt-4o", parseChat(t, `{`+fields+`,"messages":[{"content":[{"type":"file"},{"type":"file"},
			{"type":"input_audio","input_audio":{"data":"AAAA"}},{"type":"input_audio","input_audio":{"data":"AAAA"}}]}]}`))
		if got.Output != MaxTokens || got.Input != MaxTokens || got.Upper != MaxTokens || got.Tokens() <= 0 ||
			got.Tokens() > math.MaxInt64/2 {
			t.Errorf("%s: %+v", fields, got)
		}
	}
}
