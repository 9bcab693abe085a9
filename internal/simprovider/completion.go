package simprovider

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// completion is one admitted request for text on its way, whatever its API.
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

// begin reads a request, takes it past faults and limits, and decides its answer.
// The caller must finish its grant.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, parse func([]byte) (*chatRequest, *apiError), idPrefix string) (*completion, *apiError) {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := readBody(w, r, buf); err != nil {
		return nil, err
	}
	req, err := parse(buf.Bytes())
	if err != nil {
		return nil, err
	}
	exact, err := outputTokens(r.Header)
	if err != nil {
		return nil, err
	}
	m, err := s.model(req.modelID)
	if err != nil {
		return nil, err
	}
	a, err := s.call(r.Header, req.input, req.perMessage, req.outputCharge(s.cfg.DefaultOutput))
	if err != nil {
		return nil, err
	}
	g, f, err := s.enter(w, r, m, a)
	if err != nil {
		return nil, err
	}
	c := &completion{
		chatRequest: req, server: s, model: m, grant: g, fault: f,
		answer:  s.answer(req, exact),
		id:      s.newID(idPrefix),
		created: time.Now().Unix(),
	}
	c.pace = pace{first: g.at + s.cfg.FirstByte + f.delay, minute: s.cfg.Minute, perMinute: s.cfg.OutputPerMinute, tokens: c.answer.tokens}
	return c, nil
}

// enter takes a call past faults and limits. A fault that a header asks for comes
// before the limits; what a disturbance does to it may count against them.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, m *model, c call) (*grant, fault, *apiError) {
	f, err := s.fault(w, r)
	if err != nil {
		return nil, f, err
	}
	kind := s.words(r.URL.Path)
	mishap := s.mishap(m.pool)
	f.delay += mishap.delay
	f.cut = mishap.cut
	refuse := func(re *refusal) *apiError { return re.apiError(w.Header(), kind, m.id, s.cfg.Minute) }
	if mishap.happens() && !kinds[s.cfg.Imitate].failedCount {
		return nil, f, mishap.apiError(refuse)
	}
	g, st, refused := s.admit(m, c, r.Header.Get("X-Sim-Job"))
	told := refused
	if told == nil {
		told = mishap.refusal
	}
	if told == nil || !told.bare && kind != KindAzure {
		st.write(w.Header(), kind)
	}
	if refused != nil {
		return nil, f, refuse(refused)
	}
	if mishap.happens() {
		s.finish(g)
		return nil, f, mishap.apiError(refuse)
	}
	return g, f, nil
}

// outputTokens reads X-Sim-Output-Tokens; 0 if it is not there.
func outputTokens(h http.Header) (int64, *apiError) { return tokensHeader(h, "X-Sim-Output-Tokens") }

func tokensHeader(h http.Header, name string) (int64, *apiError) {
	text := h.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > maxTokens {
		return 0, invalid(name, "invalid_value", fmt.Sprintf("Invalid value for '%s': expected an integer between 1 and %d.", name, maxTokens))
	}
	return n, nil
}

// complete lets the time of the whole answer pass, and settles it. It returns
// false if ctx ended before.
func (c *completion) complete(ctx context.Context) bool {
	step := c.answer.tokens
	if c.server.cfg.Settle == Produced {
		step = c.pace.step()
	}
	if !c.generate(ctx, step, func(from, to int64) bool { return true }) {
		return false
	}
	c.server.finish(c.grant)
	return true
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
	return pause(ctx, until-s.clock())
}

// pause waits for d, and returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return ctx.Err() == nil
}
