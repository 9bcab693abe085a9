package main

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
)

// A provider that refuses in the middle of a stream closes its limit for the calls after
// that one, as one that refuses at the beginning does.
func TestRefusedInMidStream(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		var calls atomic.Int64
		s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if calls.Add(1) > 1 {
				writeJSON(w, 200, []byte(okCompletion))
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			if path == "/v1/responses" {
				_, _ = io.WriteString(w, "data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"Rate limit reached on tokens per min\"}\n\n")
				return
			}
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so\"}}]}\n\n"+
				"data: {\"error\":{\"message\":\"Rate limit reached on tokens per min\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n")
		}, func(*app) {})
		body := streamed
		if path == "/v1/responses" {
			body = `{"model":"gpt-4o-mini","stream":true,"max_output_tokens":50,"input":"hi"}`
		}
		s.send("POST", path, body, "Authorization", paidKey)
		s.app.upstreams[0].hearing.Wait()
		a := s.send("POST", "/v1/chat/completions", hello, "Authorization", paidKey)
		if ms, err := strconv.Atoi(a.Header.Get(waitHeader)); err != nil || ms < 500 || a.StatusCode != 200 {
			t.Errorf("%s: the next call waited %q ms: %d %s", path, a.Header.Get(waitHeader), a.StatusCode, a.body)
		}
	}
}
