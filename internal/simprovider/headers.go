package simprovider

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// write sets the headers that the provider has for what is left.
func (st standing) write(h http.Header, kind Kind) {
	switch kind {
	case KindBedrock: // tells nothing
	case KindAnthropic:
		st.writeAnthropic(h)
	case KindAzure:
		st[dimRequests].write(h, "Requests", seconds)
		st[dimTokens].write(h, "Tokens", seconds)
	case KindGroq:
		st[dimDay].write(h, "Requests", goDuration)
		st[dimTokens].write(h, "Tokens", goDuration)
	default:
		st[dimRequests].write(h, "Requests", goDuration)
		st[dimTokens].write(h, "Tokens", goDuration)
	}
}

// write sets the headers in OpenAI's form.
func (q quota) write(h http.Header, name string, reset func(time.Duration) string) {
	if q.limit == Unlimited {
		return
	}
	h["X-Ratelimit-Limit-"+name] = []string{strconv.FormatInt(q.limit, 10)}
	h["X-Ratelimit-Remaining-"+name] = []string{strconv.FormatInt(q.remaining, 10)}
	h["X-Ratelimit-Reset-"+name] = []string{reset(q.reset)}
}

// goDuration rounds up to milliseconds.
func goDuration(d time.Duration) string { return roundUp(d, time.Millisecond).String() }

// seconds rounds up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(roundUp(d, time.Second)/time.Second), 10)
}

// writeAnthropic sets Anthropic's. Where input and output have limits of their
// own, "tokens" is both together.
func (st standing) writeAnthropic(h http.Header) {
	now := time.Now()
	write := func(name string, q quota, unit float64) {
		if q.limit == Unlimited {
			return
		}
		left := int64(math.Round(float64(q.remaining)/unit) * unit)
		h["Anthropic-Ratelimit-"+name+"-Limit"] = []string{strconv.FormatInt(q.limit, 10)}
		h["Anthropic-Ratelimit-"+name+"-Remaining"] = []string{strconv.FormatInt(min(left, q.limit), 10)}
		at := now.Add(q.reset + time.Second - 1) // of which whole seconds are written
		h["Anthropic-Ratelimit-"+name+"-Reset"] = []string{at.UTC().Format(time.RFC3339)}
	}
	const thousands = 1000
	write("Requests", st[dimRequests], 1)
	in, out := st[dimTokens], st[dimOutput]
	if out.limit == Unlimited {
		write("Tokens", in, thousands)
		return
	}
	write("Input-Tokens", in, thousands)
	write("Output-Tokens", out, thousands)
	if in.limit != Unlimited {
		write("Tokens", quota{in.limit + out.limit, in.remaining + out.remaining, max(in.reset, out.reset)}, thousands)
	}
}
