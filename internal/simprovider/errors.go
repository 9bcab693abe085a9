package simprovider

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// apiError is an error with what OpenAI says of it: an object with exactly four
// keys. The others say some of that.
type apiError struct {
	status      int
	message     string
	kind        string // the key "type"
	param, code string // null when empty
}

// requestIDs are the headers with the id of a request.
var requestIDs = map[Kind]string{
	"": "X-Request-Id", KindOpenAI: "X-Request-Id", KindAzure: "X-Request-Id", KindGroq: "X-Request-Id",
	KindAnthropic: "Request-Id", KindBedrock: "X-Amzn-Requestid",
}

// body is the error as a provider sends it.
func (e *apiError) body(kind Kind, requestID string) []byte {
	type object map[string]any
	v := object{"message": e.message}
	switch {
	case kind == KindBedrock:
		return mustJSON(v)
	case kind == KindAnthropic:
		v["type"] = e.anthropicType()
		return mustJSON(object{"type": "error", "error": v, "request_id": requestID})
	case kind == KindAzure && e.status == http.StatusTooManyRequests:
		v["code"] = strconv.Itoa(e.status)
		return mustJSON(object{"error": v})
	case kind == KindGroq:
		v["type"] = e.kind
		if e.code != "" {
			v["code"] = e.code
		}
		return mustJSON(object{"error": v})
	}
	return mustJSON(struct {
		Error openAIError `json:"error"`
	}{openAIError{e.message, e.kind, null(e.param), null(e.code)}})
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	return b
}

// anthropicType is the type that goes with the status.
func (e *apiError) anthropicType() string {
	switch e.status {
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
	case http.StatusServiceUnavailable, statusOverloaded:
		return "overloaded_error"
	}
	if e.status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// exception is Bedrock's name for the status.
func (e *apiError) exception() string {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	case http.StatusNotFound:
		return "ResourceNotFoundException"
	case http.StatusRequestTimeout:
		return "ModelTimeoutException"
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableException"
	}
	if e.status >= 500 {
		return "InternalServerException"
	}
	return "ValidationException"
}

// statusOverloaded is Anthropic's own.
const statusOverloaded = 529

func invalid(param, code, message string) *apiError {
	return &apiError{http.StatusBadRequest, message, "invalid_request_error", param, code}
}

func serverError(err error) *apiError {
	return &apiError{status: http.StatusInternalServerError, message: err.Error(), kind: "server_error"}
}

// errGone answers a request whose context has ended. The client that went away
// does not read it; one that waits while the server stops does.
var errGone = &apiError{http.StatusServiceUnavailable, "The request was cancelled before it was answered.", "service_unavailable_error", "", "server_is_overloaded"}

func (s *Server) writeError(w http.ResponseWriter, kind Kind, e *apiError) {
	h := w.Header()
	if e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable {
		h["Cache-Control"] = []string{"no-store"} // RFC 6585, section 4
	}
	if kind == KindBedrock {
		h["X-Amzn-Errortype"] = []string{e.exception() + ":http://internal.amazon.com/coral/com.amazon.bedrock/"}
	}
	writeJSON(w, e.status, e.body(kind, h.Get(requestIDs[kind])))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body) // a client that is gone cannot be told
}
