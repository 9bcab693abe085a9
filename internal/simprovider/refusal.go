package simprovider

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// apiError words a refusal as the provider does, and sets its headers.
func (r *refusal) apiError(h http.Header, kind Kind, model string, minute time.Duration) *apiError {
	// A hint in milliseconds is rounded up to them, one in seconds to those.
	r.wait = max(roundUp(r.wait, time.Millisecond), time.Millisecond)
	switch kind {
	case KindAzure:
		return r.azure(h, minute)
	case KindAnthropic:
		return r.anthropic(h, model)
	case KindBedrock:
		// The same whatever the reason.
		return &apiError{status: http.StatusTooManyRequests, message: "Too many tokens, please wait before trying again."}
	case KindGroq:
		return r.groq(h, model)
	default:
		return r.openAI(h, kind, model)
	}
}

// hint sets Retry-After in whole seconds, which is all that most providers send.
func (r *refusal) hint(h http.Header) {
	if !r.bare {
		h["Retry-After"] = []string{seconds(r.wait)}
	}
}

func (r *refusal) hintMS(h http.Header) {
	if !r.bare {
		h["Retry-After-Ms"] = []string{strconv.FormatInt(r.wait.Milliseconds(), 10)}
	}
}

// kind is "requests" or "tokens".
func (r *refusal) kind() string {
	if r.dim == dimRequests || r.dim == dimDay {
		return "requests"
	}
	return "tokens"
}

func (r *refusal) openAI(h http.Header, kind Kind, model string) *apiError {
	unit := "tokens per min (TPM)"
	if r.kind() == "requests" {
		unit = "requests per min (RPM)"
	}
	e := &apiError{status: http.StatusTooManyRequests, kind: r.kind(), code: "rate_limit_exceeded"}
	if r.never {
		h["X-Should-Retry"] = []string{"false"}
		e.message = fmt.Sprintf("Request too large for %s in organization org-sim on %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully.",
			model, unit, r.limit, r.ask)
		return e
	}
	r.hint(h)
	r.hintMS(h)
	e.message = fmt.Sprintf("Rate limit reached for %s in organization org-sim on %s: Limit %d, Used %d, Requested %d.",
		model, unit, r.limit, r.used, r.ask)
	if !r.bare {
		e.message += fmt.Sprintf(" Please try again in %s.", r.wait)
	}
	if kind == KindOpenAI {
		e.message += " Visit https://platform.openai.com/account/rate-limits to learn more."
	}
	return e
}

func (r *refusal) groq(h http.Header, model string) *apiError {
	unit := [dims]string{"requests per minute (RPM)", "tokens per minute (TPM)", "output tokens per minute (OTPM)", "requests per day (RPD)"}[r.dim]
	e := &apiError{status: http.StatusTooManyRequests, kind: r.kind(), code: "rate_limit_exceeded"}
	e.message = fmt.Sprintf(" for model `%s` in organization `org_sim` service tier `on_demand` on %s: Limit %d", model, unit, r.limit)
	if r.never {
		h["X-Should-Retry"] = []string{"false"}
		e.status = http.StatusRequestEntityTooLarge
		e.message = fmt.Sprintf("Request too large%s, Requested %d, please reduce your message size and try again.", e.message, r.ask)
		return e
	}
	r.hint(h)
	e.message = fmt.Sprintf("Rate limit reached%s, Used %d, Requested %d.", e.message, r.used, r.ask)
	if !r.bare {
		e.message += fmt.Sprintf(" Please try again in %s.", r.wait)
	}
	e.message += " Visit https://console.groq.com/docs/rate-limits for more information."
	return e
}

// azure: what is too large is not told apart, and is asked to wait for nothing.
func (r *refusal) azure(h http.Header, minute time.Duration) *apiError {
	if r.never {
		r.wait = minute
	}
	r.hint(h)
	r.hintMS(h)
	h["X-Ms-Region"] = []string{"Sim"}
	limit := "token"
	if r.kind() == "requests" {
		limit = "call"
	}
	e := &apiError{status: http.StatusTooManyRequests}
	e.message = fmt.Sprintf("Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded %s rate limit of your current AIServices S0 pricing tier.", limit)
	if !r.bare {
		e.message += fmt.Sprintf(" Please retry after %s seconds.", seconds(r.wait))
	}
	return e
}

func (r *refusal) anthropic(h http.Header, model string) *apiError {
	unit := [dims]string{"requests", "input tokens", "output tokens", "requests per day"}[r.dim]
	if r.never {
		h["X-Should-Retry"] = []string{"false"}
	} else {
		r.hint(h)
	}
	return &apiError{status: http.StatusTooManyRequests, message: fmt.Sprintf(
		"This request would exceed your organization's rate limit of %s %s per minute (org: 00000000-0000-0000-0000-000000000000, model: %s). For details, refer to: https://docs.claude.com/en/api/rate-limits.",
		grouped(r.limit), unit, model)}
}

// grouped writes a number with a comma after every three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
