package provider

import (
	"net/http"
	"strings"
	"time"
)

// Format is how a time to wait is written.
type Format string

// The formats. Absolute times are measured against the answer's own Date header,
// so that a wrong clock on either side does no harm; without a Date they are
// absent.
const (
	// GoDuration is 120ms, 6m0s or 23h18m29.144s.
	GoDuration Format = "go_duration"
	// Seconds and Milliseconds are plain numbers, with decimals or without.
	Seconds      Format = "seconds"
	Milliseconds Format = "milliseconds"
	// SecondsOrDate is what Retry-After may hold by RFC 9110: seconds (decimals
	// are taken, too) or an HTTP-date.
	SecondsOrDate Format = "seconds_or_date"
	// RFC3339 is an absolute time with its zone.
	RFC3339 Format = "rfc3339"
	// EpochSeconds and EpochMilliseconds count from 1970.
	EpochSeconds      Format = "epoch_s"
	EpochMilliseconds Format = "epoch_ms"
	// AnyFormat takes all of the above. A bare number is seconds, unless it can
	// only be an absolute time.
	AnyFormat Format = "any"
)

const (
	// maxHint is the longest wait a provider is believed to ask for.
	maxHint = 24 * time.Hour
	// maxReset is the longest reset that is believed: there are 30-day buckets.
	maxReset = 32 * 24 * time.Hour
)

// parse returns the time to wait, never negative, and whether v says one.
func (f Format) parse(v string, h http.Header) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" || len(v) > 64 {
		return 0, false
	}
	switch f {
	case GoDuration:
		d, err := time.ParseDuration(v)
		return d, err == nil && d >= 0 && v[0] != '-'
	case Seconds, Milliseconds:
		return number(v, f)
	case SecondsOrDate:
		if d, ok := number(v, Seconds); ok {
			return d, true
		}
		t, err := http.ParseTime(v)
		return until(t, h, err == nil)
	case RFC3339:
		t, err := time.Parse(time.RFC3339, v)
		return until(t, h, err == nil)
	case EpochSeconds, EpochMilliseconds:
		unit := Seconds
		if f == EpochMilliseconds {
			unit = Milliseconds
		}
		d, ok := number(v, unit)
		return until(time.Unix(0, int64(d)), h, ok)
	case AnyFormat:
		return anyFormat(v, h)
	}
	return 0, false
}

func anyFormat(v string, h http.Header) (time.Duration, bool) {
	if d, ok := number(v, Seconds); ok {
		switch {
		case d < 1e9*time.Second: // 31 years
			return d, true
		case d < 1e9*time.Second*9: // the year 2255
			return EpochSeconds.parse(v, h)
		}
	}
	if _, ok := number(v, Milliseconds); ok {
		return EpochMilliseconds.parse(v, h)
	}
	for _, f := range []Format{GoDuration, RFC3339, SecondsOrDate} {
		if d, ok := f.parse(v, h); ok {
			return d, true
		}
	}
	return 0, false
}

// number reads digits with at most one point among them.
func number(v string, unit Format) (time.Duration, bool) {
	whole, part, pointed := strings.Cut(v, ".")
	if !digits(whole) || pointed && !digits(part) {
		return 0, false
	}
	suffix := "s"
	if unit == Milliseconds {
		suffix = "ms"
	}
	d, err := time.ParseDuration(v + suffix) // refuses what overflows
	return d, err == nil
}

// until is the time from the answer's Date to t. Dates have whole seconds, so a
// moment that is less than one in the past is now.
func until(t time.Time, h http.Header, ok bool) (time.Duration, bool) {
	if !ok {
		return 0, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0, false
	}
	d := t.Sub(date)
	if d < 0 && d > -time.Second {
		d = 0
	}
	return d, d >= 0
}
