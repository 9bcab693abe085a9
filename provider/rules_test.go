package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// The rules of each provider are what its profile says, and make a plan.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		profile, model string
		amounts        map[string]int64
		want           []string
	}{
		{"openai", "gpt-4o-mini", map[string]int64{"rpm": 500, "tpm": 200_000, "rpd": 10_000}, []string{
			"rpm requests 500 1m0s rule 1", "rpd requests 10000 24h0m0s rule 1 unpaced", "tpm tokens 200000 1m0s rule 1",
		}},
		{"azure_openai", "gpt-4o", map[string]int64{"rpm": 500, "tpm": 200_000}, []string{
			"rpm requests 500 1m0s rule 1", "rpm 10s requests 83 10s rule 1", "tpm tokens 200000 1m0s rule 1",
		}},
		{"anthropic", "claude-sonnet-5", map[string]int64{"itpm": 30_000, "otpm": 8_000}, []string{
			"itpm input_tokens 30000 1m0s rule 0 {100 0 100 0}", "otpm output_tokens 8000 1m0s rule 2 {0 0 0 100}",
		}},
		{"anthropic", "claude-3-5-haiku-latest", map[string]int64{"itpm": 50_000}, []string{
			"itpm input_tokens 50000 1m0s rule 0 {100 100 100 0}",
		}},
		{"bedrock_runtime", "us.anthropic.claude-sonnet-4-5-v1:0", map[string]int64{"tpm": 200_000}, []string{
			"tpm tokens 200000 1m0s rule 0 {100 0 100 500}",
		}},
	} {
		p, err := provider.ProfileNamed(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := p.Rules(c.model, c.amounts)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rules {
			l := r.Limit
			text := fmt.Sprintf("%s %v %d %v rule %d", l.Key, l.Unit, l.Amount, l.Window, l.Settle)
			if l.Counts != (ledger.Counts{}) {
				text += fmt.Sprint(" ", l.Counts)
			}
			if l.Unpaced {
				text += " unpaced"
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", c.profile, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		plan(t, provider.PlanConfig{Rules: rules})
	}
	p, err := provider.ProfileNamed("openai")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Rules("m", map[string]int64{"itpm": 1}); !errors.Is(err, provider.ErrPlan) || !strings.Contains(err.Error(), "itpm") {
		t.Errorf("%v, want ErrPlan that names itpm", err)
	}
}
