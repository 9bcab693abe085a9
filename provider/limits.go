package provider

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// Absent is the value of a number that a provider did not report, or reported in a
// way that cannot be believed.
const Absent = -1

// Reported is what an answer's headers say of one limit.
type Reported struct {
	// Name is what is limited: "requests", "tokens", "input_tokens",
	// "output_tokens", "project_tokens" and so on.
	Name string
	// Limit and Remaining are in units; Cost is what this call was charged.
	// Each is Absent when not reported.
	Limit, Remaining, Cost int64
	// Reset is the time, from the answer's Date, until the limit is free again;
	// of a continuous bucket, until it is full. Absent when not reported.
	Reset time.Duration
	// Window is the time the numbers are for; 0 when it is not known.
	Window time.Duration
	// RemainingWindow is the time that Remaining is for, where it is a shorter
	// one; else 0.
	RemainingWindow time.Duration
	// Rounding is the multiple that Remaining is rounded to; 0 for exact.
	Rounding int64
}

// Limits returns what the headers of an answer with the status say, one Reported
// per limit of which any header is there, or nil. Numbers that are negative, too
// large, or no numbers are absent, and a remainder above its limit is capped. On a
// success a limit of 0 is absent with its remainder, for the call was served
// (Azure's Responses API has sent -1 and 0, 2025-11).
func (p *Profile) Limits(status int, h http.Header) []Reported {
	var out []Reported
	for i := range p.Headers {
		f := &p.Headers[i]
		r, there := f.read(status, h)
		if !there {
			continue
		}
		if j := named(out, f.Name); j < 0 {
			out = append(out, r)
		} else if out[j].empty() {
			out[j] = r
		}
	}
	return out
}

func named(all []Reported, name string) int {
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}

func (r *Reported) empty() bool {
	return r.Limit == Absent && r.Remaining == Absent && r.Reset == Absent && r.Cost == Absent
}

func (f *LimitHeaders) read(status int, h http.Header) (r Reported, there bool) {
	r = Reported{
		Name: f.Name, Limit: Absent, Remaining: Absent, Cost: Absent, Reset: Absent,
		Window: f.Window, RemainingWindow: f.RemainingWindow, Rounding: f.Rounding,
	}
	get := func(name string) (string, bool) {
		if name == "" {
			return "", false
		}
		v := h.Values(name)
		if len(v) == 0 {
			return "", false
		}
		there = true
		return v[0], true
	}
	if v, ok := get(f.Limit); ok {
		r.Limit = amount(v)
	}
	if v, ok := get(f.Remaining); ok {
		r.Remaining = amount(v)
	}
	if v, ok := get(f.Cost); ok {
		r.Cost = amount(v)
	}
	if v, ok := get(f.Reset); ok {
		if d, ok := f.Format.parse(v, h); ok && d <= maxReset {
			r.Reset = d
		}
	}
	switch {
	case r.Limit == 0 && status/100 == 2:
		r.Limit, r.Remaining = Absent, Absent
	case r.Limit != Absent && r.Remaining > r.Limit:
		r.Remaining = r.Limit
	}
	return r, there
}

// amount reads a plain number that a ledger could hold, else Absent.
func amount(v string) int64 {
	v = strings.TrimSpace(v)
	if !digits(v) {
		return Absent
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n > ledger.MaxAmount {
		return Absent
	}
	return n
}

func digits(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return v != ""
}
