package transport_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/transport"
)

// The shape that Anthropic's clients read, with the hints that all clients obey.
func TestWriteAnthropic(t *testing.T) {
	for _, tt := range []struct {
		err  *transport.Error
		want string
	}{
		{transport.Refusal(shed(dispatcher.TenantQueueFull, true, time.Second)), "rate_limit_error"},
		{transport.Refusal(shed(dispatcher.QueueFull, false, time.Second)), "overloaded_error"},
		{&transport.Error{Status: 529, Message: "m"}, "overloaded_error"},
		{&transport.Error{Status: 400, Message: "m"}, "invalid_request_error"},
		{&transport.Error{Status: 405, Message: "m"}, "invalid_request_error"},
		{&transport.Error{Status: 401, Message: "m"}, "authentication_error"},
		{&transport.Error{Status: 403, Message: "m"}, "permission_error"},
		{&transport.Error{Status: 404, Message: "m"}, "not_found_error"},
		{transport.Refusal(tokens(5001, 5000)), "request_too_large"},
		{&transport.Error{Status: 500, Message: "m"}, "api_error"},
		{&transport.Error{Status: 502, Message: "m"}, "api_error"},
		{&transport.Error{Status: 504, Message: "m"}, "timeout_error"},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Request-Id", "req_1")
		tt.err.WriteAnthropic(w)
		var got struct {
			Type  string
			Error struct {
				Type, Message string
				Details       struct {
					Code string `json:"error_code"`
				}
			}
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Type != "error" || got.Error.Type != tt.want || got.Error.Message == "" || got.RequestID != "req_1" || got.Error.Details.Code != tt.err.Code {
			t.Errorf("%v: %s, want %s", tt.err, w.Body, tt.want)
		}
		if w.Code != tt.err.Status || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v: %d %v", tt.err, w.Code, w.Header())
		}
		checkRetryAfter(t, w.Result())
	}
}

// The events that end streams of Anthropic's Messages and OpenAI's Responses.
func TestNamedEvents(t *testing.T) {
	e := &transport.Error{Status: 502, Type: transport.ServerError, Code: "upstream_error", Message: "a\nb"}
	want := `event: error` + "\n" + `data: {"type":"error","error":{"type":"api_error","message":"a\nb","details":{"error_code":"upstream_error"}}}` + "\n\n"
	if got := string(e.AnthropicEvent()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	want = `event: error` + "\n" + `data: {"type":"error","sequence_number":7,"code":"upstream_error","message":"a\nb","param":null,` +
		`"error":{"message":"a\nb","type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"
	if got := string(e.ResponsesEvent(7)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
