package main

import (
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// What the provider takes for an answer, in parts of its minute.
const (
	firstBytePart   = 100  // the first byte comes after a hundredth of a minute
	outputPerMinute = 3000 // tokens
)

// usualModel is the one that all jobs call, unless a provider is imitated.
const usualModel = "gpt-4o-mini"

// provider is what the simulated provider enforces.
func (o options) provider() simprovider.Config {
	c := simprovider.Config{
		RPM: o.RPM, TPM: o.TPM, Rule: o.Enforcer, Settle: o.Settle, Minute: o.Minute,
		Models:    []simprovider.Model{{ID: o.model()}},
		FirstByte: o.Minute / firstBytePart, OutputPerMinute: outputPerMinute,
		Seed: o.Seed,
	}
	if im := o.imitation(); im != nil {
		im.configure(&c)
	}
	if o.Others > 0 || o.Jitter > 0 {
		c.Disturbances = []simprovider.Disturbance{{OtherTraffic: float64(o.Others) / 100, NetworkDelay: o.Jitter}}
	}
	return c
}

// answerTime is how long an answer of so many tokens takes from its admission.
func (o options) answerTime(output int64) time.Duration {
	return o.Minute/firstBytePart + time.Duration(output)*o.Minute/outputPerMinute
}

// inFlightLimit is the limit of calls in flight. Its lease is as short, against
// the minute, as the default is against a real one, but not too short to be
// renewed in time on a busy machine.
func (o options) inFlightLimit() ledger.Limit {
	return ledger.Limit{Key: "in-flight", Unit: ledger.InFlight, Amount: o.InFlight, Window: max(o.Minute/4, 3*time.Second)}
}

// rules are the same limits as the ledger has to know them.
func (o options) rules() []provider.Rule {
	rules := o.providerRules()
	if o.Reserve > 0 {
		for i := range rules {
			if l := rules[i].Limit; l.Unit == ledger.Tokens || l.Unit == ledger.InputTokens {
				rules[i].Reserves = []provider.Reserve{{For: job.Paid, Percent: o.Reserve}}
			}
		}
	}
	if o.InFlight > 0 {
		rules = append(rules, provider.Rule{Limit: o.inFlightLimit()})
	}
	return rules
}

func (o options) providerRules() []provider.Rule {
	if im := o.imitation(); im != nil {
		rules, err := im.rules(o)
		if err != nil {
			panic(err) // the names are constants
		}
		return rules
	}
	settle := map[simprovider.Settle]ledger.Rule{
		simprovider.Final: ledger.SettleFinal, simprovider.Actual: ledger.SettleActual, simprovider.Produced: ledger.SettleProduced,
	}[o.Settle]
	rules := []provider.Rule{
		{Limit: ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: o.RPM, Window: o.Minute, Settle: settle}},
		{Limit: ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: o.TPM, Window: o.Minute, Settle: settle}},
	}
	if o.Enforcer == simprovider.Azure {
		// The network takes as long for a short window as for a long one: it gets
		// the largest guard there is.
		sixth := o.Minute / 6
		rules = append(rules, provider.Rule{Limit: ledger.Limit{
			Key: "rpm-sixth", Unit: ledger.Requests, Amount: o.RPM / 6, Window: sixth, Guard: sixth / 20, Settle: settle,
		}})
	}
	return rules
}

// guard is the shortest time that the ledger allows from a grant to its admission.
func (o options) guard() time.Duration {
	guard := o.Minute
	for _, r := range o.rules() {
		if r.Limit.Unit != ledger.InFlight {
			guard = min(guard, time.Duration(r.Limit.Shape(0).Guard)*time.Microsecond)
		}
	}
	return guard
}

func (o options) plan() (*provider.Plan, error) {
	return provider.NewPlan(provider.PlanConfig{Rules: o.rules(), Models: []string{o.model()}})
}

// estimate is what a job is going to be charged: its input exactly, where its one message
// may cost something by itself, and so much output, of which so much is expected.
func (o options) estimate(s size, output, expected int64) job.Estimate {
	input := s.input
	if o.Provider != "" {
		input += o.profile().Admission.PerMessage
	}
	return job.Estimate{Input: input, Output: output, Expected: expected, Declared: true, Method: "exact"}
}
