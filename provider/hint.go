package provider

import (
	"net/http"
	"strings"
	"time"
)

// HintSource is where a time to wait was found.
type HintSource string

// The sources, best first.
const (
	FromHeader HintSource = "header"
	FromBody   HintSource = "body"
	// FromReset is the reset of the limit that refused. It is not a hint for this
	// call: of a continuous bucket it is the time until the whole bucket is full,
	// which is more than the call needs.
	FromReset HintSource = "reset"
	// FromNowhere: the provider did not say, or nothing that can be believed.
	FromNowhere HintSource = ""
)

// Hint is a place where a provider says how long to wait. One of the first three
// is set.
type Hint struct {
	// Header is a header's name.
	Header string
	// Path is where in the body the value is, as in [ErrorRule].
	Path string
	// After is text in lower case, after which an error's message has a duration
	// such as "3.104s", "14h29m11.04s" or "37 seconds".
	After string
	// Format is that of a header or of a value in the body.
	Format Format
}

// messagePath is where errors have their text, in this order: OpenAI's shape and its
// kin, AWS and Cohere, plain gateways, FastAPI.
const messagePath = "error.message|message|error|detail"

// usualHints are the places in the order that the providers' own SDKs use.
func usualHints() []Hint {
	return []Hint{
		{Header: "retry-after-ms", Format: Milliseconds},
		{Header: "retry-after", Format: SecondsOrDate},
		{Path: "error.details.retryDelay", Format: GoDuration}, // google.rpc.RetryInfo
		{After: "try again in "},
		{After: "retry in "},
		{After: "retry after "},
	}
}

// wait finds how long to wait. A hint that is negative or longer than a day is no
// hint, and the next one is looked at.
func (p *Profile) wait(r Refusal, status int, h http.Header, doc document) (time.Duration, HintSource) {
	for i := range p.Hints {
		t := &p.Hints[i]
		switch {
		case t.Header != "":
			if d, ok := t.Format.parse(h.Get(t.Header), h); ok && d <= maxHint {
				return d, FromHeader
			}
		case t.Path != "":
			longest := time.Duration(-1)
			doc.any(t.Path, func(v string) bool {
				if d, ok := t.Format.parse(v, h); ok && d <= maxHint {
					longest = max(longest, d)
				}
				return false
			})
			if longest >= 0 {
				return longest, FromBody
			}
		case t.After != "":
			if d, ok := t.inText(doc); ok {
				return d, FromBody
			}
		}
	}
	if r.Class == RateLimited {
		if d := p.reset(r.Scope, status, h); d > 0 {
			return d, FromReset
		}
	}
	return 0, FromNowhere
}

// reset is the longest reset among the limits that refused: those with nothing
// left, and the one that the refusal names.
func (p *Profile) reset(scope Scope, status int, h http.Header) time.Duration {
	var longest time.Duration
	for _, l := range p.Limits(status, h) {
		if (l.Remaining == 0 || l.Name == string(scope)) && l.Reset <= maxHint {
			longest = max(longest, l.Reset)
		}
	}
	return longest
}

func (t *Hint) inText(doc document) (d time.Duration, ok bool) {
	found := func(v string, cut bool) bool {
		v = strings.ToLower(v)
		for {
			i := strings.Index(v, t.After)
			if i < 0 {
				return false
			}
			v = v[i+len(t.After):]
			if d, ok = spoken(v, cut); ok {
				return true
			}
		}
	}
	if doc.text != "" {
		return d, found(doc.text, true)
	}
	doc.any(messagePath, func(v string) bool { return found(v, false) })
	return d, ok
}

// spoken reads the duration that v begins with. When the text may have been cut,
// one at its very end is not believed.
func spoken(v string, cut bool) (time.Duration, bool) {
	n := 0
	for n < len(v) && (v[n] >= '0' && v[n] <= '9' || strings.IndexByte(".hmsun", v[n]) >= 0) {
		n++
	}
	if n > 64 || cut && n == len(v) {
		return 0, false
	}
	value := strings.TrimRight(v[:n], ".")
	d, err := time.ParseDuration(value)
	if err != nil || digits(value) {
		word, _, _ := strings.Cut(strings.TrimLeft(v[n:], " "), " ")
		switch strings.TrimRight(word, ".,;:!)\"}") {
		case "seconds", "second", "secs", "sec":
			value += "s"
		case "minutes", "minute", "mins", "min":
			value += "m"
		case "hours", "hour":
			value += "h"
		case "milliseconds", "millisecond":
			value += "ms"
		default:
			return 0, false
		}
		d, err = time.ParseDuration(value)
	}
	return d, err == nil && d >= 0 && d <= maxHint
}
