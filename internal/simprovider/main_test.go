package simprovider

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instant is a configuration without limits and without latency.
func instant() Config {
	return Config{RPM: Unlimited, TPM: Unlimited, FirstByte: -1, OutputPerMinute: -1}
}

func mustNew(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do serves one request, whose headers are name, value, name, value. The recorder
// holds what was written before the connection was broken, if it was.
func do(s *Server, method, path, body string, headers ...string) (rec *httptest.ResponseRecorder, broken bool) {
	return doContext(context.Background(), s, method, path, body, headers...)
}

func doContext(ctx context.Context, s *Server, method, path, body string, headers ...string) (rec *httptest.ResponseRecorder, broken bool) {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec = httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler {
				panic(v)
			}
			broken = true
		}
	}()
	s.ServeHTTP(rec, r)
	return rec, false
}

// chat serves a chat request of one message; extra is more JSON for the body,
// beginning with a comma.
func chat(s *Server, text, extra string, headers ...string) *httptest.ResponseRecorder {
	rec, _ := do(s, http.MethodPost, "/v1/chat/completions", chatJSON(text, extra), headers...)
	return rec
}

func chatJSON(text, extra string) string {
	q, _ := json.Marshal(text)
	return `{"model":"gpt-4o-mini","messages":[{"role":"user","content":` + string(q) + `}]` + extra + `}`
}

func decode[T any](t testing.TB, rec *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatalf("status %d, body %q: %v", rec.Code, rec.Body, err)
	}
	return v
}
