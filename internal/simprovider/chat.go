package simprovider

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// completion is one admitted chat request on its way.
type completion struct {
	*chatRequest
	server  *Server
	model   *model
	grant   *grant
	answer  answer
	fault   fault
	id      string
	created int64
	pace    pace
}

// pace says when the tokens of a choice are produced.
type pace struct {
	first     time.Duration // when the first byte is sent
	minute    time.Duration
	perMinute int64 // negative: all at once
	tokens    int64
}

// at is the first moment at which n tokens have been produced.
func (p pace) at(n int64) time.Duration {
	if p.perMinute < 0 {
		return p.first
	}
	return p.first + time.Duration(ceilDiv(n*int64(p.minute), p.perMinute))
}

// produced is the number of tokens produced by now.
func (p pace) produced(now time.Duration) int64 {
	switch {
	case now >= p.at(p.tokens):
		return p.tokens
	case now <= p.first:
		return 0
	}
	return int64(now-p.first) * p.perMinute / int64(p.minute)
}

// step is how many tokens are produced at a time: those of 1/600 of a minute, at
// least one.
func (p pace) step() int64 {
	if p.perMinute < 0 {
		return 16
	}
	return max(p.perMinute/600, 1)
}

// serveChat answers POST /v1/chat/completions.
func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) *apiError {
	req, err := s.readChat(w, r)
	if err != nil {
		return err
	}
	exact, err := outputTokens(r.Header)
	if err != nil {
		return err
	}
	m, err := s.model(req.modelID)
	if err != nil {
		return err
	}
	f, err := s.fault(w, r)
	if err != nil {
		return err
	}
	g, st, refused := s.admit(m.pool, req.input, req.outputCharge(s.cfg.DefaultOutput), r.Header.Get("X-Sim-Job"))
	st.write(w.Header())
	if refused != nil {
		return refused.apiError(w.Header(), m.id)
	}
	defer s.finish(g)
	c := &completion{
		chatRequest: req, server: s, model: m, grant: g, fault: f,
		answer:  s.answer(req, exact),
		id:      s.newID("chatcmpl-"),
		created: time.Now().Unix(),
	}
	c.pace = pace{first: g.at + s.cfg.FirstByte + f.delay, minute: s.cfg.Minute, perMinute: s.cfg.OutputPerMinute, tokens: c.answer.tokens}
	if req.stream {
		return c.sendStream(w, r)
	}
	return c.sendPlain(w, r)
}

func (s *Server) readChat(w http.ResponseWriter, r *http.Request) (*chatRequest, *apiError) {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := readBody(w, r, buf); err != nil {
		return nil, err
	}
	return parseChat(buf.Bytes())
}

// outputTokens reads X-Sim-Output-Tokens; 0 if it is not there.
func outputTokens(h http.Header) (int64, *apiError) {
	text := h.Get("X-Sim-Output-Tokens")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > maxTokens {
		return 0, invalid("X-Sim-Output-Tokens", "invalid_value", "Invalid value for 'X-Sim-Output-Tokens': expected an integer between 1 and 1000000.")
	}
	return n, nil
}

// sendPlain answers in one piece, when all of it has been produced.
func (c *completion) sendPlain(w http.ResponseWriter, r *http.Request) *apiError {
	step := c.answer.tokens
	if c.server.cfg.Settle == Produced {
		step = c.pace.step()
	}
	if !c.generate(r.Context(), step, func(from, to int64) bool { return true }) {
		return errGone
	}
	c.server.finish(c.grant)
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

// generate lets the time of the answer pass, and says after each step which
// tokens it produced. It returns false as soon as ctx ends, when what had been
// produced by then has been charged, or when emit returns false.
func (c *completion) generate(ctx context.Context, step int64, emit func(from, to int64) bool) bool {
	for from := int64(0); from < c.answer.tokens; {
		to := min(from+step, c.answer.tokens)
		alive := c.server.sleep(ctx, c.pace.at(to))
		if !alive {
			to = c.pace.produced(c.server.clock())
		}
		c.server.produce(c.grant, c.choices*to)
		if !alive || !emit(from, to) {
			return false
		}
		from = to
	}
	return true
}

// sleep waits until a time of the server's clock, and returns false if ctx ended.
func (s *Server) sleep(ctx context.Context, until time.Duration) bool {
	if d := until - s.clock(); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return ctx.Err() == nil
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
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, c.grant.input, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, c.grant.output, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, c.grant.input+c.grant.output, 10)
	return append(b, '}')
}
