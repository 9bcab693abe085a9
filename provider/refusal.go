package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Class is what kind of answer it was, which decides what to do about it. The HTTP
// status does not tell: a 429 may be any of six classes.
type Class string

// The classes.
const (
	OK Class = "ok"
	// Partial: a success whose body was cut.
	Partial Class = "ok_partial"
	// RateLimited: one's own limit. Wait.
	RateLimited Class = "rate_limited"
	// TooLarge: the call can never fit the limit.
	TooLarge Class = "too_large"
	// QuotaExhausted: money, or a quota that no reasonable wait brings back.
	QuotaExhausted Class = "quota_exhausted"
	// Acceleration: traffic grew too quickly. Wait, and come back at a lower rate.
	Acceleration Class = "acceleration"
	// Overloaded: the provider's load, and no limit of ours. Back off.
	Overloaded Class = "overloaded"
	// UpstreamError: the provider failed. Back off.
	UpstreamError Class = "upstream_error"
	// ClientError: the request is wrong, and will stay wrong.
	ClientError Class = "client_error"
)

// Retryable says whether the same call may succeed later. A retry is a new call
// to every provider: none takes a second one for the first.
func (c Class) Retryable() bool {
	return c == RateLimited || c == Acceleration || c == Overloaded || c == UpstreamError
}

// Scope is which limit refused. The scopes that are a dimension have the names
// that [Reported] has.
type Scope string

// The scopes.
const (
	ScopeNone         Scope = "none"
	ScopeUnknown      Scope = "unknown"
	ScopeRequests     Scope = "requests"
	ScopeTokens       Scope = "tokens"
	ScopeInputTokens  Scope = "input_tokens"
	ScopeOutputTokens Scope = "output_tokens"
	ScopeImages       Scope = "images"
	ScopeConcurrency  Scope = "concurrency"
	ScopeDay          Scope = "day"
	ScopeMonth        Scope = "month"
	ScopeSpend        Scope = "spend"
	ScopeSpend10Min   Scope = "spend_10min"
	ScopeCapacity     Scope = "capacity"
	ScopeAcceleration Scope = "acceleration"
	// ScopeUpstream is a limit between a gateway and the provider behind it.
	ScopeUpstream Scope = "upstream"
)

// Refusal is what an answer says about trying again. The zero Refusal is no answer.
type Refusal struct {
	Class Class
	Scope Scope
	// Retryable is Class.Retryable, unless the provider forbids it.
	Retryable bool
	// After is the least time to wait before the next attempt, when From is not
	// FromNowhere. Add jitter upwards.
	After time.Duration
	From  HintSource
}

// RefusedError is an answer that was not a success, as an error. What can never fit, and
// what is about money, has a Class of its own: no wait and no attempt will help.
type RefusedError struct {
	Status  int
	Refusal Refusal
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("provider: status %d: %s", e.Status, e.Refusal.Class)
}

// ErrorRule classifies a refusal. All that it names must match.
type ErrorRule struct {
	// Status is any of these; empty for every status.
	Status []int
	// Type is any of these names in the profile's ErrorTypeHeader, whatever the
	// case; empty for any.
	Type []string
	// Path is where in the body a value is looked for: keys joined by dots,
	// through arrays as if they were not there. Of places joined by "|" the first
	// that has a value counts. "" looks at no body.
	Path string
	// In is any of these values, whatever the case. Contains is any of these
	// parts of the value, in lower case. With neither, any value will do.
	In, Contains []string

	Class Class
	Scope Scope
}

// maxErrorBody is how much of an error's body is read. Gateways put whole answers
// of others into theirs.
const maxErrorBody = 64 << 10

// Refusal classifies an answer by its status, headers and body, and then looks for
// the time to wait: the class comes first, since providers send hints with
// refusals that no wait cures. A body that is cut, or not JSON, is read as far as
// it goes. An answer in the 200s is OK; a [Reader] finds the errors inside those.
func (p *Profile) Refusal(status int, h http.Header, body []byte) Refusal {
	if status/100 == 2 {
		return Refusal{Class: OK, Scope: ScopeNone}
	}
	return p.classify(status, h, readDocument(body))
}

func (p *Profile) classify(status int, h http.Header, doc document) Refusal {
	r := byStatus(status)
	for i := range p.Errors {
		if p.Errors[i].match(p, status, h, doc) {
			r.Class, r.Scope = p.Errors[i].Class, p.Errors[i].Scope
			break
		}
	}
	r.Retryable = r.Class.Retryable()
	if p.NoRetryHeader != "" && strings.EqualFold(strings.TrimSpace(h.Get(p.NoRetryHeader)), "false") {
		r.Retryable = false
	}
	if r.Retryable {
		r.After, r.From = p.wait(r, status, h, doc)
	}
	return r
}

// byStatus classifies what no rule of a profile names.
func byStatus(status int) Refusal {
	switch status {
	case 402:
		return Refusal{Class: QuotaExhausted, Scope: ScopeSpend}
	case 429:
		return Refusal{Class: RateLimited, Scope: ScopeUnknown}
	case 503, 529:
		return Refusal{Class: Overloaded, Scope: ScopeCapacity}
	case 408:
		return Refusal{Class: UpstreamError, Scope: ScopeNone}
	}
	if status >= 500 {
		return Refusal{Class: UpstreamError, Scope: ScopeNone}
	}
	return Refusal{Class: ClientError, Scope: ScopeNone}
}

func (e *ErrorRule) match(p *Profile, status int, h http.Header, doc document) bool {
	if len(e.Status) > 0 && !slices.Contains(e.Status, status) {
		return false
	}
	if len(e.Type) > 0 {
		name, _, _ := strings.Cut(h.Get(p.ErrorTypeHeader), ":")
		if !equalAny(e.Type, strings.TrimSpace(name)) {
			return false
		}
	}
	return e.Path == "" || doc.any(e.Path, func(v string) bool {
		switch {
		case len(e.In) > 0:
			return equalAny(e.In, v)
		case len(e.Contains) > 0:
			return containsAny(e.Contains, v)
		default:
			return true
		}
	}) || doc.text != "" && e.matchText(doc.text)
}

// matchText is match for a body that cannot be parsed.
func (e *ErrorRule) matchText(text string) bool {
	for _, v := range e.In {
		if strings.Contains(text, `"`+strings.ToLower(v)+`"`) {
			return true
		}
	}
	return containsAny(e.Contains, text)
}

func equalAny(all []string, v string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, v) })
}

func containsAny(parts []string, v string) bool {
	v = strings.ToLower(v)
	return slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(v, s) })
}

// document is an error's body: its value, or its text in lower case when it is not
// JSON or was cut.
type document struct {
	value any
	text  string
}

func readDocument(body []byte) document {
	cut := len(body) > maxErrorBody
	if cut {
		body = body[:maxErrorBody]
	}
	var d document
	if cut || json.Unmarshal(body, &d.value) != nil {
		d.value = nil
		d.text = strings.ToLower(string(bytes.ToValidUTF8(body, nil)))
	}
	return d
}

// any reports whether f is true of a value at the path.
func (d document) any(path string, f func(v string) bool) bool {
	for {
		one, rest, more := strings.Cut(path, "|")
		if seen, ok := lookUp(d.value, one, f); seen || ok || !more {
			return ok
		}
		path = rest
	}
}

// lookUp calls f for the scalars at the path until it is true, and says whether
// there was any.
func lookUp(v any, path string, f func(v string) bool) (seen, ok bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s, ok := lookUp(e, path, f)
			seen = seen || s
			if ok {
				return true, true
			}
		}
	case map[string]any:
		if path == "" {
			return false, false
		}
		key, rest, _ := strings.Cut(path, ".")
		return lookUp(v[key], rest, f)
	case string:
		return path == "", path == "" && f(v)
	case float64:
		return path == "", path == "" && f(strconv.FormatFloat(v, 'f', -1, 64))
	case bool:
		return path == "", path == "" && f(strconv.FormatBool(v))
	}
	return seen, false
}
