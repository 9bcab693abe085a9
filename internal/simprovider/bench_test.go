package simprovider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// discard is the cheapest writer, so that the benchmark is of the server alone.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

func benchmark(b *testing.B, cfg Config, body string) {
	s := mustNew(b, cfg)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("X-Sim-Output-Tokens", "300")
		s.ServeHTTP(&discard{http.Header{}}, r)
	}
}

// The prompt is of 800 tokens, the answer of 300.
var benchBody = chatJSON(strings.Repeat("x", 3200), `,"max_tokens":1000`)

func BenchmarkPlain(b *testing.B) { benchmark(b, instant(), benchBody) }

func BenchmarkStream(b *testing.B) {
	benchmark(b, instant(), strings.Replace(benchBody, `,"max_tokens"`, `,"stream":true,"max_tokens"`, 1))
}

func BenchmarkRefused(b *testing.B) {
	cfg := instant()
	cfg.RPM, cfg.TPM = 1, maxLimit
	benchmark(b, cfg, benchBody)
}
