package main

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paceline-go/paceline/transport"
)

// faultHeader asks for a fault: KEY=VALUE, separated by semicolons. This server
// answers with the status, so that clients can be tested against its own refusals,
// and what is left is the simulator's to obey.
const faultHeader = "X-Sim-Fault"

// statusOverloaded is Anthropic's own status.
const statusOverloaded = 529

// maxFaultIDs bounds the ids that are remembered.
const maxFaultIDs = 10_000

// faults counts how often each id has been answered with its status.
type faults struct {
	mu     sync.Mutex
	struck map[string]int
}

// fault is an answer that was asked for.
type fault struct {
	answer *transport.Error
	header http.Header
}

func (f *fault) Error() string { return f.answer.Error() }

func (f *fault) Unwrap() error { return f.answer }

// write answers with the headers that were asked for, and no others.
func (f *fault) write(w http.ResponseWriter, r *http.Request) {
	writeError(onlyHeaders{w, f.header}, r, f.answer)
}

// onlyHeaders is a writer whose hints to a client are those given.
type onlyHeaders struct {
	http.ResponseWriter
	header http.Header
}

func (o onlyHeaders) WriteHeader(status int) {
	h := o.Header()
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
		delete(h, name)
	}
	maps.Copy(h, o.header)
	o.ResponseWriter.WriteHeader(status)
}

// strike returns the fault that a request asks for, and leaves the simulator's part
// of the header in the call. On nil, faults are not obeyed and the header ends here.
func (f *faults) strike(r *http.Request, c *call) error {
	text := r.Header.Get(faultHeader)
	if f == nil || text == "" {
		return nil
	}
	var (
		status  int
		rest    []string
		id      string
		times   = 1
		err     error
		header  = make(http.Header)
		keep    = func(name, value string) { header[name] = []string{value} }
		integer = func(value string, least int) (n int) {
			n, e := strconv.Atoi(value)
			if e != nil || n < least {
				err = invalid(faultHeader, "expected numbers")
			}
			return n
		}
	)
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "status":
			if status = integer(value, 400); status > 599 {
				err = invalid(faultHeader, "expected a status from 400 to 599")
			}
		case "times":
			times = integer(value, 0)
		case "id":
			id = value
		case "retry_after":
			if value == "date" {
				value = time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
			}
			keep("Retry-After", value)
		case "retry_after_ms":
			keep("Retry-After-Ms", value)
		case "should_retry":
			keep("X-Should-Retry", value)
		default:
			rest = append(rest, part)
		}
	}
	if err != nil {
		return err
	}
	if status != 0 && f.due(id, times) {
		return &fault{faultAnswer(status), header}
	}
	if len(rest) > 0 {
		c.header[faultHeader] = []string{strings.Join(rest, ";")}
	}
	return nil
}

// due says whether an id gets its fault once more; a request without one always
// does.
func (f *faults) due(id string, times int) bool {
	if id == "" {
		return times > 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.struck[id] >= times {
		return false
	}
	if len(f.struck) >= maxFaultIDs {
		clear(f.struck)
	}
	f.struck[id]++
	return true
}

func faultAnswer(status int) *transport.Error {
	e := &transport.Error{Status: status, Type: transport.ServerError, Message: "The server had an error while processing your request."}
	switch {
	case status == http.StatusTooManyRequests:
		e.Type, e.Code, e.Message = "requests", "rate_limit_exceeded", "Too many requests at the moment. Please retry later."
	case status == http.StatusServiceUnavailable || status == statusOverloaded:
		e.Type, e.Code, e.Message = transport.Overloaded, "server_is_overloaded", "The server is overloaded. Please retry later."
	case status < 500:
		e.Type, e.Message = transport.InvalidRequest, "The request was refused."
	}
	return e
}
