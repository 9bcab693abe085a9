package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/transport"
)

// invalid is the answer to a bad value; the param is the field or the header.
func invalid(param, why string) *transport.Error {
	return &transport.Error{
		Status: http.StatusBadRequest, Type: transport.InvalidRequest, Code: "invalid_value", Param: param,
		Message: fmt.Sprintf("Invalid value for '%s': %s.", param, why),
	}
}

func missing(param string) *transport.Error {
	return &transport.Error{
		Status: http.StatusBadRequest, Type: transport.InvalidRequest, Code: "missing_required_parameter", Param: param,
		Message: fmt.Sprintf("Missing required parameter: '%s'.", param),
	}
}

func notFound(message string) *transport.Error {
	return &transport.Error{Status: http.StatusNotFound, Type: transport.InvalidRequest, Message: message}
}

// overloaded refuses what the server itself has no room for.
func overloaded(message string) *transport.Error {
	return &transport.Error{
		Status: http.StatusServiceUnavailable, Type: transport.Overloaded, Code: "server_is_overloaded", Message: message,
	}
}

// errStopping is why a call was cut off that outlived the drain.
var errStopping = &transport.Error{
	Status: http.StatusServiceUnavailable, Type: transport.Overloaded, Code: "server_is_overloaded", Close: true,
	Message: "The server is shutting down. Please retry.",
}

// answerTo returns what a caller is told about an error; nil for one that should
// not happen.
func answerTo(err error) *transport.Error {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*providerError](err); ok {
		return e.answer
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &transport.Error{
			Status: http.StatusRequestEntityTooLarge, Type: transport.InvalidRequest, Code: "request_too_large", NoRetry: true,
			Message: fmt.Sprintf("The request body is larger than %d MiB.", large.Limit>>20),
		}
	}
	return transport.Refusal(err)
}

// errInternal is what is told of an error that should not happen.
var errInternal = &transport.Error{
	Status: http.StatusInternalServerError, Type: transport.ServerError,
	Message: "The server had an error while processing your request.",
}

// answerTo is what a caller is told about any error, by a server that may be
// stopping.
func (s *server) answerTo(err error) *transport.Error {
	if e := answerTo(err); e != nil {
		return e
	}
	if p, ok := errors.AsType[*dispatcher.PanicError](err); ok {
		s.log.Error("a call panicked", "panic", p.Value, "stack", string(p.Stack))
		return errInternal
	}
	if s.health.draining.Load() {
		return errStopping // the dispatcher ended the call's context
	}
	s.log.Error("a request failed unexpectedly", "error", err)
	return errInternal
}
