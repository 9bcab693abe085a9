package simprovider

import (
	"net/http"
	"strconv"
)

// serveChat answers POST /v1/chat/completions.
func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) *apiError {
	c, err := s.begin(w, r, parseChat, "chatcmpl-")
	if err != nil {
		return err
	}
	defer s.finish(c.grant)
	if c.stream {
		return c.sendStream(w, r)
	}
	return c.sendPlain(w, r)
}

// sendPlain answers in one piece, when all of it has been produced.
func (c *completion) sendPlain(w http.ResponseWriter, r *http.Request) *apiError {
	if !c.complete(r.Context()) {
		return errGone
	}
	buf := getBuffer()
	defer putBuffer(buf)
	b := c.appendHead(buf.AvailableBuffer(), "chat.completion")
	for i := range c.choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, i, 10)
		b = append(b, `,"message":{"role":"assistant",`...)
		if c.answer.tool != "" {
			b = append(b, `"content":null,"refusal":null,"tool_calls":[{`...)
			b = c.appendCall(b, i)
			b = c.answer.appendText(b, 0, c.answer.tokens)
			b = append(b, `"}}]`...)
		} else {
			b = append(b, `"content":"`...)
			b = c.answer.appendText(b, 0, c.answer.tokens)
			b = append(b, `","refusal":null`...)
		}
		b = append(b, `},"logprobs":null,"finish_reason":"`...)
		b = append(b, c.answer.finish...)
		b = append(b, `"}`...)
	}
	b = append(b, `],"usage":`...)
	b = append(c.appendUsage(b), '}')
	buf.Write(b)
	writeJSON(w, http.StatusOK, buf.Bytes())
	return nil
}

// appendHead begins an object of the given kind, up to its choices.
func (c *completion) appendHead(b []byte, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, c.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.created, 10)
	b = append(b, `,"model":`...)
	b = append(b, c.model.json...)
	return append(b, `,"choices":[`...)
}

// appendCall appends the keys of a tool call, up to its arguments.
func (c *completion) appendCall(b []byte, choice int64) []byte {
	b = append(b, `"id":"call_`...)
	b = append(b, c.id[len("chatcmpl-"):]...)
	b = append(b, '_')
	b = strconv.AppendInt(b, choice, 10)
	b = append(b, `","type":"function","function":{"name":`...)
	b = append(b, quote(c.answer.tool)...)
	return append(b, `,"arguments":"`...)
}

func (c *completion) appendUsage(b []byte) []byte {
	g := c.grant
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, g.input, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, g.produced, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, g.input+g.produced, 10)
	if g.cacheRead > 0 {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = append(strconv.AppendInt(b, g.cacheRead, 10), '}')
	}
	return append(b, '}')
}
