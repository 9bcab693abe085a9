package transport

import (
	"net/http"
	"slices"
)

// anthropicOverloaded is the status that Anthropic has of its own.
const anthropicOverloaded = 529

// anthropicType is the type of Anthropic's errors, which goes by the status.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, anthropicOverloaded:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// WriteAnthropic answers in the shape of Anthropic's API. A Request-Id that is in the
// header already is in the body too, as it is in theirs.
func (e *Error) WriteAnthropic(w http.ResponseWriter) {
	h := w.Header()
	e.head(h)
	write(w, "application/json", e.Status, e.anthropic(h.Get("Request-Id")))
}

// AnthropicEvent is Event for a stream of Anthropic's Messages API.
func (e *Error) AnthropicEvent() []byte {
	return slices.Concat([]byte("event: error\ndata: "), e.anthropic(""), []byte("\n\n"))
}

// anthropic is the error as Anthropic tells it. Our Code is where theirs would be, and
// the Param has no place.
func (e *Error) anthropic(requestID string) []byte {
	type details struct {
		Code string `json:"error_code"`
	}
	var v struct {
		Type  string `json:"type"`
		Error struct {
			Type    string   `json:"type"`
			Message string   `json:"message"`
			Details *details `json:"details,omitempty"`
		} `json:"error"`
		RequestID string `json:"request_id,omitempty"`
	}
	v.Type, v.RequestID = "error", requestID
	v.Error.Type, v.Error.Message = anthropicType(e.Status), e.message()
	if e.Code != "" {
		v.Error.Details = &details{e.Code}
	}
	return marshal(v)
}

// ResponsesEvent is Event for a stream of OpenAI's Responses API, where it is the event
// of that number, from 0. What it says is there twice: as the reference has it, beside
// the type, and in an object, which is what SDKs look for.
func (e *Error) ResponsesEvent(number int) []byte {
	var v struct {
		Type    string  `json:"type"`
		Number  int     `json:"sequence_number"`
		Code    *string `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
	}
	v.Type, v.Number = "error", number
	v.Code, v.Message, v.Param = orNull(e.Code), e.message(), orNull(e.Param)
	flat, nested := marshal(v), e.OpenAI() // two objects, of which one is made
	flat[len(flat)-1] = ','
	return slices.Concat([]byte("event: error\ndata: "), flat, nested[1:], []byte("\n\n"))
}
