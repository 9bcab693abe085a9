package simprovider

import "time"

// pool is one set of limits: that of a model, or of the whole account. The
// server's lock guards it.
type pool struct {
	name    string // the model; empty for the account
	dims    [dims]dimension
	history history
	others  history // of the traffic that is not ours
	counts  Counts
}

// newPool returns the pool of a model that has its defaults.
func newPool(c Config, name string, m Model, phase time.Duration) *pool {
	p := &pool{name: name}
	p.history.slice = c.Minute / slicesPerMinute
	p.others.slice = p.history.slice
	names := [dims]string{"requests", "tokens", "output_tokens", "requests_per_day"}
	if c.Imitate == KindAnthropic {
		names[dimTokens] = "input_tokens"
	}
	for d, limit := range [dims]int64{m.RPM, m.TPM, m.OTPM, c.RPD} {
		p.dims[d] = dimension{name: names[d], base: limit, limit: limit, largest: maxLimit, window: c.Minute, meter: newMeter(c, limit, d, phase)}
	}
	p.dims[dimDay].largest, p.dims[dimDay].window = maxPerDay, minutesPerDay*c.Minute
	return p
}

// grant is an admitted request. Its own handler is the only one to use it.
type grant struct {
	call
	pool     *pool
	era      int64         // of the measurement it was counted in
	at       time.Duration // of its admission
	mark     int64         // of its charge in dimTokens
	charged  int64         // in dimTokens, so far
	burndown int64         // what a token of output counts in the end
	produced int64         // tokens of output so far, over all choices
	finished bool
}

// refusal says why a request was not admitted.
type refusal struct {
	dim              int
	never            bool // it is larger than the limit
	bare             bool // it must not say when to come again, nor what is left
	limit, used, ask int64
	wait             time.Duration // until it would be admitted, if no other came
}

// standing is what the rate-limit headers say about a pool.
type standing [dims]quota

type quota struct {
	limit, remaining int64 // limit is Unlimited for none
	reset            time.Duration
}

// admit decides one request, and charges it if it passes. job is the load test's
// name for it.
func (s *Server) admit(m *model, c call, job string) (*grant, standing, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	p := m.pool
	p.history.begin(now)
	p.others.begin(now)

	n := s.atAdmission(&c)
	if r := p.check(now, s.needed(n)); r != nil {
		r.bare = s.current.NoHints
		p.counts.refused(r)
		p.dims[r.dim].refused++
		if kinds[s.cfg.Imitate].failedCount && p.dims[dimRequests].meter.room(now) >= 1 {
			p.charge(now, amount{dimRequests: 1})
		}
		return nil, p.standing(now), r
	}
	marks := p.charge(now, n)
	p.counts.TokensAdmitted += n[dimTokens]
	p.counts.Accepted++
	p.counts.InFlight++
	if job != "" && s.seenJob(job) {
		p.counts.DuplicateJobs++
	}
	g := &grant{call: c, pool: p, era: s.era, at: now, mark: marks[dimTokens], charged: n[dimTokens], burndown: m.burndown}
	return g, p.standing(now), nil
}

// check is the whole of the enforcement: this much of each dimension, now or not.
func (p *pool) check(now time.Duration, need amount) *refusal {
	for i := range p.dims {
		if d := &p.dims[i]; d.limit != Unlimited && need[i] > d.limit {
			return &refusal{dim: i, never: true, limit: d.limit, ask: need[i]}
		}
	}
	var r *refusal
	wait := time.Duration(0)
	for _, i := range byName {
		d := &p.dims[i]
		wait = max(wait, d.meter.wait(now, need[i]))
		room := d.meter.room(now)
		if r != nil || room >= need[i] {
			continue
		}
		r = &refusal{dim: i, limit: d.limit, used: d.limit - room, ask: need[i]}
		if i == dimRequests {
			r.used = d.limit // the window that is full may be shorter than the limit's
		}
	}
	if r != nil {
		r.wait = wait
	}
	return r
}

// charge takes an amount at the present, whether there is room or not.
func (p *pool) charge(now time.Duration, n amount) (marks [dims]int64) {
	for i := range p.dims {
		if n[i] != 0 || i == dimTokens { // which may be corrected later, even from nothing
			marks[i] = p.dims[i].meter.charge(now, n[i])
		}
	}
	p.record(now, n)
	return marks
}

// record counts what was charged.
func (p *pool) record(at time.Duration, n amount) {
	for i := range p.dims {
		p.dims[i].charged += n[i]
	}
	p.counts.TokensCharged += n[dimTokens] + n[dimOutput]
	p.history.add(at, n)
}

func (p *pool) standing(now time.Duration) (st standing) {
	for i := range p.dims {
		d := &p.dims[i]
		st[i] = quota{d.limit, max(d.meter.room(now), 0), d.meter.reset(now)}
	}
	return st
}

// produce says that the answer has come to output tokens, over all choices.
func (s *Server) produce(g *grant, output int64) {
	more := output - g.produced
	if more <= 0 {
		return
	}
	g.produced = output
	if s.cfg.Settle != Produced {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	dim := dimTokens
	if s.cfg.Imitate == KindAnthropic {
		dim = dimOutput
	}
	g.pool.dims[dim].meter.charge(now, more)
	n := amount{}
	n[dim] = more
	s.record(g, now, n)
	s.settle(g, now) // by now the input has been read
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
	s.settle(g, s.advance())
}

// settle makes the charge in dimTokens what it comes to so far.
func (s *Server) settle(g *grant, now time.Duration) {
	delta := s.atEnd(g) - g.charged
	if delta == 0 {
		return
	}
	g.charged += delta
	g.pool.dims[dimTokens].meter.correct(now, g.mark, delta)
	s.record(g, g.at, amount{dimTokens: delta})
}

// record counts a charge made after admission, unless the measurement that g was
// admitted in is over.
func (s *Server) record(g *grant, at time.Duration, n amount) {
	if g.era == s.era {
		g.pool.record(at, n)
	}
}

func roundUp(d, unit time.Duration) time.Duration {
	return time.Duration(ceilDiv(int64(d), int64(unit))) * unit
}
