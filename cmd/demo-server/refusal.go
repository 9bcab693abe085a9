package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// providerError is a call that the provider did not answer as it should.
type providerError struct {
	// answer is what callers are told. Its code begins with "upstream_", which
	// tells it from a refusal of our own (tensorzero/tensorzero#3678), or is the
	// provider's own when the caller is at fault.
	answer *transport.Error
	// verbatim is the provider's own answer, if callers should see it.
	verbatim []byte
	err      error
}

func (e *providerError) Error() string {
	if e.err != nil {
		return e.answer.Message + " " + e.err.Error()
	}
	return e.answer.Message
}

func (e *providerError) Unwrap() error { return e.err }

func failed(status int, code, message string, err error) *providerError {
	return &providerError{answer: &transport.Error{Status: status, Type: transport.ServerError, Code: "upstream_" + code, Message: message}, err: err}
}

func unreachable(err error) error {
	return failed(http.StatusBadGateway, "unreachable", "The provider can not be reached.", err)
}

func broken(err error) error {
	return failed(http.StatusBadGateway, "error", "The upstream provider broke off its answer.", err)
}

func tooSlow() error {
	return failed(http.StatusGatewayTimeout, "timeout", "The upstream provider did not answer in time.", errSlow)
}

// maxRefusal is how much of a refusal is read.
const maxRefusal = 64 << 10

// refusal reads an answer that is not a success. Nothing has reached the caller by
// then, so where trying again may help the error is a job.RetryError.
func (u *upstream) refusal(x *exchange, c *call, head provider.Head) error {
	u.refused(x.StatusCode)
	body, err := io.ReadAll(io.LimitReader(x.Body, maxRefusal+1))
	if err != nil {
		return x.failure(broken(err))
	}
	theirs := parseError(body)
	r := u.profile.Refusal(x.StatusCode, x.Header, body)
	e := explain(x.StatusCode, r.Class, theirs)
	e.answer.Wait = r.After
	if e.answer.Status >= 500 {
		u.complain("the provider refused a call", "status", x.StatusCode, "code", theirs.Code,
			"attempt", c.attempts, "provider_request", x.Header.Get("X-Request-Id"))
	}
	switch {
	case r.Retryable:
		head.Refusal = r
		closed := u.feedback != nil && u.feedback.Hear(x.ctx, head)
		after := c.pause()
		if r.From != provider.FromNowhere {
			after = r.After + rand.N(r.After/4+time.Millisecond)
		}
		return &job.RetryError{Err: e, After: after, Closed: closed}
	case e.answer.NoRetry || r.Class != provider.ClientError:
		e.answer.NoRetry = true
	case theirs.Message != "" && theirs.anthropic == (c.api == provider.Messages) && len(body) <= maxRefusal:
		e.verbatim = body
	}
	return e
}

// explain says what callers are told of a refusal.
func explain(status int, class provider.Class, theirs theirError) *providerError {
	switch {
	case class == provider.QuotaExhausted:
		return failed(http.StatusBadGateway, "account", "The provider refuses the server's account.", nil)
	case class == provider.TooLarge:
		e := failed(http.StatusRequestEntityTooLarge, "too_large", "The request is larger than the provider's limit. Shorten the prompt or lower max_tokens.", nil)
		e.answer.Type = transport.InvalidRequest
		return e
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		// Told as a 401, it would be taken for the caller's own key.
		e := failed(http.StatusBadGateway, "key", "The provider refuses the server's key.", nil)
		e.answer.NoRetry = true
		return e
	case class == provider.RateLimited || class == provider.Acceleration:
		e := failed(http.StatusServiceUnavailable, "rate_limited", "The upstream provider's rate limit is reached. Please retry later.", nil)
		e.answer.Type = transport.Overloaded
		return e
	case class == provider.Overloaded:
		e := failed(http.StatusServiceUnavailable, "overloaded", "The upstream provider is overloaded. Please retry later.", nil)
		e.answer.Type = transport.Overloaded
		return e
	case status == http.StatusGatewayTimeout:
		return failed(http.StatusGatewayTimeout, "timeout", "The upstream provider did not answer in time.", nil)
	case status >= 400 && status < 500:
		e := &providerError{answer: &transport.Error{Status: status, Type: transport.InvalidRequest, Code: theirs.Code, Param: theirs.Param, Message: theirs.Message}}
		if theirs.Message == "" {
			e.answer.Code, e.answer.Message = "upstream_refused", "The upstream provider refused the request."
		}
		return e
	default:
		return failed(http.StatusBadGateway, "error", "The upstream provider had an error.", nil)
	}
}

// theirError is an error in OpenAI's shape, or in Anthropic's, which has less. What has
// another type is left out.
type theirError struct {
	Message, Type, Param, Code string
	anthropic                  bool
}

func parseError(body []byte) theirError {
	var v struct {
		Type  any            `json:"type"`
		Error map[string]any `json:"error"`
	}
	if json.Unmarshal(body, &v) != nil {
		return theirError{}
	}
	text := func(key string) string {
		s, _ := v.Error[key].(string)
		return s
	}
	return theirError{text("message"), text("type"), text("param"), text("code"), v.Type == "error"}
}

// pause is the wait after an attempt that failed without a hint.
func (c *call) pause() time.Duration {
	if c.pauses == nil {
		c.pauses = transport.NewPauses()
	}
	return c.pauses.NextBackOff()
}

var (
	errNotJSON = errors.New("the answer is not a JSON object")
	errNoReply = errors.New("the answer has no choices")
)

// checkAnswer returns an answer in one piece, or why it is none. OpenAI's Responses
// API tells a failure in an answer like any other. Of its older APIs an "error" that is
// null is left out, which clients take for a failure.
func checkAnswer(api provider.API, body []byte) ([]byte, error) {
	if !json.Valid(body) || !isObject(body[skipSpace(body, 0):]) {
		return nil, broken(errNotJSON)
	}
	if api == provider.Responses {
		return body, nil
	}
	for f := range fields(body) {
		if string(f.key) == "error" && !isNull(body[f.value:f.end]) {
			return nil, inStream(body)
		}
	}
	if api == provider.Messages {
		return body, nil
	}
	return without(body, isNullError(body)), nil
}

// isNullError drops a key "error" that says there is none.
func isNullError(text []byte) func(field) bool {
	return func(f field) bool { return string(f.key) == "error" && isNull(text[f.value:f.end]) }
}

// inStream is an error that came with a status of success.
func inStream(body []byte) error {
	theirs := parseError(body)
	message := "The upstream provider failed."
	if theirs.Message != "" {
		message = fmt.Sprintf("The upstream provider failed: %.500s", theirs.Message)
	}
	return failed(http.StatusBadGateway, "error", message, nil)
}
