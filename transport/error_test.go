package transport_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/transport"
)

func TestWriteProblem(t *testing.T) {
	e := &transport.Error{Status: 429, Type: "tokens", Code: "rate_limit_exceeded", Message: "Wait.", Wait: 20 * time.Second}
	w := httptest.NewRecorder()
	e.WriteProblem(w)
	var p map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if w.Code != 429 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for k, v := range map[string]any{"type": "about:blank", "title": "Too Many Requests", "status": 429.0, "detail": "Wait.", "code": "rate_limit_exceeded"} {
		if p[k] != v {
			t.Errorf("%s = %v, want %v", k, p[k], v)
		}
	}
	if after, _ := p["retry_after"].(float64); after < 20 || after > 27 {
		t.Errorf("retry_after %v", p["retry_after"])
	}
	checkRetryAfter(t, w.Result())

	w = httptest.NewRecorder()
	(&transport.Error{Status: 400, Type: transport.InvalidRequest, Param: "prompt", Message: "No."}).WriteProblem(w)
	if got, want := w.Body.String(), `{"type":"about:blank","title":"Bad Request","status":400,"detail":"No.","param":"prompt"}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The AI SDK and langchaingo want exactly this beginning, and a line below 64 KiB.
func TestEvent(t *testing.T) {
	e := &transport.Error{Status: 502, Type: transport.ServerError, Code: "upstream_error", Message: "a \"b\"\nc"}
	want := `data: {"error":{"message":"a \"b\"\nc","type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"
	if got := string(e.Event()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestErrorIsFindable(t *testing.T) {
	e := &transport.Error{Status: 502, Type: "server_error", Code: "upstream_error", Message: "It broke."}
	if s := e.Error(); !strings.HasPrefix(s, "transport: ") || !strings.Contains(s, "upstream_error") || !strings.Contains(s, "502") {
		t.Error(s)
	}
}
