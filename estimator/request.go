package estimator

import "errors"

// MaxTokens is the largest number this package returns: larger ones saturate.
// It is exact in a float64, so a ledger that counts in Lua keeps it exact, and
// any few of them add up without overflow.
const MaxTokens = 1<<53 - 1

// Request is what a call asks for, as far as its cost depends on it: read once
// from the body, then estimated for any model. Build one with [ParseChat] or
// [ParseEmbeddings]; the zero Request is an empty chat. A Request is not changed
// by an estimate and may be shared between goroutines.
//
// It keeps the text of the prompt but no image, audio or file, and no reference
// to the body.
type Request struct {
	// Model is the model the body names, as written; empty when it names none.
	Model string
	// Stream and IncludeUsage are stream and stream_options.include_usage.
	Stream, IncludeUsage bool
	// OutputCap is the largest of max_tokens, max_completion_tokens and
	// max_output_tokens, in tokens per choice; 0 unless Declared.
	OutputCap int64
	// Declared says that the body has an output cap. A negative one does not
	// count: backends that accept it read it as no cap.
	Declared bool
	// Choices is how many outputs the body asks for: the larger of n and
	// best_of, times the number of prompts of a legacy completion. 0 counts as 1.
	Choices int64

	prompt     prompt
	embeddings bool
}

// textRequest returns a chat of one message.
func textRequest(text string) *Request {
	r := &Request{Choices: 1}
	r.prompt.messages = 1
	r.prompt.role([]byte("user"))
	r.prompt.buf = appendValid(nil, []byte(text))
	r.prompt.end()
	r.prompt.seal()
	return r
}

// RequestError says why a body cannot be estimated.
type RequestError struct {
	// Param is the top-level field at fault; empty for the body itself.
	Param string
	// Err is the reason; a *json.SyntaxError when the body is not JSON.
	Err error
}

func (e *RequestError) Error() string {
	if e.Param == "" {
		return "estimator: request body: " + e.Err.Error()
	}
	return "estimator: " + e.Param + ": " + e.Err.Error()
}

func (e *RequestError) Unwrap() error { return e.Err }

// ErrMissing is the reason in a [RequestError] for a body without its prompt.
var ErrMissing = errors.New("missing")

// saturatingAdd adds two numbers between 0 and MaxTokens.
func saturatingAdd(a, b int64) int64 { return min(a+b, MaxTokens) }

// saturatingMul multiplies two numbers that are not negative.
func saturatingMul(a, b int64) int64 {
	if a == 0 || b <= MaxTokens/a {
		return a * b
	}
	return MaxTokens
}
