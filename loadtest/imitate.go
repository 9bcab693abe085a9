package main

import (
	"fmt"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/provider"
)

// imitated is a provider whose own accounting can be chosen.
type imitated struct {
	name    string
	kind    simprovider.Kind
	profile string // that the ledger goes by
	model   string
	// The provider's words for what -tpm and -rpm limit; "" for no limit.
	tokens, requests string
	// output is that for output, which gets as much as -tpm: it does not bind.
	output string
}

var imitations = []imitated{
	{name: "openai", kind: simprovider.KindOpenAI, profile: "openai", model: "gpt-4o-mini", tokens: "tpm", requests: "rpm"},
	{name: "azure", kind: simprovider.KindAzure, profile: "azure_openai", model: "gpt-4o-mini", tokens: "tpm", requests: "rpm"},
	{name: "anthropic", kind: simprovider.KindAnthropic, profile: "anthropic", model: "claude-sonnet-4-5", tokens: "itpm", requests: "rpm", output: "otpm"},
	{name: "bedrock", kind: simprovider.KindBedrock, profile: "bedrock_runtime", model: "anthropic.claude-sonnet-4-5-20250929-v1:0", tokens: "tpm"},
	{name: "groq", kind: simprovider.KindGroq, profile: "groq", model: "openai/gpt-oss-120b", tokens: "tpm", requests: "rpm"},
}

// imitation is the provider that -provider names, or nil.
func (o options) imitation() *imitated {
	for i := range imitations {
		if imitations[i].name == o.Provider {
			return &imitations[i]
		}
	}
	return nil
}

// model is the one that all jobs call.
func (o options) model() string {
	if im := o.imitation(); im != nil {
		return im.model
	}
	return usualModel
}

// profile reads the provider's refusals and says how it counts.
func (o options) profile() *provider.Profile {
	name := "openai"
	if im := o.imitation(); im != nil {
		name = im.profile
	}
	p, err := provider.ProfileNamed(name)
	if err != nil {
		panic(err) // the names are constants
	}
	return p
}

// configure makes the simulated provider that one.
func (im *imitated) configure(c *simprovider.Config) {
	c.Imitate, c.Rule, c.Settle = im.kind, "", ""
	if im.output != "" {
		c.OTPM = c.TPM
	}
	if im.requests == "" {
		c.RPM = simprovider.Unlimited
	}
}

// rules are the limits as the profile knows them, in the provider's minutes.
func (im *imitated) rules(o options) ([]provider.Rule, error) {
	configured := func(amount int64) int64 { return max(int64(float64(amount)*o.Configured), 1) }
	amounts := map[string]int64{im.tokens: configured(o.TPM)}
	if im.requests != "" {
		amounts[im.requests] = configured(o.RPM)
	}
	if im.output != "" {
		amounts[im.output] = configured(o.TPM)
	}
	rules, err := o.profile().Rules(im.model, amounts)
	if o.Configured == 0 {
		rules, err = o.profile().UnknownRules(im.model)
	}
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	for i := range rules {
		l := &rules[i].Limit
		l.Window = time.Duration(float64(l.Window) * o.Minute.Minutes())
		l.Guard = time.Duration(float64(l.Guard) * o.Minute.Minutes())
	}
	return rules, nil
}
