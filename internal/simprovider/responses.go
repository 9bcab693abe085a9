package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// responsesBody is a request of OpenAI's Responses API.
type responsesBody struct {
	Model           string          `json:"model"`
	Input           responsesInput  `json:"input"`
	Instructions    *string         `json:"instructions"`
	Tools           json.RawMessage `json:"tools"`
	MaxOutputTokens *int64          `json:"max_output_tokens"`
	Stream          bool            `json:"stream"`
}

// responsesInput is a string, or an array of items; those without a role count
// nothing.
type responsesInput struct {
	messages []message
	bad      bool
}

func (in *responsesInput) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		in.bad = json.Unmarshal(b, &in.messages) != nil
		return nil
	}
	m := message{Role: "user"}
	in.bad = json.Unmarshal(b, &m.Content) != nil
	in.bad = in.bad || m.Content.bad || !m.Content.present
	in.messages = []message{m}
	return nil
}

// parseResponses reads and checks a body. It keeps no part of it.
func parseResponses(data []byte) (*chatRequest, *apiError) {
	var b responsesBody
	if err := parseJSON(data, &b); err != nil {
		return nil, err
	}
	switch limit := b.MaxOutputTokens; {
	case b.Model == "":
		return nil, missingModel()
	case b.Input.bad || len(b.Input.messages) == 0:
		return nil, invalid("input", "invalid_type", "Invalid type for 'input': expected a string or an array of items.")
	case limit != nil && (*limit < 1 || *limit > 1<<40):
		return nil, invalid("max_output_tokens", "invalid_value", "Invalid value for 'max_output_tokens': expected an integer between 1 and 1099511627776.")
	}
	r := &chatRequest{modelID: b.Model, choices: 1, charge: -1, limit: -1, stream: b.Stream}
	if b.MaxOutputTokens != nil {
		r.charge, r.limit = *b.MaxOutputTokens, *b.MaxOutputTokens
	}
	more := int64(utf8.RuneCount(b.Tools))
	if b.Instructions != nil {
		more += int64(utf8.RuneCountInString(*b.Instructions))
	}
	r.count(b.Input.messages, more)
	return r, nil
}

// serveResponses answers POST /v1/responses.
func (s *Server) serveResponses(w http.ResponseWriter, r *http.Request) *apiError {
	c, err := s.begin(w, r, parseResponses, "resp_")
	if err != nil {
		return err
	}
	defer s.finish(c.grant)
	if c.stream {
		return c.streamResponse(w, r)
	}
	if !c.complete(r.Context()) {
		return errGone
	}
	writeJSON(w, http.StatusOK, c.response(c.outcome(), c.wholeText()))
	return nil
}

// outcome is the status of an answer that has ended.
func (c *completion) outcome() string {
	if c.answer.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (c *completion) wholeText() []byte { return c.answer.appendText(nil, 0, c.answer.tokens) }

// itemID is the id of the one output item.
func (c *completion) itemID() string { return "msg_" + strings.TrimPrefix(c.id, "resp_") }

// response is the object with its status; only one that has ended has output and
// usage.
func (c *completion) response(status string, text []byte) []byte {
	failure, details := "null", "null"
	switch status {
	case "failed":
		failure = `{"code":"server_error","message":"upstream closed the connection"}`
	case "incomplete":
		details = `{"reason":"max_output_tokens"}`
	}
	output, usage := "", "null"
	if status == "completed" || status == "incomplete" {
		g := c.grant
		output = string(c.item(status, text))
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			g.input, g.cacheRead, g.produced, g.input+g.produced)
	}
	return fmt.Appendf(nil, `{"id":%q,"object":"response","created_at":%d,"status":%q,"error":%s,"incomplete_details":%s,"model":%s,"output":[%s],"usage":%s}`,
		c.id, c.created, status, failure, details, c.model.json, output, usage)
}

// item is the message with its text, escaped; nil for one without content yet.
func (c *completion) item(status string, text []byte) []byte {
	part := ""
	if text != nil {
		part = string(outputText(text))
	}
	return fmt.Appendf(nil, `{"type":"message","id":%q,"status":%q,"role":"assistant","content":[%s]}`, c.itemID(), status, part)
}

func outputText(text []byte) []byte {
	return fmt.Appendf(nil, `{"type":"output_text","annotations":[],"text":"%s"}`, text)
}

// streamResponse sends the events of a response. There is no [DONE].
func (c *completion) streamResponse(w http.ResponseWriter, r *http.Request) *apiError {
	e, err := c.open(w, r)
	if err != nil {
		return err
	}
	number := 0
	event := func(name, format string, args ...any) {
		b := fmt.Appendf(nil, `{"type":%q,"sequence_number":%d,`, name, number)
		e.named(name, append(fmt.Appendf(b, format, args...), '}'))
		number++
	}
	id := c.itemID()
	event("response.created", `"response":%s`, c.response("in_progress", nil))
	event("response.output_item.added", `"output_index":0,"item":%s`, c.item("in_progress", nil))
	event("response.content_part.added", `"item_id":%q,"output_index":0,"content_index":0,"part":%s`, id, outputText(nil))
	whole := e.say(r.Context(), func(text []byte) {
		event("response.output_text.delta", `"item_id":%q,"output_index":0,"content_index":0,"delta":"%s"`, id, text)
	})
	if !whole {
		e.fail(r.Context(), func() { event("response.failed", `"response":%s`, c.response("failed", nil)) })
	}
	text, status := c.wholeText(), c.outcome()
	event("response.output_text.done", `"item_id":%q,"output_index":0,"content_index":0,"text":"%s"`, id, text)
	event("response.content_part.done", `"item_id":%q,"output_index":0,"content_index":0,"part":%s`, id, outputText(text))
	event("response.output_item.done", `"output_index":0,"item":%s`, c.item(status, text))
	event("response."+status, `"response":%s`, c.response(status, text))
	e.close()
	return nil
}
