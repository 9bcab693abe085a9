package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

// relayed runs a stream through a relay, in one piece and byte by byte, and returns
// what the client gets.
func relayed(t *testing.T, stream string, asked bool) (string, job.Usage, error) {
	t.Helper()
	run := func(byByte bool) (string, job.Usage, error) {
		var out bytes.Buffer
		reader := readerOf(t, provider.Chat)
		r := &relay{reader: reader, usageAsked: asked, write: func(b []byte) error { out.Write(b); return nil }}
		in := iotest.DataErrReader(strings.NewReader(stream))
		if byByte {
			in = iotest.OneByteReader(in)
		}
		err := r.run(in, func(bool) {})
		return out.String(), reader.End().Settles(), err
	}
	whole, usage, err := run(false)
	pieces, usage2, err2 := run(true)
	if pieces != whole || usage2 != usage || (err == nil) != (err2 == nil) {
		t.Errorf("in one piece:\n%s%v %v\nbyte by byte:\n%s%v %v", whole, usage, err, pieces, usage2, err2)
	}
	return whole, usage, err
}

// readerOf reads what the API's own provider answers, and of chats what any does.
func readerOf(t testing.TB, api provider.API) *provider.Reader {
	t.Helper()
	p, err := provider.ProfileNamed(map[provider.API]string{
		provider.Chat: "generic", provider.Messages: "anthropic", provider.Responses: "openai",
	}[api])
	if err != nil {
		t.Fatal(err)
	}
	return p.NewReader(api, http.Header{"Content-Type": {"text/event-stream"}})
}

const (
	chunk1    = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null,"obfuscation":"x"}` + "\n\n"
	chunk2    = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"\"usage\" of \"error\""},"finish_reason":"stop"}], "usage" : null}` + "\n\n"
	chunkUsed = `data: {"id":"1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	chunkDone = "data: [DONE]\n\n"
)

func TestRelay(t *testing.T) {
	used := job.Used(7, 3)
	cached := used
	cached.Cached = 4
	for _, tt := range []struct {
		name, stream    string
		asked, notAsked string
		usage           job.Usage
	}{
		{
			"as OpenAI streams", chunk1 + chunk2 + chunkUsed + chunkDone,
			chunk1 + chunk2 + chunkUsed + chunkDone,
			`data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"obfuscation":"x"}` + "\n\n" +
				`data: {"id":"1","choices":[{"index":0,"delta":{"content":"\"usage\" of \"error\""},"finish_reason":"stop"}]}` + "\n\n" + chunkDone,
			cached,
		},
		{
			"usage on a chunk with choices", `data: {"choices":[{"index":0}],"usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n\n" + chunkDone,
			`data: {"choices":[{"index":0}],"usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n\n" + chunkDone,
			`data: {"choices":[{"index":0}]}` + "\n\n" + chunkDone,
			used,
		},
		{
			"the last usage counts", `data: {"choices":[1],"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" + chunkUsed + chunkDone,
			`data: {"choices":[1],"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" + chunkUsed + chunkDone,
			`data: {"choices":[1]}` + "\n\n" + chunkDone,
			cached,
		},
		{
			"choices that are empty for another reason", `data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n" + chunkDone,
			`data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n" + chunkDone,
			`data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n" + chunkDone,
			job.Usage{},
		},
		{
			"an error that is null, which openai-go fails on", `data: {"error":null,"choices":[1]}` + "\n\n" + chunkDone,
			`data: {"choices":[1]}` + "\n\n" + chunkDone, `data: {"choices":[1]}` + "\n\n" + chunkDone,
			job.Usage{},
		},
		{
			"comments, blank lines, CRLF and no space", ": hi\n\n\n\r\ndata:{\"choices\":[1],\"usage\":null}\r\n\r\n: keep-alive\n\ndata:[DONE]\r\n\r\n",
			": hi\n\ndata:{\"choices\":[1],\"usage\":null}\r\n\r\n: keep-alive\n\n" + chunkDone,
			": hi\n\ndata:{\"choices\":[1]}\r\n\r\n: keep-alive\n\n" + chunkDone,
			job.Usage{},
		},
		{
			"[DONE] without the blank line", chunkUsed + "data: [DONE]", chunkUsed + chunkDone, chunkDone, cached,
		},
		{
			"an end without [DONE], of a provider that may leave it out", chunk1 + chunk2 + chunkUsed,
			chunk1 + chunk2 + chunkUsed + chunkDone,
			`data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"obfuscation":"x"}` + "\n\n" +
				`data: {"id":"1","choices":[{"index":0,"delta":{"content":"\"usage\" of \"error\""},"finish_reason":"stop"}]}` + "\n\n" + chunkDone,
			cached,
		},
		{
			"what follows [DONE] is not read", chunkDone + chunk1, chunkDone, chunkDone, job.Usage{},
		},
		{
			"usage that makes no sense", `data: {"choices":[],"usage":{"prompt_tokens":-7,"completion_tokens":3}}` + "\n\n" + `data: {"choices":[],"usage":[1]}` + "\n\n" + chunkDone,
			`data: {"choices":[],"usage":{"prompt_tokens":-7,"completion_tokens":3}}` + "\n\n" + `data: {"choices":[],"usage":[1]}` + "\n\n" + chunkDone,
			`data: {"choices":[]}` + "\n\n" + chunkDone,
			job.Used(0, 3),
		},
		{
			"events of other kinds", "event: x\nid: 7\ndata: {\"usage\":1}\n\ndata: a\ndata: b \"usage\"\n\ndata: {\"usage\"\n\n" + chunkDone,
			"event: x\nid: 7\ndata: {\"usage\":1}\n\ndata: a\ndata: b \"usage\"\n\ndata: {\"usage\"\n\n" + chunkDone,
			"event: x\nid: 7\ndata: {}\n\ndata: a\ndata: b \"usage\"\n\ndata: {\"usage\"\n\n" + chunkDone,
			job.Usage{},
		},
	} {
		for asked, want := range map[bool]string{true: tt.asked, false: tt.notAsked} {
			got, usage, err := relayed(t, tt.stream, asked)
			if err != nil || got != want || usage != tt.usage {
				t.Errorf("%s (asked for usage: %v): %v %v\ngot\n%s\nwant\n%s", tt.name, asked, usage, err, got, want)
			}
		}
	}
}

func TestRelayOfABrokenStream(t *testing.T) {
	for _, tt := range []struct {
		name, stream, want, message string
		usage                       job.Usage
	}{
		{"ends without [DONE]", chunk1, chunk1, "broke off", job.Usage{}},
		{"ends within an event", chunk1 + "data: {", chunk1, "broke off", job.Usage{}},
		{"ends after the usage", chunk1 + chunkUsed, chunk1 + chunkUsed, "broke off", job.Usage{}},
		{"says an error", chunk1 + `data: {"error":{"message":"upstream GPU is on fire","code":null}}` + "\n\n" + chunk2, chunk1, "upstream GPU is on fire", job.Usage{}},
		{"says an error in other words", `data: {"error":"no"}` + "\n\n", "", "failed", job.Usage{}},
		{"nothing at all", "", "", "broke off", job.Usage{}},
	} {
		got, usage, err := relayed(t, tt.stream, true)
		if err == nil || got != tt.want || usage != tt.usage {
			t.Errorf("%s: %v %v %s", tt.name, usage, err, got)
			continue
		}
		if e := answerTo(err); e == nil || e.Status != 502 || e.Code != "upstream_error" || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%s: %v", tt.name, e)
		}
	}
	endless := strings.NewReader("data: " + strings.Repeat("x", maxEvent+1<<20))
	r := &relay{reader: readerOf(t, provider.Chat), write: func([]byte) error { return nil }}
	if err := r.run(endless, func(bool) {}); !errors.Is(err, errLongEvent) {
		t.Errorf("an endless event: %v", err)
	}
}

// FuzzRelay feeds any bytes: the relay must end, and whatever it passes on holds
// no usage that was not asked for, and every other JSON event unchanged.
func FuzzRelay(f *testing.F) {
	f.Add([]byte(chunk1 + chunk2 + chunkUsed + chunkDone))
	f.Add([]byte(": c\r\n\r\ndata:{\"usage\":{},\"choices\":[ ]}\n\ndata: [DONE]"))
	f.Add([]byte("data\ndata:\n\n\r\r\n\ndata: {\"error\":{}}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := &relay{reader: readerOf(t, provider.Chat), write: func(event []byte) error {
			from, to, ok := dataOf(event)
			if !ok || !json.Valid(event[from:to]) {
				return nil
			}
			for f := range fields(event[from:to]) {
				if string(f.key) == "usage" && bytes.Contains(event[from:to], []byte(`"usage"`)) {
					t.Errorf("%q passes usage on: %q", stream, event)
				}
			}
			if !bytes.Contains(stream, bytes.TrimSpace(event[from:to])) && !bytes.Contains(stream, []byte(`"usage"`)) && !bytes.Contains(stream, []byte(`"error"`)) {
				t.Errorf("%q became %q", stream, event)
			}
			return nil
		}}
		_ = r.run(bytes.NewReader(stream), func(bool) {})
	})
}
