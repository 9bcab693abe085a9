package simprovider

import (
	"encoding/json"
	"testing"
)

// FuzzParseChat: a body is refused with the name of what is wrong, or accepted with
// the input that a plain decoder counts.
func FuzzParseChat(f *testing.F) {
	for _, body := range []string{
		chatJSON("words=3", `,"n":2,"max_tokens":5,"temperature":0.5`),
		chatJSON("echo: \u2028 \"x\" 👩‍👩‍👧‍👦", `,"stream":true,"stream_options":{"include_usage":true}`),
		chatJSON("x", `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}`),
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\ud83d\ude00\ud83d\u0041\udc00"},{"type":"image_url"}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":"\ud83d\uDE00abc\ude00\ud83d\ud83dA"},{"role":"assistant","content":null}],"max_completion_tokens":7}`,
		`{"model":"m","messages":[{"role":"user","content":"` + "\xff\xe2\x82" + `"}]}`,
		`{"messages":[{}]}`, `{"model":`, `null`, `[]`, ``,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseChat(body)
		if err != nil {
			var object map[string]json.RawMessage
			if err.status != 400 || err.message == "" || err.kind != "invalid_request_error" {
				t.Fatalf("%+v", err)
			}
			if json.Unmarshal(body, &object) == nil && err.param == "" {
				t.Fatalf("no param in %+v for %q", err, body)
			}
			if !json.Valid(err.body("", "")) {
				t.Fatalf("bad JSON %s", err.body("", ""))
			}
			return
		}
		var plain struct {
			Messages []struct{ Content json.RawMessage }
			Tools    json.RawMessage
		}
		if err := json.Unmarshal(body, &plain); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		chars := 0
		if string(plain.Tools) != "null" {
			chars = len([]rune(string(plain.Tools)))
		}
		for _, m := range plain.Messages {
			var text string
			var parts []struct{ Type, Text string }
			switch {
			case len(m.Content) == 0:
			case json.Unmarshal(m.Content, &text) == nil:
				chars += len([]rune(text))
			case json.Unmarshal(m.Content, &parts) == nil:
				for _, p := range parts {
					if p.Type == "text" {
						chars += len([]rune(p.Text))
					}
				}
			default:
				t.Fatalf("accepted content %s", m.Content)
			}
		}
		if want := int64(chars+3) / 4; r.input != want || r.choices < 1 || r.outputCharge(640) < 0 {
			t.Fatalf("%+v for %q, want input %d", r, body, want)
		}
	})
}
