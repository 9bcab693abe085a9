package provider

import (
	"slices"
	"strings"

	"github.com/paceline-go/paceline/ledger"
)

// Charged is what a call has counted against one dimension.
type Charged struct {
	// Dimension is the name of the profile's dimension.
	Dimension string
	Unit      ledger.Unit
	// Amount is in units: tokens rounded up, 1 for requests, and 0 for calls in
	// flight, since the call is over.
	Amount int64
}

// QuotaCharge returns what a call counts against each of the profile's dimensions
// once its usage is known. It is not what is billed: providers leave cached input
// out, or count output several times. Whether it replaces what was charged at
// admission is the dimension's Settles; of a usage that is not exact it is a lower
// bound. The model may be empty: then no exception holds.
func (p *Profile) QuotaCharge(model string, u Usage) []Charged {
	out := make([]Charged, len(p.Dimensions))
	for i := range p.Dimensions {
		d := &p.Dimensions[i]
		out[i] = Charged{Dimension: d.Name, Unit: d.Unit}
		switch d.Unit {
		case ledger.Requests:
			out[i].Amount = 1
		case ledger.Tokens, ledger.InputTokens, ledger.OutputTokens:
			w := p.counts(d, model)
			out[i].Amount = w.of(u)
		}
	}
	return out
}

// counts are the weights of a dimension for a model.
func (p *Profile) counts(d *Dimension, model string) Weights {
	for i := range p.Exceptions {
		e := &p.Exceptions[i]
		if slices.Contains(e.Dimensions, d.Name) && slices.ContainsFunc(e.Models, func(m string) bool { return strings.Contains(model, m) }) {
			return e.Counts
		}
	}
	return d.Counts
}

// of weighs a usage and rounds up, since providers that weigh do not say how they
// round.
func (w Weights) of(u Usage) int64 {
	fresh := max(u.Input-u.Cached-u.CacheWrite, 0)
	hundredths := fresh*w.Input + u.Cached*w.Cached + u.CacheWrite*w.CacheWrite + u.Output*w.Output
	return (hundredths + 99) / 100
}
