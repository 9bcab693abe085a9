package simprovider

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fault is what the X-Sim-Fault header asks for: KEY=VALUE, separated by
// semicolons.
type fault struct {
	status           int           // status: 400 to 599, the answer
	retryAfter       string        // retry_after: sent as it is; "date" for a date 2 s ahead
	retryAfterMS     string        // retry_after_ms
	shouldRetry      string        // should_retry
	times            int           // times: how often this id gets the status; 1 if not given
	id               string        // id: without one, every request gets the status
	keepAlive        int           // keepalive: comments before the first chunk
	streamErrorAfter int           // stream_error_after: content chunks before the stream fails; -1 for never
	cutAfter         int           // cut_after: content chunks before the stream breaks off; -1 for never
	cut              float64       // the same as a part of the answer; negative for nowhere; not in the header
	delay            time.Duration // delay_ms: more time before the first byte
}

// noFault is the fault of a request that asks for none.
var noFault = fault{times: 1, streamErrorAfter: -1, cutAfter: -1, cut: -1}

// breaks says whether a header wants the stream to fail, at its end at the latest.
func (f fault) breaks() bool { return f.streamErrorAfter >= 0 || f.cutAfter >= 0 }

// parseFault reads the header. A fault that is not understood is refused: a test
// that asks for one it does not get would pass for the wrong reason.
func parseFault(text string) (fault, *apiError) {
	f := noFault
	for field := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		n, err := strconv.Atoi(value)
		number := func(lo, hi int) bool { return err == nil && lo <= n && n <= hi }
		ok := true
		switch key {
		case "":
			ok = value == ""
		case "status":
			f.status, ok = n, number(400, 599)
		case "retry_after":
			f.retryAfter = value
		case "retry_after_ms":
			f.retryAfterMS = value
		case "should_retry":
			f.shouldRetry = value
		case "times":
			f.times, ok = n, number(0, 1_000_000)
		case "id":
			f.id, ok = value, len(value) <= 128
		case "keepalive":
			f.keepAlive, ok = n, number(0, 10_000)
		case "stream_error_after":
			f.streamErrorAfter, ok = n, number(0, 1_000_000)
		case "cut_after":
			f.cutAfter, ok = n, number(0, 1_000_000)
		case "delay_ms":
			f.delay, ok = time.Duration(n)*time.Millisecond, number(0, 600_000)
		default:
			ok = false
		}
		if !ok {
			return fault{}, invalid("X-Sim-Fault", "invalid_value", fmt.Sprintf("Invalid value for 'X-Sim-Fault': %q.", field))
		}
	}
	return f, nil
}

// fault returns the request's fault, and the error that it makes of this request,
// if any.
func (s *Server) fault(w http.ResponseWriter, r *http.Request) (fault, *apiError) {
	f := noFault
	text := r.Header.Get("X-Sim-Fault")
	if !s.cfg.Faults || text == "" {
		return f, nil
	}
	f, err := parseFault(text)
	if err != nil || f.status == 0 || !s.strikes(f) {
		return f, err
	}
	h := w.Header()
	for name, value := range map[string]string{"Retry-After": f.retryAfter, "Retry-After-Ms": f.retryAfterMS, "X-Should-Retry": f.shouldRetry} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if f.retryAfter == "date" {
		h.Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
	}
	return f, f.apiError()
}

// strikes says whether the status is still due for this id, and counts it.
func (s *Server) strikes(f fault) bool {
	if f.id == "" {
		return f.times > 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.faults.get(f.id)
	if n >= f.times {
		return false
	}
	s.faults.put(f.id, n+1)
	return true
}

func (f fault) apiError() *apiError {
	e := &apiError{status: f.status}
	switch {
	case f.status == http.StatusTooManyRequests:
		e.message, e.kind, e.code = "Rate limit reached for requests. Please retry later.", "requests", "rate_limit_exceeded"
	case f.status == http.StatusServiceUnavailable:
		e.message, e.kind, e.code = "The server is overloaded. Please retry later.", "service_unavailable_error", "server_is_overloaded"
	case f.status >= 500:
		e.message, e.kind = "The server had an error while processing your request.", "server_error"
	default:
		e.message, e.kind = "The request was refused.", "invalid_request_error"
	}
	return e
}
