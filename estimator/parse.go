package estimator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// ParseChat reads the body of a chat completion. It also takes what the
// Responses API (input, instructions), the Messages API (system) and legacy
// completions (prompt) have beside or in the place of messages.
//
// It is strict only with the fields of [Request] and the kind of value that
// holds the prompt, which it reports as a [*RequestError]; inside a message
// every shape has a price, because the provider is the one to refuse it. As in
// encoding/json the last of duplicate keys counts. The body is not retained.
func ParseChat(body []byte) (*Request, error) {
	var messages, input, prompt, system, instructions []byte
	var tools, functions, choice, call, format []byte
	r, err := parse(body, func(key, v []byte) {
		switch string(key) {
		case "messages":
			messages = v
		case "input":
			input = v
		case "prompt":
			prompt = v
		case "system":
			system = v
		case "instructions":
			instructions = v
		case "tools":
			tools = v
		case "functions":
			functions = v
		case "tool_choice":
			choice = v
		case "function_call":
			call = v
		case "response_format":
			format = v
		}
	})
	if err != nil {
		return nil, err
	}
	err = cmp.Or(
		want("messages", messages, array, absent),
		want("input", input, array, str, null, absent),
		want("tools", tools, array, null, absent),
		want("functions", functions, array, null, absent))
	if err != nil {
		return nil, err
	}
	if !given(messages) && !given(input) && !given(prompt) {
		return nil, &RequestError{Param: "messages", Err: ErrMissing}
	}

	// All that is there counts, though no API reads all of it: which one the body
	// is for is not known here, and must not decide what goes uncounted.
	p := &r.prompt
	p.bare = !given(messages) && !given(input)
	p.toolBlock(tools, functions, choice, call)
	p.responseFormat(format)
	for _, v := range [][]byte{system, instructions} {
		if given(v) {
			p.plainMessage("system", v)
		}
	}
	for m := range elements(messages) {
		p.message(m)
	}
	if kindOf(input) == str {
		p.plainMessage("user", input)
	}
	for m := range elements(input) {
		p.message(m)
	}
	if given(prompt) {
		r.Choices = saturatingMul(r.Choices, p.texts(prompt))
	}
	p.seal()
	return r, nil
}

// given reports whether a field is there and not null.
func given(v []byte) bool {
	k := kindOf(v)
	return k != absent && k != null
}

// ParseEmbeddings reads the body of an embeddings call, whose input is a text,
// an array of texts, an array of token ids, or an array of such arrays.
func ParseEmbeddings(body []byte) (*Request, error) {
	var input []byte
	r, err := parse(body, func(key, v []byte) {
		if string(key) == "input" {
			input = v
		}
	})
	if err != nil {
		return nil, err
	}
	if input == nil {
		return nil, &RequestError{Param: "input", Err: ErrMissing}
	}
	if err := want("input", input, str, array); err != nil {
		return nil, err
	}
	r.embeddings = true
	r.prompt.bare = true
	r.prompt.texts(input)
	r.prompt.seal()
	return r, nil
}

// parse checks the body's syntax, reads the fields all bodies share, and hands
// the others to field.
func parse(body []byte, field func(key, value []byte)) (*Request, error) {
	if !json.Valid(body) {
		var raw json.RawMessage
		return nil, &RequestError{Err: json.Unmarshal(body, &raw)}
	}
	top := body[skipSpace(body, 0):]
	if err := want("", top, object); err != nil {
		return nil, err
	}
	var model, stream, options, n, bestOf []byte
	var caps [len(capNames)][]byte
	for key, v := range members(top) {
		switch string(key) {
		case "model":
			model = v
		case "stream":
			stream = v
		case "stream_options":
			options = v
		case "n":
			n = v
		case "best_of":
			bestOf = v
		case capNames[0]:
			caps[0] = v
		case capNames[1]:
			caps[1] = v
		case capNames[2]:
			caps[2] = v
		default:
			field(key, v)
		}
	}

	r := &Request{Choices: 1}
	err := cmp.Or(
		want("model", model, str, null, absent),
		want("stream", stream, yes, no, null, absent),
		want("stream_options", options, object, null, absent),
		want("n", n, number, null, absent),
		want("best_of", bestOf, number, null, absent))
	for i, v := range caps {
		err = cmp.Or(err, want(capNames[i], v, number, null, absent))
	}
	if err != nil {
		return nil, err
	}
	if kindOf(model) == str {
		r.Model = string(unquote(model))
	}
	r.Stream = string(stream) == "true"
	for key, v := range members(options) {
		if string(key) == "include_usage" {
			r.IncludeUsage = string(v) == "true"
		}
	}
	r.Choices = max(1, whole(n), whole(bestOf))
	// The larger counts, whichever the provider honours: with max_tokens 1 and
	// max_completion_tokens 10,000, 10,000 may come (BerriAI/litellm#37001).
	for _, v := range caps {
		if c := whole(v); c >= 0 {
			r.OutputCap, r.Declared = max(r.OutputCap, c), true
		}
	}
	return r, nil
}

// capNames are the fields that cap the output, in the order of their invention.
var capNames = [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// want returns an error that names the field unless v is of one of the kinds.
func want(param string, v []byte, kinds ...kind) error {
	for _, k := range kinds {
		if kindOf(v) == k {
			return nil
		}
	}
	return &RequestError{Param: param, Err: fmt.Errorf("want %v, got %v", kinds[0], kindOf(v))}
}

// whole reads a number as a whole one between -1 and MaxTokens, rounding up;
// what is not a number is -1.
func whole(v []byte) int64 {
	if kindOf(v) != number {
		return -1
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return min(max(n, -1), MaxTokens)
	}
	// Out of range gives an infinity, which saturates as it should.
	f, _ := strconv.ParseFloat(string(v), 64)
	if f < 0 {
		return -1
	}
	return int64(min(math.Ceil(f), MaxTokens))
}
