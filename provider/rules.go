package provider

import (
	"fmt"
	"maps"
	"slices"

	"github.com/paceline-go/paceline/ledger"
)

// Rules returns the rules of a plan for calls of a model, as the provider counts
// them. amounts has the size of each limit by the name of the profile's dimension,
// such as "rpm" or "itpm"; dimensions that it leaves out are not limited. A dimension
// that is enforced over a shorter time too gives a second rule.
func (p *Profile) Rules(model string, amounts map[string]int64) ([]Rule, error) {
	var rules []Rule
	left := maps.Clone(amounts)
	for i := range p.Dimensions {
		d := &p.Dimensions[i]
		amount, ok := left[d.Name]
		if !ok {
			continue
		}
		delete(left, d.Name)
		l := ledger.Limit{
			Key: d.Name, Unit: d.Unit, Amount: amount, Window: d.Window, Settle: d.Settles.Rule(),
			Unpaced: d.Window > paced,
		}
		if l.Settle != ledger.SettleFinal {
			l.Counts = ledger.Counts(p.counts(d, model))
			if l.Counts == (ledger.Counts{Input: 100, Cached: 100, CacheWrite: 100, Output: 100}) {
				l.Counts = ledger.Counts{}
			}
		}
		r := Rule{Limit: l}
		if d.Unit == ledger.InputTokens || d.Unit == ledger.Tokens && l.Counts.Output > d.Reserves.Output {
			r.reserves = d.Reserves.Output
		}
		rules = append(rules, r)
		if d.SubWindow > 0 {
			l.Key = fmt.Sprintf("%s %v", d.Name, d.SubWindow)
			l.Amount = int64(float64(amount) * float64(d.SubWindow) / float64(d.Window))
			l.Window = d.SubWindow
			// The network takes as long for a short window as for a long one.
			l.Guard = d.SubWindow / 20
			rules = append(rules, Rule{Limit: l, part: true})
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%w: %s has no limit named %.64q", ErrPlan, p.Name, slices.Sorted(maps.Keys(left))[0])
	}
	return rules, nil
}

// UnknownRules are the rules for calls of a model of which nobody knows the limits
// yet: those that the provider tells in the headers of its answers. A provider that
// tells none has none, and needs Rules.
func (p *Profile) UnknownRules(model string) ([]Rule, error) {
	amounts := make(map[string]int64)
	for i := range p.Dimensions {
		d := &p.Dimensions[i]
		for _, h := range p.Headers {
			if u, ok := units[h.Name]; ok && u == d.Unit && h.Limit != "" && (h.Window == d.Window || h.Window == 0 && d.Window == minute) {
				amounts[d.Name] = 0
			}
		}
	}
	if len(amounts) == 0 {
		return nil, fmt.Errorf("%w: %s tells no limits in its answers: configure them", ErrPlan, p.Name)
	}
	rules, err := p.Rules(model, amounts)
	for i := range rules {
		rules[i].Unknown = true
	}
	return rules, err
}

// paced is the longest window that is paced: the requests of a day may come when
// they come.
const paced = 10 * minute
