package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// apiError is an error as OpenAI sends it: an object with exactly four keys.
type apiError struct {
	status      int
	message     string
	kind        string // the key "type"
	param, code string // null when empty
}

func (e *apiError) body() []byte {
	null := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	var v struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}
	v.Error.Message, v.Error.Type, v.Error.Param, v.Error.Code = e.message, e.kind, null(e.param), null(e.code)
	b, err := json.Marshal(v)
	if err != nil { // a struct of strings always marshals
		panic(err)
	}
	return b
}

func invalid(param, code, message string) *apiError {
	return &apiError{http.StatusBadRequest, message, "invalid_request_error", param, code}
}

func serverError(err error) *apiError {
	return &apiError{status: http.StatusInternalServerError, message: err.Error(), kind: "server_error"}
}

// errGone answers a request whose context has ended. The client that went away
// does not read it; one that waits while the server stops does.
var errGone = &apiError{http.StatusServiceUnavailable, "The request was cancelled before it was answered.", "service_unavailable_error", "", "server_is_overloaded"}

// apiError words a refusal as OpenAI does, and sets its headers. Retry-After is
// in whole seconds, rounded up; retry-after-ms is finer.
func (r *refusal) apiError(h http.Header, model string) *apiError {
	unit := "tokens per min (TPM)"
	if r.kind == "requests" {
		unit = "requests per min (RPM)"
	}
	e := &apiError{status: http.StatusTooManyRequests, kind: r.kind, code: "rate_limit_exceeded"}
	if r.never {
		h["X-Should-Retry"] = []string{"false"}
		e.message = fmt.Sprintf("Request too large for %s in organization org-sim on %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully.",
			model, unit, r.limit, r.ask)
		return e
	}
	wait := max(roundUp(r.wait, time.Millisecond), time.Millisecond)
	h["Retry-After"] = []string{strconv.FormatInt(int64(roundUp(wait, time.Second)/time.Second), 10)}
	h["Retry-After-Ms"] = []string{strconv.FormatInt(wait.Milliseconds(), 10)}
	e.message = fmt.Sprintf("Rate limit reached for %s in organization org-sim on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
		model, unit, r.limit, r.used, r.ask, wait)
	return e
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable {
		w.Header()["Cache-Control"] = []string{"no-store"} // RFC 6585, section 4
	}
	writeJSON(w, e.status, e.body())
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body) // a client that is gone cannot be told
}
