package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// messagesBody is a request of Anthropic's Messages API.
type messagesBody struct {
	Model     string          `json:"model"`
	System    content         `json:"system"`
	Messages  []message       `json:"messages"`
	Tools     json.RawMessage `json:"tools"`
	MaxTokens *int64          `json:"max_tokens"`
	Stream    bool            `json:"stream"`
}

// parseMessages reads and checks a body. It keeps no part of it.
func parseMessages(data []byte) (*chatRequest, *apiError) {
	r, limit, err := parseMessageInput(data)
	switch {
	case err != nil:
		return nil, err
	case limit == nil:
		return nil, invalid("", "", "max_tokens: Field required")
	case *limit < 1 || *limit > 1<<40:
		return nil, invalid("", "", "max_tokens: Input should be greater than or equal to 1")
	}
	r.charge, r.limit = *limit, *limit
	return r, nil
}

// parseMessageInput reads what needs no max_tokens to be counted.
func parseMessageInput(data []byte) (*chatRequest, *int64, *apiError) {
	var b messagesBody
	if err := parseJSON(data, &b); err != nil {
		return nil, nil, err
	}
	switch {
	case b.Model == "":
		return nil, nil, invalid("", "", "model: Field required")
	case len(b.Messages) == 0:
		return nil, nil, invalid("", "", "messages: at least one message is required")
	}
	r := &chatRequest{modelID: b.Model, choices: 1, charge: -1, limit: -1, stream: b.Stream}
	for i, m := range b.Messages {
		switch {
		case m.Role != "user" && m.Role != "assistant":
			return nil, nil, invalid("", "", fmt.Sprintf("messages.%d.role: Input should be 'user' or 'assistant'", i))
		case m.Content.bad || !m.Content.present:
			return nil, nil, invalid("", "", fmt.Sprintf("messages.%d.content: Input should be a valid string or list", i))
		}
	}
	r.count(b.Messages, b.System.runes+int64(utf8.RuneCount(b.Tools)))
	return r, b.MaxTokens, nil
}

// serveMessages answers POST /v1/messages.
func (s *Server) serveMessages(w http.ResponseWriter, r *http.Request) *apiError {
	c, err := s.begin(w, r, parseMessages, "msg_")
	if err != nil {
		return err
	}
	defer s.finish(c.grant)
	if c.stream {
		return c.streamMessage(w, r)
	}
	if !c.complete(r.Context()) {
		return errGone
	}
	b := fmt.Appendf(nil, `{"id":%q,"type":"message","role":"assistant","model":%s,"content":[{"type":"text","text":"`, c.id, c.model.json)
	b = c.answer.appendText(b, 0, c.answer.tokens)
	writeJSON(w, http.StatusOK, fmt.Appendf(b, `"}],"stop_reason":%q,"stop_sequence":null,"usage":%s}`, c.stopReason(), c.messageUsage(c.grant.produced)))
	return nil
}

// stopReason is the finish in the words of Anthropic and Bedrock.
func (c *completion) stopReason() string {
	if c.answer.finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

// messageUsage is the usage after so much output. Its input_tokens are those that
// have to do with no cache.
func (c *completion) messageUsage(output int64) string {
	g := c.grant
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d,"service_tier":"standard"}`,
		g.input-g.cacheRead-g.cacheWrite, g.cacheWrite, g.cacheRead, output)
}

// streamMessage sends the events of a message. One message_delta comes in mid
// stream, because its usage is cumulative, and clients that add it up are wrong.
func (c *completion) streamMessage(w http.ResponseWriter, r *http.Request) *apiError {
	e, err := c.open(w, r)
	if err != nil {
		return err
	}
	event := func(name, format string, args ...any) { e.named(name, fmt.Appendf(nil, format, args...)) }
	// The output_tokens of the beginning mean nothing.
	event("message_start", `{"type":"message_start","message":{"id":%q,"type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":%s}}`,
		c.id, c.model.json, c.messageUsage(1))
	event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	event("ping", `{"type":"ping"}`)
	whole := e.say(r.Context(), func(text []byte) {
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`, text)
		if e.content == 1 {
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":null,"stop_sequence":null},"usage":{"output_tokens":%d}}`, c.grant.produced)
		}
	})
	if !whole {
		e.fail(r.Context(), func() {
			event("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":%q}`, w.Header().Get("Request-Id"))
		})
	}
	event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":%s}`, c.stopReason(), c.messageUsage(c.grant.produced))
	event("message_stop", `{"type":"message_stop"}`)
	e.close()
	return nil
}

// serveCountTokens answers POST /v1/messages/count_tokens, which is free.
func (s *Server) serveCountTokens(w http.ResponseWriter, r *http.Request) *apiError {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := readBody(w, r, buf); err != nil {
		return err
	}
	req, _, err := parseMessageInput(buf.Bytes())
	if err != nil {
		return err
	}
	if _, err := s.model(req.modelID); err != nil {
		return err
	}
	c, err := s.call(r.Header, req.input, 0, 0)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, c.input))
	return nil
}
