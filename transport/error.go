package transport

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Error is an error as an HTTP answer. Status, Type and Message must be set.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type and Code are OpenAI's "type" and "code"; an empty Code is null.
	Type, Code string
	// Param is the field at fault; empty is null.
	Param string
	// Message is for people. It must not hold what a caller wrote when the
	// status is 429 or 503: see the package's comment.
	Message string
	// Wait is how long it will take until a retry can succeed. 0 tells nothing,
	// except for 429 and 503, which always tell at least a second.
	Wait time.Duration
	// NoRetry says that trying again soon is no use.
	NoRetry bool
	// Close asks for a new connection, which may reach another server.
	Close bool
}

// Error returns the message with what makes it findable.
func (e *Error) Error() string {
	s := "transport: " + strconv.Itoa(e.Status) + " " + e.Type
	if e.Code != "" {
		s += " " + e.Code
	}
	return s + ": " + e.Message
}

const (
	// longest is the longest wait that all clients read alike.
	longest = 59 * time.Second
	// leastSpread keeps hints of a second or two apart, in whole seconds too.
	leastSpread = 2 * time.Second
)

// hint returns the wait to tell one caller: wait, and up to a third of it more at
// random. When wait is longer than can be told, the hint is near the longest.
func hint(wait time.Duration) (told time.Duration, tooLong bool) {
	if wait > longest {
		return longest - rand.N(10*time.Second), true
	}
	wait = max(wait, time.Second)
	spread := min(max(wait/3, leastSpread), longest-wait)
	return wait + rand.N(spread+1), false
}

// refuses says that the status means "not now", which needs a Retry-After.
func (e *Error) refuses() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// head sets the headers that all forms share.
func (e *Error) head(h http.Header) {
	noRetry := e.NoRetry
	if e.Wait > 0 || e.refuses() {
		told, tooLong := hint(e.Wait)
		h["Retry-After"] = []string{strconv.FormatInt(int64((told+time.Second-1)/time.Second), 10)}
		h["Retry-After-Ms"] = []string{strconv.FormatInt(int64((told+time.Millisecond-1)/time.Millisecond), 10)}
		noRetry = noRetry || tooLong
	}
	if noRetry {
		h["X-Should-Retry"] = []string{"false"}
	}
	if e.refuses() {
		h["Cache-Control"] = []string{"no-store"} // RFC 6585, section 4
	}
	if e.Close {
		h["Connection"] = []string{"close"}
	}
}

// message has the wait in words when it is too long for a header.
func (e *Error) message() string {
	if e.Wait <= longest {
		return e.Message
	}
	return e.Message + " The wait is about " + e.Wait.Round(time.Second).String() + "."
}

// WriteOpenAI answers in the shape of OpenAI's API.
func (e *Error) WriteOpenAI(w http.ResponseWriter) {
	e.head(w.Header())
	write(w, "application/json", e.Status, e.OpenAI())
}

// OpenAI returns the body of WriteOpenAI; its schema requires all four keys.
func (e *Error) OpenAI() []byte {
	var v struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}
	v.Error.Message, v.Error.Type = e.message(), e.Type
	v.Error.Param, v.Error.Code = orNull(e.Param), orNull(e.Code)
	return marshal(v)
}

// Event is the error as an event of a stream of chat completions, after which the
// connection has to be broken: most clients take a stream that ends cleanly for a
// complete answer.
func (e *Error) Event() []byte {
	return slices.Concat([]byte("data: "), e.OpenAI(), []byte("\n\n"))
}

// WriteProblem answers with an RFC 9457 problem, whose extensions are code, param
// and retry_after, in seconds.
func (e *Error) WriteProblem(w http.ResponseWriter) {
	h := w.Header()
	e.head(h)
	after, _ := strconv.Atoi(h.Get("Retry-After"))
	write(w, "application/problem+json", e.Status, marshal(struct {
		Type       string `json:"type"`
		Title      string `json:"title"`
		Status     int    `json:"status"`
		Detail     string `json:"detail"`
		Code       string `json:"code,omitempty"`
		Param      string `json:"param,omitempty"`
		RetryAfter int    `json:"retry_after,omitempty"`
	}{"about:blank", http.StatusText(e.Status), e.Status, e.message(), e.Code, e.Param, after}))
}

// response is WriteOpenAI as the answer to a request that was not sent.
func (e *Error) response(req *http.Request) *http.Response {
	body := e.OpenAI()
	resp := &http.Response{
		Status: strconv.Itoa(e.Status) + " " + http.StatusText(e.Status), StatusCode: e.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
	e.head(resp.Header)
	return resp
}

func write(w http.ResponseWriter, contentType string, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone can not be told
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// marshal is for structs of strings and numbers, which always marshal.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
