package provider_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// FuzzReader: no bytes make a Reader panic or hold much, and how they are split
// makes no difference.
func FuzzReader(f *testing.F) {
	for kind, bodies := range map[string][]string{
		sseType: {
			"data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\\ude00é\"}}],\"usage\":{\"prompt_tokens\":1}}\r\n\r\ndata: [DONE]",
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
			"data: {\"error\":\"\\u00\ndata: [[[{\"usage\":{{\r\r",
			"\xEF\xBB: x\n\ndata:{\"delta\":\"\\",
		},
		jsonType:   {`{"a":[1,{"usage":{"x":"}\""}},null],"usage":{"input_tokens":5}}`, `]]}},{"usage":{"prompt_tokens":1}}`, `[{"usageMetadata":{"promptTokenCount":3}},`, `{"usage":1,"usage":[{}],"error":[]`},
		eventsType: {event("metadata", `{"usage":{"inputTokens":3}}`) + exception("throttlingException", `{"message":"\`), "\x00\x00\x00\x10\x00\x00\x00\x00abcdefgh\x00\x00\x00\x11\x00\x00\x00\x01abcd\x05efgh", chunk(`{"type":"message_stop"}`)[:70]},
		linesType:  {"{}\n[1]\n{\"done\":true}\n"},
		"":         {"null", "data: x", "\x00", "\xEF\xBB\xBF{}", "<p>"},
	} {
		for _, body := range bodies {
			f.Add(kind, body)
		}
	}
	files, err := filepath.Glob("testdata/samples/*sse*.http")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sseType, string(raw)) // its head is so many more fields
	}
	names := provider.ProfileNames()
	f.Fuzz(func(t *testing.T, kind, body string) {
		h := http.Header{"Content-Type": {kind}}
		p := profile(t, names[len(body)%len(names)])
		a := readInPieces(t, p, "", h, []byte(body))
		u := a.Usage
		if u.Input < 0 || u.Cached < 0 || u.CacheWrite < 0 || u.Cached+u.CacheWrite > u.Input || u.Reasoning < 0 || u.Reasoning > u.Output ||
			!a.UsageKnown && u != (provider.Usage{}) {
			t.Errorf("usage %+v of %q", u, body)
		}
		if a.Chars < 0 || a.Chars > int64(len(body)) || a.Refusal.Class == "" || a.Refusal.Scope == "" {
			t.Errorf("%+v of %q", a, body)
		}
		r := p.NewReader("", h)
		write(t, r, body)
		if held := provider.Held(r); held > 150<<10 {
			t.Errorf("holds %d bytes after %q", held, body)
		}
		for _, q := range p.QuotaCharge(kind, u) {
			if q.Amount < 0 {
				t.Errorf("%+v for %+v", q, u)
			}
		}
	})
}

// FuzzRefusal: no header and no body make anything but a plain answer.
func FuzzRefusal(f *testing.F) {
	f.Add(429, "retry-after", "-1", `{"error":{"message":"try again in 1h"}}`)
	f.Add(429, "x-ratelimit-reset-tokens", "9223372036854775807", `{"error":{"message":"try again in 9999999999999h"}}`)
	f.Add(503, "Date", "x", `[[[{"error":{"details":[{"retryDelay":"1e9s"}]}}`)
	f.Add(429, "x-ratelimit-reset", "17960400420000000", `{"error":null}`)
	f.Add(0, "x-amzn-errortype", ":", "retry after 5 seconds\xff.")
	f.Add(200, "x-ratelimit-limit-tokens", "+1", "")
	f.Add(429, "anthropic-ratelimit-tokens-reset", "0001-01-01T00:00:00Z", "")
	f.Add(429, "ratelimit-reset", "9999999999.999999999999999999", "")
	f.Fuzz(func(t *testing.T, status int, name, value, body string) {
		h := header("retry-after", value, "x-ratelimit-remaining-tokens", value, "x-ratelimit-reset", value)
		h.Set(name, value)
		for _, n := range provider.ProfileNames() {
			p := profile(t, n)
			r := p.Refusal(status, h, []byte(body))
			if r.Class == "" || r.Scope == "" || r.After < 0 || r.After > 24*time.Hour || r.From == provider.FromNowhere && r.After != 0 ||
				!r.Retryable && r.From != provider.FromNowhere || r.Retryable && !r.Class.Retryable() {
				t.Errorf("%s: %+v", n, r)
			}
			for _, l := range p.Limits(status, h) {
				for _, v := range []int64{l.Limit, l.Remaining, l.Cost} {
					if v < provider.Absent || v > ledger.MaxAmount {
						t.Errorf("%s: %+v", n, l)
					}
				}
				if l.Reset < provider.Absent || l.Reset > 32*24*time.Hour || l.Limit >= 0 && l.Remaining > l.Limit {
					t.Errorf("%s: %+v", n, l)
				}
			}
		}
	})
}
