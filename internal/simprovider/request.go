package simprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// chatRequest is a valid request for a completion, whatever its API.
type chatRequest struct {
	modelID      string
	input        int64   // tokens, estimated by the characters together
	perMessage   int64   // the same, message by message
	last         content // of the last message of the user
	choices      int64
	charge       int64 // output tokens per choice that the caps declare; -1 for none
	limit        int64 // the most output tokens of a choice; -1 for none
	tool         string
	stream       bool
	includeUsage bool
}

type chatBody struct {
	Model               string     `json:"model"`
	Messages            []message  `json:"messages"`
	Tools               tools      `json:"tools"`
	ToolChoice          toolChoice `json:"tool_choice"`
	N                   *int64     `json:"n"`
	MaxTokens           *int64     `json:"max_tokens"`
	MaxCompletionTokens *int64     `json:"max_completion_tokens"`
	Temperature         *float64   `json:"temperature"`
	TopP                *float64   `json:"top_p"`
	PresencePenalty     *float64   `json:"presence_penalty"`
	FrequencyPenalty    *float64   `json:"frequency_penalty"`
	Stream              bool       `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// parseChat reads and checks a body. It keeps no part of it.
func parseChat(data []byte) (*chatRequest, *apiError) {
	var b chatBody
	if err := parseJSON(data, &b); err != nil {
		return nil, err
	}
	if b.Model == "" {
		return nil, missingModel()
	}
	if err := b.checkValues(); err != nil {
		return nil, err
	}
	r := &chatRequest{modelID: b.Model, choices: 1, charge: -1, limit: -1, stream: b.Stream}
	if b.StreamOptions != nil {
		r.includeUsage = b.StreamOptions.IncludeUsage
	}
	if b.N != nil {
		r.choices = *b.N
	}
	// Of two caps the larger is charged, and the smaller is kept to.
	for _, limit := range []*int64{b.MaxTokens, b.MaxCompletionTokens} {
		if limit == nil {
			continue
		}
		r.charge = max(r.charge, *limit)
		if r.limit < 0 || *limit < r.limit {
			r.limit = *limit
		}
	}
	r.count(b.Messages, b.Tools.runes)
	var err *apiError
	r.tool, err = b.ToolChoice.pick(b.Tools)
	return r, err
}

// count estimates the input, of the messages and of more characters beside them,
// and finds what is to be answered.
func (r *chatRequest) count(messages []message, more int64) {
	runes := more
	r.perMessage = tokenCount(more)
	for _, m := range messages {
		runes += m.Content.runes
		r.perMessage += m.Content.runes/4 + 1
		if m.Role == "user" {
			r.last = m.Content
		}
	}
	r.input = tokenCount(runes)
}

func (b *chatBody) checkValues() *apiError {
	if len(b.Messages) == 0 {
		return invalid("messages", "invalid_value", "Invalid 'messages': expected an array with at least one message.")
	}
	if b.StreamOptions != nil && !b.Stream {
		return invalid("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	for i, m := range b.Messages {
		at := fmt.Sprintf("messages[%d].", i)
		switch {
		case !slices.Contains(roles, m.Role):
			return invalid(at+"role", "invalid_value", fmt.Sprintf("Invalid value for '%srole': %q.", at, m.Role))
		case m.Content.bad:
			return invalid(at+"content", "invalid_type", fmt.Sprintf("Invalid type for '%scontent': expected a string or an array of parts.", at))
		case !m.Content.present && m.Role != "assistant":
			return invalid(at+"content", "invalid_type", fmt.Sprintf("Invalid type for '%scontent': expected a string, but got null or nothing.", at))
		}
	}
	for _, v := range []struct {
		name   string
		value  *float64
		lo, hi float64
	}{
		{"temperature", b.Temperature, 0, 2},
		{"top_p", b.TopP, 0, 1},
		{"presence_penalty", b.PresencePenalty, -2, 2},
		{"frequency_penalty", b.FrequencyPenalty, -2, 2},
	} {
		if v.value != nil && (*v.value < v.lo || *v.value > v.hi) {
			return invalid(v.name, "invalid_value", fmt.Sprintf("Invalid value for '%s': expected a number between %v and %v.", v.name, v.lo, v.hi))
		}
	}
	for _, v := range []struct {
		name  string
		value *int64
		hi    int64
	}{
		{"n", b.N, 128},
		{"max_tokens", b.MaxTokens, 1 << 40},
		{"max_completion_tokens", b.MaxCompletionTokens, 1 << 40},
	} {
		if v.value != nil && (*v.value < 1 || *v.value > v.hi) {
			return invalid(v.name, "invalid_value", fmt.Sprintf("Invalid value for '%s': expected an integer between 1 and %d.", v.name, v.hi))
		}
	}
	return nil
}

// outputCharge is what the caps may come to, over all choices.
func (r *chatRequest) outputCharge(byDefault int64) int64 {
	if r.charge < 0 {
		return r.choices * byDefault
	}
	return r.choices * r.charge
}

// tools are the declared functions. Their JSON counts as input, as it was sent.
type tools struct {
	names []string
	runes int64
	bad   bool
}

func (t *tools) UnmarshalJSON(b []byte) error {
	*t = tools{}
	if string(b) == "null" {
		return nil
	}
	t.runes = int64(utf8.RuneCount(b))
	var list []struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	t.bad = json.Unmarshal(b, &list) != nil
	for _, f := range list {
		t.bad = t.bad || f.Type != "function" || f.Function.Name == ""
		t.names = append(t.names, f.Function.Name)
	}
	return nil
}

// toolChoice is "none", "auto", "required", or the name of a function.
type toolChoice struct {
	mode, name string
	bad        bool
}

func (c *toolChoice) UnmarshalJSON(b []byte) error {
	*c = toolChoice{}
	var object struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case b[0] == '{' && json.Unmarshal(b, &object) == nil:
		c.mode, c.name = "named", object.Function.Name
		c.bad = object.Type != "function"
	case json.Unmarshal(b, &c.mode) == nil:
		c.bad = !slices.Contains([]string{"", "none", "auto", "required"}, c.mode)
	default:
		c.bad = true
	}
	return nil
}

// pick is the function that the model is made to call, or "".
func (c toolChoice) pick(t tools) (string, *apiError) {
	switch {
	case t.bad:
		return "", invalid("tools", "invalid_value", "Invalid value for 'tools': expected an array of functions with names.")
	case c.bad:
		return "", invalid("tool_choice", "invalid_value", "Invalid value for 'tool_choice': expected none, auto, required or a function.")
	case c.mode == "named" && !slices.Contains(t.names, c.name):
		return "", invalid("tool_choice", "invalid_value", fmt.Sprintf("Invalid value for 'tool_choice': function %s is not among 'tools'.", strconv.Quote(c.name)))
	case c.mode == "named":
		return c.name, nil
	case c.mode == "required" && len(t.names) == 0:
		return "", invalid("tool_choice", "invalid_value", "Invalid value for 'tool_choice': 'required' needs 'tools'.")
	case c.mode == "required":
		return t.names[0], nil
	}
	return "", nil
}

// parseJSON reads a body into v. A value of the wrong type is blamed by its path.
func parseJSON(data []byte, v any) *apiError {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return invalid(wrong.Field, "invalid_type", fmt.Sprintf("Invalid type for '%s': a %s cannot be used here.", wrong.Field, wrong.Value))
	default:
		return invalid("", "", "We could not parse the JSON body of your request.")
	}
}

func missingModel() *apiError {
	return invalid("model", "missing_required_parameter", "you must provide a model parameter")
}
