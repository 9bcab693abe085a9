package transport

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// The types of OpenAI's errors that a refusal may have.
const (
	InvalidRequest = "invalid_request_error"
	Overloaded     = "service_unavailable_error"
	ServerError    = "server_error"
)

// Refusal returns the answer to a call that was refused before it was made: shed
// by the dispatcher, too large, for a model nobody knows, or wrong in a field that
// the estimator reads. It returns nil for every other error.
func Refusal(err error) *Error {
	if shed, ok := errors.AsType[*dispatcher.ShedError](err); ok {
		return shedding(shed)
	}
	if large, ok := errors.AsType[*dispatcher.TooLargeError](err); ok {
		return tooLarge(large)
	}
	if bad, ok := errors.AsType[*estimator.RequestError](err); ok {
		return badRequest(bad)
	}
	if errors.Is(err, provider.ErrUnknownModel) {
		return &Error{
			Status: http.StatusNotFound, Type: InvalidRequest, Code: "model_not_found", Param: "model",
			Message: "The model does not exist or is not offered here.",
		}
	}
	return nil
}

// shedding says 429 when the caller's own queue or limit is the reason, since
// LangChain obeys Retry-After on that alone, and 503 when all have to wait.
func shedding(shed *dispatcher.ShedError) *Error {
	e := &Error{Status: http.StatusServiceUnavailable, Type: Overloaded, Code: "server_is_overloaded", Wait: shed.RetryAfter}
	if shed.Own {
		e.Status, e.Type, e.Code = http.StatusTooManyRequests, "tokens", "rate_limit_exceeded"
	}
	switch shed.Reason {
	case dispatcher.QueueFull:
		e.Message = "The queue is full. Please retry later."
	case dispatcher.TenantQueueFull:
		e.Type = "requests"
		e.Message = "Too many of your requests are waiting already. Please retry later."
	case dispatcher.Background:
		e.Message = "The queue is too long for background work at the moment. Please retry later."
	case dispatcher.Evicted:
		e.Message = "The queue is full, and more urgent requests came. Please retry later."
	case dispatcher.Hopeless:
		e.Message = "The request could not be started before its deadline. Please retry later."
	case dispatcher.Expired:
		// It has waited for as long as anybody may: at once is too soon.
		e.NoRetry = true
		e.Message = "The request waited for as long as it may and could not be started."
		if shed.Own {
			e.Message = "The request waited for your own rate limit for as long as it may."
		} else {
			e.Code = "queue_timeout"
		}
	case dispatcher.Closing:
		e.Close = true
		e.Message = "The server is shutting down. Please retry."
	default:
		e.Message = "The server is overloaded. Please retry later."
	}
	return e
}

// tooLarge is not a 429, which clients would retry.
func tooLarge(large *dispatcher.TooLargeError) *Error {
	e := &Error{Status: http.StatusRequestEntityTooLarge, Type: InvalidRequest, Code: "request_too_large", NoRetry: true}
	unit := strings.ReplaceAll(large.Limit.Unit.String(), "_", " ")
	e.Message = fmt.Sprintf("The request needs %d %s at once, and a limit takes at most %d.", large.Charge, unit, large.Limit.Largest())
	if misread(e.Message) {
		e.Message = fmt.Sprintf("The request needs more %s at once than a limit takes.", unit)
	}
	if large.Limit.Unit == ledger.Tokens || large.Limit.Unit == ledger.InputTokens || large.Limit.Unit == ledger.OutputTokens {
		e.Message += " Shorten the prompt or lower max_tokens."
	}
	return e
}

// misread says that langchaingo would take the text for another status: it looks
// for these digits anywhere in it.
func misread(text string) bool {
	for _, digits := range []string{"400", "429", "503"} {
		if strings.Contains(text, digits) {
			return true
		}
	}
	return false
}

func badRequest(bad *estimator.RequestError) *Error {
	e := &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Param: bad.Param}
	switch {
	case bad.Param == "":
		e.Message = "We could not parse the JSON body of your request: it must be a JSON object."
	case errors.Is(bad, estimator.ErrMissing):
		e.Code = "missing_required_parameter"
		e.Message = fmt.Sprintf("Missing required parameter: '%s'.", bad.Param)
	default:
		e.Code = "invalid_type"
		e.Message = fmt.Sprintf("Invalid type for '%s': %v.", bad.Param, bad.Err)
	}
	return e
}
