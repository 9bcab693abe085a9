package simprovider

import (
	"fmt"
	"net/http"
	"time"
)

// Disturbance is what goes wrong at the provider, or comes between it and its
// client. One is in force at a time; the zero value disturbs nothing. The shares
// of requests are drawn with Config.Seed, and no time here scales with the minute.
type Disturbance struct {
	// After is when it begins, counted from the making of the server or from the
	// call of Disturb. It lasts until the next one.
	After time.Duration
	// LimitFactor multiplies every limit as configured, from nearly 0 to 100, and
	// the result is rounded down, to no less than 1; 0 means 1.
	LimitFactor float64
	// OtherTraffic is the share of each limit that somebody else with the same key
	// takes, 0 to 1, in steps of a 600th of a minute, unless the limit is full.
	OtherTraffic float64

	// Overloaded is the share of requests that are shed, Failing the share that
	// fail in the server (500), and Refused the share that are refused with 429
	// though there is room, 0 to 1 together.
	Overloaded, Failing, Refused float64
	// RefusedFor is the hint of those refusals; 0 means that they have none.
	RefusedFor time.Duration
	// NoHints takes all hints and limits from the headers and words of every 429.
	NoHints bool

	// Cut is the share of streams that break off without a word, at a random
	// place; 0 to 1.
	Cut float64
	// Slow is the share of answers whose first byte comes SlowBy later, 0 to 1.
	Slow   float64
	SlowBy time.Duration

	// NetworkDelay is the longest way from the client to the provider's count, and
	// from the provider to the client: each is drawn for each request, and delays
	// the first byte alone. At most 10 s.
	NetworkDelay time.Duration
}

// validateDisturbances names what is wrong with them; they must come in order.
func validateDisturbances(in string, ds []Disturbance) error {
	last := time.Duration(0)
	for i, d := range ds {
		bad := func(field string, value any, want string) error {
			return fmt.Errorf("simprovider: %sDisturbances[%d].%s: %v is not %s", in, i, field, value, want)
		}
		share := func(x float64) bool { return x >= 0 && x <= 1 }
		switch {
		case d.After < last:
			return bad("After", d.After, "after the one before")
		case !(d.LimitFactor >= 0 && d.LimitFactor <= 100):
			return bad("LimitFactor", d.LimitFactor, "between 0 and 100")
		case !share(d.OtherTraffic):
			return bad("OtherTraffic", d.OtherTraffic, "between 0 and 1")
		case !share(d.Overloaded) || !share(d.Failing) || !share(d.Refused) || d.Overloaded+d.Failing+d.Refused > 1:
			return bad("Overloaded, Failing, Refused", fmt.Sprint(d.Overloaded, d.Failing, d.Refused), "between 0 and 1 together")
		case d.RefusedFor < 0 || d.RefusedFor > maxWait:
			return bad("RefusedFor", d.RefusedFor, "between 0 and 1h")
		case !share(d.Cut):
			return bad("Cut", d.Cut, "between 0 and 1")
		case !share(d.Slow):
			return bad("Slow", d.Slow, "between 0 and 1")
		case d.SlowBy < 0 || d.SlowBy > maxWait:
			return bad("SlowBy", d.SlowBy, "between 0 and 1h")
		case d.NetworkDelay < 0 || d.NetworkDelay > 10*time.Second:
			return bad("NetworkDelay", d.NetworkDelay, "between 0 and 10s")
		}
		last = d.After
	}
	return nil
}

// Disturb replaces the disturbances to come with others, whose times count from
// now. The one in force lasts until the first of them begins; Disturbance{} ends it.
func (s *Server) Disturb(ds ...Disturbance) error {
	if err := validateDisturbances("", ds); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule(s.advance(), ds)
	s.advance()
	return nil
}

// schedule puts disturbances into the clock's time.
func (s *Server) schedule(now time.Duration, ds []Disturbance) {
	s.coming = make([]Disturbance, len(ds))
	for i, d := range ds {
		d.After += now
		s.coming[i] = d
	}
}

// advance brings limits, other traffic and the disturbance in force up to the
// present, which it returns. It comes first whenever the lock is taken to look at
// the limits, so that all that happens to them is in the order of its time.
func (s *Server) advance() time.Duration {
	now := s.clock()
	for len(s.coming) > 0 && s.coming[0].After <= now {
		d := s.coming[0]
		s.coming = s.coming[1:]
		s.takeOthers(d.After)
		s.current, s.taken = d, d.After
		factor := d.LimitFactor
		if factor == 0 {
			factor = 1
		}
		for _, p := range s.pools {
			for i := range p.dims {
				p.dims[i].setLimit(d.After, factor)
				p.dims[i].taken = 0
			}
		}
	}
	s.takeOthers(now)
	return now
}

// takeOthers charges the other traffic up to a time. What finds no room is lost.
func (s *Server) takeOthers(until time.Duration) {
	if s.current.OtherTraffic == 0 {
		return
	}
	for step := s.cfg.Minute / 600; s.taken+step <= until; {
		s.taken += step
		for _, p := range s.pools {
			p.takeOthers(s.taken, s.taken-s.current.After, s.current.OtherTraffic)
		}
	}
}

// takeOthers charges what is due after the other traffic has run for so long.
func (p *pool) takeOthers(now, elapsed time.Duration, share float64) {
	n := amount{}
	for i := range p.dims {
		d := &p.dims[i]
		if d.limit == Unlimited {
			continue
		}
		due := int64(share * float64(d.limit) * float64(elapsed) / float64(d.window))
		n[i] = min(due-d.taken, max(d.meter.room(now), 0))
		d.taken = due
		if n[i] > 0 {
			d.meter.charge(now, n[i])
		}
	}
	if p.others.begun && now >= p.others.start {
		p.others.add(now, n)
	}
}

// mishap is what the disturbance in force does to one request.
type mishap struct {
	err     *apiError // it fails in the server
	refusal *refusal  // it is refused
	cut     float64   // where its stream breaks off, as a part of it; negative for nowhere
	delay   time.Duration
}

// happens says whether there is no answer.
func (m *mishap) happens() bool { return m.err != nil || m.refusal != nil }

func (m *mishap) apiError(refuse func(*refusal) *apiError) *apiError {
	if m.refusal != nil {
		return refuse(m.refusal)
	}
	return m.err
}

// mishap draws for one request.
func (s *Server) mishap(p *pool) mishap {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	d, m := s.current, mishap{cut: -1}
	u := 1.0
	if d.Overloaded+d.Failing+d.Refused > 0 {
		u = s.chance.Float64()
	}
	switch {
	case u < d.Overloaded:
		m.err = overloaded(s.cfg.Imitate)
	case u < d.Overloaded+d.Failing:
		m.err = fault{status: http.StatusInternalServerError}.apiError()
	case u < d.Overloaded+d.Failing+d.Refused:
		m.refusal = p.feign(d)
	}
	if m.happens() {
		p.counts.Disturbed++
	}
	if d.Cut > 0 && s.chance.Float64() < d.Cut {
		m.cut = s.chance.Float64()
	}
	if d.Slow > 0 && s.chance.Float64() < d.Slow {
		m.delay = d.SlowBy
	}
	return m
}

// feign makes up a refusal: the limit on tokens, or else that on requests, is said
// to be full.
func (p *pool) feign(d Disturbance) *refusal {
	dim := dimTokens
	if p.dims[dim].limit == Unlimited {
		dim = dimRequests
	}
	limit := p.dims[dim].limit
	return &refusal{dim: dim, limit: limit, used: limit, ask: 1, wait: d.RefusedFor, bare: d.NoHints || d.RefusedFor == 0}
}

// overloaded is how a kind sheds load.
func overloaded(k Kind) *apiError {
	switch k {
	case KindAzure:
		return &apiError{status: http.StatusTooManyRequests, message: "The system is currently experiencing high demand and cannot process your request. Your request exceeds the maximum usage size allowed during peak load."}
	case KindAnthropic:
		return &apiError{status: statusOverloaded, message: "Overloaded"}
	case KindBedrock:
		return &apiError{status: http.StatusServiceUnavailable, message: "Bedrock is unable to process your request."}
	default:
		return &apiError{http.StatusServiceUnavailable, "The server is currently overloaded. Please try again later.", "service_unavailable_error", "", "server_is_overloaded"}
	}
}

// serveDisturb answers POST /sim/disturb, whose body is an array of Disturbance.
func (s *Server) serveDisturb(w http.ResponseWriter, r *http.Request) *apiError {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := readBody(w, r, buf); err != nil {
		return err
	}
	var ds []Disturbance
	if err := parseJSON(buf.Bytes(), &ds); err != nil {
		return err
	}
	if err := s.Disturb(ds...); err != nil {
		return invalid("", "invalid_value", err.Error())
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
