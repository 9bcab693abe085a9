package simprovider

import (
	"encoding/json"
	"hash/maphash"
	"net/http"
	"time"
)

// Counts are totals since the server was made or last reset. Requests that were
// malformed, unauthorised, for an unknown model or answered by an injected status
// never reach the limits and are not in them.
type Counts struct {
	// Accepted requests were admitted and charged.
	Accepted int64 `json:"accepted"`
	// RefusedRequests and RefusedTokens were refused because that limit was
	// short (requests, if both were); RefusedTooLarge asked for more tokens
	// than the limit can ever hold. They charge nothing.
	RefusedRequests int64 `json:"refused_requests"`
	RefusedTokens   int64 `json:"refused_tokens"`
	RefusedTooLarge int64 `json:"refused_too_large"`
	// TokensAdmitted were charged at admission, TokensCharged after settling.
	TokensAdmitted int64 `json:"tokens_admitted"`
	TokensCharged  int64 `json:"tokens_charged"`
	// InFlight requests are admitted and not finished. A reset keeps them.
	InFlight int64 `json:"in_flight"`
	// DuplicateJobs counts acceptances whose X-Sim-Job had been accepted
	// before, among the last million jobs.
	DuplicateJobs int64 `json:"duplicate_jobs"`
	// Disturbed were shed, failed or refused by a disturbance. Where failed calls
	// count, those that found room are among Accepted too.
	Disturbed int64 `json:"disturbed"`
}

func (c *Counts) refused(r *refusal) {
	switch {
	case r.never:
		c.RefusedTooLarge++
	case r.kind() == "requests":
		c.RefusedRequests++
	default:
		c.RefusedTokens++
	}
}

func (c *Counts) add(o Counts) {
	c.Accepted += o.Accepted
	c.RefusedRequests += o.RefusedRequests
	c.RefusedTokens += o.RefusedTokens
	c.RefusedTooLarge += o.RefusedTooLarge
	c.TokensAdmitted += o.TokensAdmitted
	c.TokensCharged += o.TokensCharged
	c.InFlight += o.InFlight
	c.DuplicateJobs += o.DuplicateJobs
	c.Disturbed += o.Disturbed
}

// Stats is what the server has counted.
type Stats struct {
	// Counts are the sums over all pools.
	Counts
	// Pools are the pairs of limits: one per model in the order of the
	// Config, or one for the account.
	Pools []PoolStats `json:"pools"`
}

// PoolStats is what was counted against one pair of limits.
type PoolStats struct {
	// Model is empty for the account's pair.
	Model string `json:"model"`
	// RPM and TPM are the limits, or Unlimited.
	RPM int64 `json:"rpm"`
	TPM int64 `json:"tpm"`
	Counts
	// FirstRequest is when the pool's first request came, admitted or not;
	// zero if none has.
	FirstRequest time.Time `json:"first_request,omitzero"`
	// RequestUtilisation and TokenUtilisation are the time average, from the
	// end of the second minute after FirstRequest, of what was charged over
	// the last full minute divided by the limit, whatever the rule. A settled
	// charge counts as settled, at the time of its admission; output charged
	// as it was produced counts at the time of its production. Accurate to
	// 0.1 % of full use after one measured minute and better later. 0 without
	// a limit, and while Measured is 0.
	RequestUtilisation float64 `json:"request_utilisation"`
	TokenUtilisation   float64 `json:"token_utilisation"`
	// Dimensions are all limits that are not Unlimited, requests first. The two
	// fields above repeat those of requests and of tokens.
	Dimensions []DimensionStats `json:"dimensions"`
	// Measured is the time they were averaged over, in nanoseconds in JSON. It
	// never begins more than 179 minutes ago.
	Measured time.Duration `json:"measured_ns"`
}

// DimensionStats is what was counted against one limit.
type DimensionStats struct {
	// Name is requests, tokens, input_tokens, output_tokens or requests_per_day.
	Name string `json:"name"`
	// Limit is the one now in force.
	Limit int64 `json:"limit"`
	// Refused are the requests that found this limit short, or were too large for
	// it; each is counted in one dimension.
	Refused int64 `json:"refused"`
	// Charged is what our requests were charged, after settling.
	Charged int64 `json:"charged"`
	// Utilisation is as in PoolStats, relative to the average of the limit over
	// the same minutes. OtherUtilisation is the same of other traffic.
	Utilisation      float64 `json:"utilisation"`
	OtherUtilisation float64 `json:"other_utilisation"`
}

// Binding is the dimension that all traffic together filled most; the zero value
// if there is no limit.
func (p PoolStats) Binding() DimensionStats {
	var most DimensionStats
	for i, d := range p.Dimensions {
		if i == 0 || d.Utilisation+d.OtherUtilisation > most.Utilisation+most.OtherUtilisation {
			most = d
		}
	}
	return most
}

// Stats returns what was counted up to now. It may be called at any time, from
// any goroutine.
func (s *Server) Stats() Stats { return s.StatsBetween(time.Time{}, time.Time{}) }

// StatsBetween is Stats with the utilisation averaged over a chosen time; the
// counts do not depend on it. A zero from means as early as possible, a zero to
// means now, and both are cut to what was measured.
func (s *Server) StatsBetween(from, to time.Time) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	lo, hi := time.Duration(0), s.advance()
	if !from.IsZero() {
		lo = from.Sub(s.epoch)
	}
	if !to.IsZero() {
		hi = min(hi, to.Sub(s.epoch))
	}
	var st Stats
	for _, p := range s.pools {
		st.Counts.add(p.counts)
		st.Pools = append(st.Pools, p.stats(s.epoch, lo, hi))
	}
	return st
}

// stats is what the pool has counted, with the averages between two times.
func (p *pool) stats(epoch time.Time, from, to time.Duration) PoolStats {
	ps := PoolStats{Model: p.name, RPM: p.dims[dimRequests].limit, TPM: p.dims[dimTokens].limit, Counts: p.counts}
	if p.history.begun {
		ps.FirstRequest = epoch.Add(p.history.start)
	}
	var ours, others [dims]float64
	ours, ps.Measured = p.history.average(from, to)
	others, _ = p.others.average(to-ps.Measured, to)
	for i := range p.dims {
		d := &p.dims[i]
		if d.limit == Unlimited {
			continue
		}
		ds := DimensionStats{Name: d.name, Limit: d.limit, Refused: d.refused, Charged: d.charged}
		if ps.Measured > 0 {
			budget := d.budget(to-ps.Measured, to, p.history.minute())
			ds.Utilisation, ds.OtherUtilisation = ours[i]/budget, others[i]/budget
		}
		switch i {
		case dimRequests:
			ps.RequestUtilisation = ds.Utilisation
		case dimTokens:
			ps.TokenUtilisation = ds.Utilisation
		}
		ps.Dimensions = append(ps.Dimensions, ds)
	}
	return ps
}

// Reset begins a new measurement: counts start from zero, the utilisation from
// the next request, and every job is new. The limits keep what is charged.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era++
	s.jobs.clear()
	for _, p := range s.pools {
		p.counts = Counts{InFlight: p.counts.InFlight}
		p.history = history{slice: p.history.slice}
		p.others = history{slice: p.history.slice}
		for i := range p.dims {
			p.dims[i].refused, p.dims[i].charged = 0, 0
		}
	}
}

// seenJob says whether a job was accepted before, and remembers it. It keeps 64
// bits per job: among two million, the chance of taking any two for the same is
// about one in ten million.
func (s *Server) seenJob(job string) bool {
	key := maphash.String(s.jobSeed, job)
	_, seen := s.jobs.get(key)
	s.jobs.put(key, struct{}{})
	return seen
}

// serveStats answers GET /sim/stats?from=TIME&to=TIME, both optional and in RFC 3339.
func (s *Server) serveStats(w http.ResponseWriter, r *http.Request) *apiError {
	var times [2]time.Time
	for i, name := range []string{"from", "to"} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return invalid(name, "invalid_value", "Invalid value for '"+name+"': expected a time in RFC 3339.")
		}
		times[i] = t
	}
	body, err := json.Marshal(s.StatsBetween(times[0], times[1]))
	if err != nil {
		return serverError(err)
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// serveReset answers POST /sim/reset.
func (s *Server) serveReset(w http.ResponseWriter, _ *http.Request) *apiError {
	s.Reset()
	w.WriteHeader(http.StatusNoContent)
	return nil
}
