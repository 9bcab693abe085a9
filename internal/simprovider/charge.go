package simprovider

import (
	"net/http"
	"strings"
)

// call is what a request comes to, whatever its API.
type call struct {
	estimate   int64 // of the input, by characters
	perMessage int64 // the same estimate, made message by message as Azure does
	input      int64 // what usage reports, with both of the following in it
	cacheRead  int64
	cacheWrite int64
	output     int64 // what the caps may come to, over all choices
}

// call reads what the load test's headers say about the input's tokens.
func (s *Server) call(h http.Header, estimate, perMessage, output int64) (call, *apiError) {
	c := call{estimate: estimate, perMessage: perMessage, output: output}
	c.input = ceilDiv(estimate*s.cfg.InputPercent, 100)
	read, err := tokensHeader(h, "X-Sim-Cache-Read-Tokens")
	if err != nil {
		return c, err
	}
	write, err := tokensHeader(h, "X-Sim-Cache-Write-Tokens")
	c.cacheRead = min(read, c.input)
	c.cacheWrite = min(write, c.input-c.cacheRead)
	return c, err
}

// atAdmission is what a call is charged when it is admitted.
func (s *Server) atAdmission(c *call) amount {
	n := amount{dimRequests: 1, dimDay: 1}
	switch s.cfg.Imitate {
	case KindOpenAI:
		n[dimTokens] = c.estimate + c.output
		if s.cfg.Charge == Larger {
			n[dimTokens] = max(c.estimate, c.output)
		}
	case KindAzure:
		n[dimTokens] = c.perMessage + c.output
	case KindAnthropic:
		n[dimTokens] = max(c.estimate-c.cacheRead, 0)
	case KindGroq:
		n[dimTokens] = max(c.estimate-c.cacheRead, 0) + c.output
	default:
		n[dimTokens] = c.estimate
		if s.cfg.Settle != Produced {
			n[dimTokens] += c.output
		}
	}
	return n
}

// needed is the room that must be there for a call. It is the charge, but for
// Anthropic's output: that has to be above nothing for a new request.
func (s *Server) needed(charge amount) amount {
	if s.cfg.Imitate == KindAnthropic {
		charge[dimOutput] = 1
	}
	return charge
}

// atEnd is what the charge in dimTokens becomes, given what has been produced.
// Output that is charged as it is produced is not in it.
func (s *Server) atEnd(g *grant) int64 {
	input := g.input
	if s.cfg.Imitate == KindAnthropic || s.cfg.Imitate == KindBedrock {
		input -= g.cacheRead
	}
	switch s.cfg.Settle {
	case Actual:
		return input + g.produced*g.burndown
	case Produced:
		return input
	default:
		return g.charged
	}
}

// burndown is how often a token of output counts in the end.
func (m Model) burndown(kind Kind) int64 {
	switch {
	case kind != KindBedrock:
		return 1
	case m.Burndown > 0:
		return m.Burndown
	case strings.Contains(m.ID, "claude"):
		return 5
	}
	return 1
}
