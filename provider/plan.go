package provider

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// Each says that a rule gives every model, tenant or class a budget of its own,
// rather than one that they share.
type Each uint8

// The values of Each; they may be added up.
const (
	EachModel Each = 1 << iota
	EachTenant
	EachClass
)

// Rule is a limit and whom it is for. Of several rules with the same Limit.Key
// the first that matches a job counts, so an exception stands before the rule.
type Rule struct {
	// Limit is the budget. Its Key names the rule; the budgets that Each makes
	// add to it what they are for. Own is set by the plan.
	Limit ledger.Limit
	// Models, Tenants and Classes are whom it is for; empty means all.
	Models  []string
	Tenants []string
	Classes []job.Priority
	Each    Each
	// Reserves keep a part of the rate for urgent classes.
	Reserves []Reserve
	// Unknown says that nobody knows the limit's amount yet, which must be 0. Until
	// the provider has told one of the unknown limits of a job, a few calls run at a
	// time; after that those that it never told do not count.
	Unknown bool

	// A rule made from a reserve: the number of the rule it belongs to, from 1, the
	// least urgent class that it does not hold back, and its part of the amount.
	of, class int
	percent   int64
	// shared says that no job may take more than a share of it, and part that it is the
	// same rate as another limit, enforced over a shorter time.
	shared, part bool
	// reserves is how much of the cap on the output, in percent, the provider checks at
	// admission, where in the end the output counts more, or not at all.
	reserves int64
}

// Reserve keeps a part of a limit's rate free for the class For and those before
// it, so that they find room at once. The others are paced at the rest of the rate,
// counting what the urgent ones take.
type Reserve struct {
	For     job.Priority
	Percent int // of the rate, 1 to 90
}

// PlanConfig is what a plan is made of.
type PlanConfig struct {
	Rules []Rule
	// Models are the models that may be called. Empty means any: then a rule for
	// all models is all that holds a misspelt one.
	Models []string
	// MaxJobShare is how much of a limit that tenants share one job may take, in
	// percent: a job that needs most of a window has to drain it before it can
	// go. 0 means 25. A limit's own MaxCharge stands before it.
	MaxJobShare int
}

var (
	// ErrPlan is wrapped by every complaint about a PlanConfig.
	ErrPlan = errors.New("provider: bad plan")
	// ErrUnknownModel refuses a job whose model is not in the plan.
	ErrUnknownModel = errors.New("provider: unknown model")
)

// Plan is a set of rules. Make it with NewPlan.
type Plan struct {
	rules  []Rule
	models map[string]bool
	share  int64 // MaxJobShare

	version atomic.Uint64 // rises when an amount changes

	mu    sync.RWMutex
	known map[planKey]*planned
	// budgets has one Limit per key, so that the same budget is the same pointer.
	budgets map[string]*ledger.Limit
	// told are the amounts that replace those of the rules, by key.
	told map[string]int64
}

// planned are the limits of one kind of job.
type planned struct {
	limits   []*ledger.Limit
	overdraw []bool  // which of them do not hold it back
	reserves []int64 // see Rule
	rules    []int   // of which each is made
}

type planKey struct {
	model, tenant string
	class         int
}

// maxKnown bounds the limits that are kept: tenants may be as many as callers
// invent. When it is reached the plan begins anew, which costs time only.
const maxKnown = 1 << 14

// NewPlan validates the rules and returns their plan.
func NewPlan(cfg PlanConfig) (*Plan, error) {
	share := cfg.MaxJobShare
	if share == 0 {
		share = 25
	}
	if share < 1 || share > 100 {
		return nil, fmt.Errorf("%w: MaxJobShare is in percent, from 1 to 100, not %d", ErrPlan, cfg.MaxJobShare)
	}
	p := &Plan{
		share: int64(share), known: make(map[planKey]*planned), budgets: make(map[string]*ledger.Limit), told: make(map[string]int64),
	}
	for i, r := range cfg.Rules {
		l := &r.Limit
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("%w: rule %d: %w", ErrPlan, i, err)
		}
		if l.Unit == ledger.MicroUSD {
			return nil, fmt.Errorf("%w: rule %d: limit %.64q counts money, and a plan knows no prices", ErrPlan, i, l.Key)
		}
		for _, c := range r.Classes {
			if !c.Valid() {
				return nil, fmt.Errorf("%w: rule %d: Classes: %w", ErrPlan, i, job.ErrPriority)
			}
		}
		l.Own = r.Each&EachTenant != 0 || len(r.Tenants) == 1
		if l.Own {
			// It is a budget of our own, which goes by what is billed.
			l.Settle, l.Counts = ledger.SettleActual, ledger.Counts{}
		}
		if r.Unknown && (l.Amount != 0 || l.Unit == ledger.InFlight || len(r.Reserves) > 0) {
			return nil, fmt.Errorf("%w: rule %d: limit %.64q is Unknown: it has no Amount and no Reserves, and counts over a window", ErrPlan, i, l.Key)
		}
		r.shared = !l.Own && l.MaxCharge == 0 && (l.Unit == ledger.Tokens || l.Unit == ledger.InputTokens || l.Unit == ledger.OutputTokens)
		if len(r.Reserves) > 0 && (l.Unpaced || l.Unit == ledger.InFlight) {
			return nil, fmt.Errorf("%w: rule %d: limit %.64q has no rate of which Reserves could keep a part", ErrPlan, i, l.Key)
		}
		p.rules = append(p.rules, r)
		of := len(p.rules)
		for _, v := range r.Reserves {
			if !v.For.Valid() || v.Percent < 1 || v.Percent > 90 {
				return nil, fmt.Errorf("%w: rule %d: a Reserve needs a valid class and 1 to 90 percent, not %d", ErrPlan, i, v.Percent)
			}
			rest := r
			rest.Reserves, rest.of, rest.class, rest.percent = nil, of, v.For.Class(), int64(100-v.Percent)
			rest.Limit.Key = fmt.Sprintf("%s reserve=%d", l.Key, rest.class)
			p.rules = append(p.rules, rest)
		}
	}
	if len(cfg.Models) > 0 {
		p.models = make(map[string]bool, len(cfg.Models))
		for _, m := range cfg.Models {
			p.models[m] = true
		}
	}
	return p, nil
}

// Charges returns what one attempt of the job takes from which limits. An output
// that nobody declared is lowered so that the charge fits, to no less than 1 token.
func (p *Plan) Charges(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
	if p.models != nil && !p.models[s.Model] {
		return nil, fmt.Errorf("%w %.64q", ErrUnknownModel, s.Model)
	}
	return charges(p.planned(planKey{s.Model, s.Tenant, s.Priority.Class()}), e), nil
}

// Limits returns the limits that jobs of the model, tenant and class are charged
// to. They are read-only.
func (p *Plan) Limits(model, tenant string, pr job.Priority) []*ledger.Limit {
	return p.planned(planKey{model, tenant, pr.Class()}).limits
}

func (p *Plan) planned(k planKey) *planned {
	p.mu.RLock()
	kind := p.known[k]
	p.mu.RUnlock()
	if kind != nil {
		return kind
	}
	kind = new(planned)
	used := make([]bool, len(p.rules)+1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxKnown {
		clear(p.known)
		clear(p.budgets)
	}
	learning := false
	for i := range p.rules {
		r := &p.rules[i]
		taken := slices.ContainsFunc(p.rules[:i], func(o Rule) bool { return o.Limit.Key == r.Limit.Key && o.matches(k) })
		if !r.matches(k) || taken || r.of > 0 && !used[r.of] {
			continue
		}
		used[i+1] = true
		l := r.limit(k)
		if p.amount(r, l, k); r.Unknown && l.Amount == 0 {
			learning = true
			continue
		}
		kind.add(p.budget(l), r.of > 0 && k.class <= r.class, r.reserves, i)
	}
	if learning && !slices.ContainsFunc(kind.rules, func(i int) bool { return p.rules[i].Unknown }) {
		kind.add(p.budget(&ledger.Limit{Key: "unknown limits of " + strconv.Quote(k.model), Unit: ledger.InFlight, Amount: careful}), false, 0, -1)
	}
	p.known[k] = kind
	return kind
}

// careful is how many calls run at a time while no limit is known.
const careful = 4

func (kind *planned) add(l *ledger.Limit, overdraw bool, reserves int64, rule int) {
	kind.limits, kind.rules = append(kind.limits, l), append(kind.rules, rule)
	kind.overdraw, kind.reserves = append(kind.overdraw, overdraw), append(kind.reserves, reserves)
}

// budget is the one Limit with the key of l.
func (p *Plan) budget(l *ledger.Limit) *ledger.Limit {
	if b := p.budgets[l.Key]; b != nil {
		return b
	}
	p.budgets[l.Key] = l
	return l
}

// amount sets what a limit made from a rule holds now.
func (p *Plan) amount(r *Rule, l *ledger.Limit, k planKey) {
	key := l.Key
	if r.of > 0 {
		key = p.rules[r.of-1].limit(k).Key
	}
	if told, ok := p.told[key]; ok {
		l.Amount = told
	}
	if r.of > 0 {
		l.Amount = max(l.Amount*r.percent/100, 1)
	}
	if len(r.Reserves) > 0 && l.Burst == 0 {
		l.Burst = (l.Amount*(usualBurst+r.extraBurst()) + 99) / 100
	}
	if r.shared {
		l.MaxCharge = max(l.Amount*p.share/100, 1)
	}
}

// usualBurst is the size of a pacing bucket that has no other, in percent of the limit.
const usualBurst = 4

// extraBurst is by how much the bucket of a limit with reserves is larger than that of
// the others, in percent of the limit: so much is there for urgent work also when a
// large job of the others has just emptied theirs.
func (r *Rule) extraBurst() int64 {
	most := 0
	for _, v := range r.Reserves {
		most = max(most, v.Percent)
	}
	return int64(min(most, usualBurst))
}

// Adopt makes amount what the limit with that key holds from now on, for jobs that
// wait too. It reports whether that is news.
func (p *Plan) Adopt(key string, amount int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.budgets[key]
	if amount <= 0 || amount > ledger.MaxAmount || p.told[key] == amount || b != nil && b.Amount == amount {
		return false
	}
	p.told[key] = amount
	clear(p.known)
	clear(p.budgets)
	p.version.Add(1)
	return true
}

// Version rises when charges differ from what they were before.
func (p *Plan) Version() uint64 { return p.version.Load() }

// observed is a limit of the account that the provider's answers tell about.
type observed struct {
	limit *ledger.Limit
	rule  *Rule
}

// observed returns those that jobs of that kind are charged to, also while their
// amounts are unknown.
func (p *Plan) observed(s *job.Spec) []observed {
	k := planKey{s.Model, s.Tenant, s.Priority.Class()}
	kind := p.planned(k)
	var out []observed
	for i, l := range kind.limits {
		if n := kind.rules[i]; n >= 0 && p.rules[n].of == 0 && !l.Own && l.Unit != ledger.InFlight {
			out = append(out, observed{l, &p.rules[n]})
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.Unknown && r.matches(k) && !slices.Contains(kind.rules, i) {
			out = append(out, observed{r.limit(k), r})
		}
	}
	return out
}

func (r *Rule) matches(k planKey) bool {
	return (len(r.Models) == 0 || slices.Contains(r.Models, k.model)) &&
		(len(r.Tenants) == 0 || slices.Contains(r.Tenants, k.tenant)) &&
		(len(r.Classes) == 0 || slices.ContainsFunc(r.Classes, func(c job.Priority) bool { return c.Class() == k.class }))
}

// limit returns the rule's limit with the key of the budget that is meant. Names
// are quoted, so that no name can be taken for another budget.
func (r *Rule) limit(k planKey) *ledger.Limit {
	l := r.Limit
	if len(r.Models) > 0 || r.Each&EachModel != 0 {
		l.Key += " model=" + r.name(r.Models, EachModel, k.model)
	}
	if len(r.Tenants) > 0 || r.Each&EachTenant != 0 {
		l.Key += " tenant=" + r.name(r.Tenants, EachTenant, k.tenant)
	}
	if r.Each&EachClass != 0 {
		l.Key += " class=" + strconv.Itoa(k.class)
	} else if len(r.Classes) > 0 {
		l.Key += fmt.Sprint(" classes=", r.Classes)
	}
	return &l
}

// name says for whom a budget is: the one asking, or all that the rule is for.
func (r *Rule) name(all []string, each Each, one string) string {
	if r.Each&each != 0 || len(all) == 1 {
		return strconv.Quote(one)
	}
	return fmt.Sprintf("%q", all)
}

// charges says what each limit is charged for a call as estimated. An output that
// nobody declared is lowered limit by limit: a tenant's small budget is no reason
// to charge the account less than the provider will.
func charges(kind *planned, e job.Estimate) []ledger.Charge {
	out := make([]ledger.Charge, len(kind.limits))
	for i, l := range kind.limits {
		output := func(beside int64) int64 {
			if e.Declared || e.Output == 0 {
				return e.Output
			}
			return max(min(e.Output, l.Largest()-beside), 1)
		}
		out[i] = ledger.Charge{Limit: l, Amount: 1, Overdraw: kind.overdraw[i]}
		// What the provider counts in the end is reserved, even if it asks for less at
		// first: it corrects that before we hear of it.
		switch input := l.Counts.InputOf(e.Input, 0, 0); l.Unit {
		case ledger.Tokens:
			most := output(input)
			out[i].Amount = input + l.Counts.OutputOf(most)
			if r := kind.reserves[i]; r > 0 && e.Expected > 0 {
				// It takes the cap as it is, and later so many times what came.
				out[i].Amount = input + max(most*r/100, l.Counts.OutputOf(min(e.Expected, most)))
			}
		case ledger.InputTokens:
			out[i].Amount = input
			if kind.reserves[i] > 0 {
				out[i].Amount += output(input) * kind.reserves[i] / 100
			}
		case ledger.OutputTokens:
			out[i].Amount = l.Counts.OutputOf(output(0))
		}
	}
	return out
}
