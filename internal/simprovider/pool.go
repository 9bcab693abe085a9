package simprovider

import (
	"net/http"
	"strconv"
	"time"
)

// pool is one pair of limits: that of a model, or of the whole account. The
// server's lock guards it.
type pool struct {
	name             string // the model; empty for the account
	rpm, tpm         int64  // as configured; Unlimited for none
	requests, tokens meter
	history          history
	counts           Counts
}

// grant is an admitted request. Its own handler is the only one to use it.
type grant struct {
	pool     *pool
	era      int64         // of the measurement it was counted in
	at       time.Duration // of its admission
	mark     int64         // of its charge in pool.tokens
	input    int64         // tokens, as charged and as reported
	admitted int64         // tokens charged at admission
	output   int64         // tokens produced so far, over all choices
	finished bool
}

// refusal says why a request was not admitted.
type refusal struct {
	kind             string // "requests" or "tokens"
	never            bool   // it is larger than the limit
	limit, used, ask int64
	wait             time.Duration // until it would be admitted, if no other came
}

// standing is what the rate-limit headers say about a pool.
type standing struct{ requests, tokens quota }

type quota struct {
	limit, remaining int64 // limit is Unlimited for none
	reset            time.Duration
}

// admit decides one request, and charges it if it passes. input is its size in
// tokens, output what its caps may come to, job the load test's name for it.
func (s *Server) admit(p *pool, input, output int64, job string) (*grant, standing, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	p.history.begin(now)

	n := input + output
	if s.cfg.Settle == Produced {
		n = input
	}
	r := p.check(now, n)
	if r != nil {
		p.counts.refused(r)
		return nil, p.standing(now), r
	}
	p.requests.charge(now, 1)
	g := &grant{pool: p, era: s.era, at: now, mark: p.tokens.charge(now, n), input: input, admitted: n}
	p.history.add(now, amount{requests: 1, tokens: n})
	p.counts.Accepted++
	p.counts.TokensAdmitted += n
	p.counts.TokensCharged += n
	p.counts.InFlight++
	if job != "" && s.seenJob(job) {
		p.counts.DuplicateJobs++
	}
	return g, p.standing(now), nil
}

// check is the whole of the enforcement: one request and n tokens, now or not.
func (p *pool) check(now time.Duration, n int64) *refusal {
	if p.tpm != Unlimited && n > p.tpm {
		return &refusal{kind: "tokens", never: true, limit: p.tpm, ask: n}
	}
	requests, tokens := p.requests.room(now), p.tokens.room(now)
	if requests >= 1 && tokens >= n {
		return nil
	}
	r := &refusal{kind: "tokens", limit: p.tpm, used: p.tpm - tokens, ask: n}
	if requests < 1 {
		r = &refusal{kind: "requests", limit: p.rpm, used: p.rpm, ask: 1}
	}
	r.wait = max(p.requests.wait(now, 1), p.tokens.wait(now, n))
	return r
}

func (p *pool) standing(now time.Duration) standing {
	return standing{
		requests: quota{p.rpm, max(p.requests.room(now), 0), p.requests.reset(now)},
		tokens:   quota{p.tpm, max(p.tokens.room(now), 0), p.tokens.reset(now)},
	}
}

// produce says that the answer has come to output tokens, over all choices.
func (s *Server) produce(g *grant, output int64) {
	more := output - g.output
	if more <= 0 {
		return
	}
	g.output = output
	if s.cfg.Settle != Produced {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	g.pool.tokens.charge(now, more)
	s.record(g, now, more)
}

// finish settles a request, once, however often it is called.
func (s *Server) finish(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.finished {
		return
	}
	g.finished = true
	g.pool.counts.InFlight--
	if s.cfg.Settle == Actual {
		delta := g.input + g.output - g.admitted
		g.pool.tokens.correct(s.clock(), g.mark, delta)
		s.record(g, g.at, delta)
	}
}

// record counts a charge made after admission, unless the measurement that g was
// admitted in is over.
func (s *Server) record(g *grant, at time.Duration, tokens int64) {
	if g.era == s.era {
		g.pool.counts.TokensCharged += tokens
		g.pool.history.add(at, amount{tokens: tokens})
	}
}

// write sets the headers in OpenAI's form. Times are rounded up to milliseconds.
func (st standing) write(h http.Header) {
	st.requests.write(h, "Requests")
	st.tokens.write(h, "Tokens")
}

func (q quota) write(h http.Header, kind string) {
	if q.limit == Unlimited {
		return
	}
	h["X-Ratelimit-Limit-"+kind] = []string{strconv.FormatInt(q.limit, 10)}
	h["X-Ratelimit-Remaining-"+kind] = []string{strconv.FormatInt(q.remaining, 10)}
	h["X-Ratelimit-Reset-"+kind] = []string{roundUp(q.reset, time.Millisecond).String()}
}

func roundUp(d, unit time.Duration) time.Duration {
	return time.Duration(ceilDiv(int64(d), int64(unit))) * unit
}
