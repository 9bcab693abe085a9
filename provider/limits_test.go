package provider_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

func TestLimits(t *testing.T) {
	const none = provider.Absent
	for _, c := range []struct {
		name, provider string
		status         int
		header         http.Header
		want           []provider.Reported
	}{
		{"nothing", "openai", 200, header(), nil},
		{"azure -1", "azure_openai", 200,
			header("x-ratelimit-limit-tokens", "-1", "x-ratelimit-remaining-tokens", "-1", "x-ratelimit-reset-tokens", "0"),
			[]provider.Reported{{Name: "tokens", Limit: none, Remaining: none, Cost: none}}},
		{"a limit of 0 on a success", "openai", 200,
			header("x-ratelimit-limit-tokens", "0", "x-ratelimit-remaining-tokens", "0"),
			[]provider.Reported{{Name: "tokens", Limit: none, Remaining: none, Cost: none, Reset: none}}},
		{"a limit of 0 on a refusal", "openai", 429,
			header("x-ratelimit-limit-tokens", "0", "x-ratelimit-remaining-tokens", "0"),
			[]provider.Reported{{Name: "tokens", Limit: 0, Remaining: 0, Cost: none, Reset: none}}},
		{"capped", "openai", 200,
			header("x-ratelimit-limit-tokens", "100", "x-ratelimit-remaining-tokens", "101", "x-ratelimit-reset-tokens", "14h29m11.04s"),
			[]provider.Reported{{Name: "tokens", Limit: 100, Remaining: 100, Cost: none, Reset: 14*time.Hour + 29*time.Minute + 11040*time.Millisecond}}},
		{"too large for a ledger", "openai", 200,
			header("x-ratelimit-limit-tokens", "1125899906842625", "x-ratelimit-reset-tokens", "9999h"),
			[]provider.Reported{{Name: "tokens", Limit: none, Remaining: none, Cost: none, Reset: none}}},
		{"garbage", "openai", 200,
			header("x-ratelimit-limit-tokens", "1_000", "x-ratelimit-remaining-tokens", "0x10", "x-ratelimit-reset-tokens", "5"),
			[]provider.Reported{{Name: "tokens", Limit: none, Remaining: none, Cost: none, Reset: none}}},
		{"azure seconds", "azure_openai", 200,
			header("x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", " 7 ", "x-ratelimit-reset-requests", "9.5"),
			[]provider.Reported{{Name: "requests", Limit: 60, Remaining: 7, Cost: none, Reset: 9500 * time.Millisecond, RemainingWindow: 10 * time.Second}}},
		{"anthropic, a second of rounding", "anthropic", 200,
			header("anthropic-priority-input-tokens-reset", "2026-11-30T11:59:59.5Z"),
			[]provider.Reported{{Name: "priority_input_tokens", Limit: none, Remaining: none, Cost: none, Reset: 0, Window: time.Minute, Rounding: 1000}}},
		{"anthropic, the past", "anthropic", 200,
			header("anthropic-ratelimit-requests-reset", "2026-11-30T11:59:00Z"),
			[]provider.Reported{{Name: "requests", Limit: none, Remaining: none, Cost: none, Reset: none, Window: time.Minute}}},
		{"groq day", "groq", 200, header("x-ratelimit-limit-requests", "1000"),
			[]provider.Reported{{Name: "requests", Limit: 1000, Remaining: none, Cost: none, Reset: none, Window: 24 * time.Hour}}},
		{"together", "together", 429,
			header("x-ratelimit-limit", "10", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "1", "x-tokenlimit-limit", "9000", "x-tokenlimit-remaining", "1"),
			[]provider.Reported{
				{Name: "requests", Limit: 10, Remaining: 0, Cost: none, Reset: time.Second, Window: time.Second},
				{Name: "tokens", Limit: 9000, Remaining: 1, Cost: none, Reset: none, Window: time.Second},
			}},
		{"cohere", "cohere", 200, header("x-endpoint-monthly-call-limit", "1000", "x-trial-endpoint-call-limit", "40", "x-trial-endpoint-call-remaining", "39"),
			[]provider.Reported{
				{Name: "requests", Limit: 40, Remaining: 39, Cost: none, Reset: none, Window: time.Minute},
				{Name: "monthly_calls", Limit: 1000, Remaining: none, Cost: none, Reset: none, Window: 30 * 24 * time.Hour},
			}},
		{"mistral with other names", "mistral", 200, header("x-ratelimit-limit-requests-minute", "60", "x-ratelimit-reset-requests-minute", "12"),
			[]provider.Reported{{Name: "requests", Limit: 60, Remaining: none, Cost: none, Reset: 12 * time.Second, Window: time.Minute}}},
		{"openrouter", "openrouter", 429, header("X-RateLimit-Reset", "1796040042500"),
			[]provider.Reported{{Name: "requests", Limit: none, Remaining: none, Cost: none, Reset: 42500 * time.Millisecond}}},
		{"any: unix seconds", "generic", 200, header("x-ratelimit-reset", "1796040042"),
			[]provider.Reported{{Name: "requests", Limit: none, Remaining: none, Cost: none, Reset: 42 * time.Second}}},
		{"any: unix milliseconds", "generic", 200, header("x-ratelimit-reset", "1796040042500"),
			[]provider.Reported{{Name: "requests", Limit: none, Remaining: none, Cost: none, Reset: 42500 * time.Millisecond}}},
		{"any: seconds", "generic", 200, header("ratelimit-reset", "42.5"),
			[]provider.Reported{{Name: "requests", Limit: none, Remaining: none, Cost: none, Reset: 42500 * time.Millisecond}}},
		{"any: date", "generic", 200, header("x-ratelimit-reset-tokens", "Mon, 30 Nov 2026 12:00:42 GMT"),
			[]provider.Reported{{Name: "tokens", Limit: none, Remaining: none, Cost: none, Reset: 42 * time.Second}}},
		{"the family that is of use", "generic", 200, header("x-ratelimit-limit-requests", "?", "x-ratelimit-limit", "7"),
			[]provider.Reported{{Name: "requests", Limit: 7, Remaining: none, Cost: none, Reset: none}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := profile(t, c.provider).Limits(c.status, c.header); !slices.Equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	names := provider.ProfileNames()
	if !slices.IsSorted(names) || len(names) < 17 {
		t.Error(names)
	}
	for _, name := range names {
		p := profile(t, name)
		if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil || p.Name != name {
			t.Errorf("%s: name %q, as of %q", name, p.Name, p.AsOf)
		}
		if len(p.Dimensions) == 0 || len(p.APIs) == 0 || len(p.Hints) == 0 {
			t.Errorf("%s says too little", name)
		}
		seen := map[string]bool{}
		for _, d := range p.Dimensions {
			if seen[d.Name] || (d.Unit == ledger.InFlight) != (d.Window == 0) || d.Algorithm == "" || d.Settles == "" {
				t.Errorf("%s: dimension %+v", name, d)
			}
			seen[d.Name] = true
		}
		for _, e := range p.Exceptions {
			for _, d := range e.Dimensions {
				if !seen[d] {
					t.Errorf("%s: an exception for the dimension %q, which is not there", name, d)
				}
			}
		}
		for _, e := range p.Errors {
			for _, v := range append(e.Contains, "") {
				if v != strings.ToLower(v) {
					t.Errorf("%s: %q can never match", name, v)
				}
			}
		}
		// What one caller changes must not reach another.
		p.Errors, p.ErrorStatus["x"] = append(p.Errors[:0], provider.ErrorRule{Class: "mine"}), 1
		p.Dimensions[0].Name = "mine"
		if len(p.Headers) > 0 {
			p.Headers[0].Name = "mine"
		}
		q := profile(t, name)
		if q.ErrorStatus["x"] != 0 || q.Dimensions[0].Name == "mine" || len(q.Headers) > 0 && q.Headers[0].Name == "mine" {
			t.Errorf("%s is shared", name)
		}
	}
	if _, err := provider.ProfileNamed("opneai"); !errors.Is(err, provider.ErrProfile) || !strings.Contains(err.Error(), "openai") {
		t.Error(err)
	}
}

func TestQuotaCharge(t *testing.T) {
	u := provider.Usage{Input: 10_000, Cached: 7_000, CacheWrite: 1_000, Output: 500, Reasoning: 400, Exact: true}
	for _, c := range []struct {
		provider, model string
		want            map[string]int64
	}{
		{"openai", "gpt-5", map[string]int64{"rpm": 1, "rpd": 1, "tpm": 10_500, "tpd": 10_500}},
		{"azure_openai", "", map[string]int64{"rpm": 1, "tpm": 10_500}},
		{"anthropic", "claude-sonnet-5", map[string]int64{"rpm": 1, "itpm": 3_000, "otpm": 500}},
		{"anthropic", "claude-3-5-haiku-20241022", map[string]int64{"rpm": 1, "itpm": 10_000, "otpm": 500}},
		{"gemini", "", map[string]int64{"rpm": 1, "rpd": 1, "tpm": 10_000}},
		{"bedrock_runtime", "amazon.nova-lite-v1:0", map[string]int64{"tpm": 3_500, "tpd": 3_500}},
		{"bedrock_runtime", "anthropic.claude-3-7-sonnet-20250219-v1:0", map[string]int64{"tpm": 5_500, "tpd": 5_500}},
		{"bedrock_mantle", "anthropic.claude-opus-4-1", map[string]int64{"itpm": 3_000, "otpm": 500}},
		{"groq", "", map[string]int64{"rpm": 1, "rpd": 1, "tpm": 3_500, "tpd": 3_500}},
		{"xai", "", map[string]int64{"rps": 1, "tpm": 10_500}},
		{"deepseek", "", map[string]int64{"concurrent": 0}},
		{"fireworks", "", map[string]int64{"prompt_tpm": 10_000, "uncached_prompt_tpm": 3_000, "generated_tpm": 500}},
		{"cohere", "", map[string]int64{"rpm": 1, "calls_per_month": 1}},
	} {
		got := map[string]int64{}
		for _, q := range profile(t, c.provider).QuotaCharge(c.model, u) {
			got[q.Dimension] = q.Amount
		}
		if len(got) != len(c.want) {
			t.Errorf("%s %s: %v, want %v", c.provider, c.model, got, c.want)
		}
		for d, n := range c.want {
			if got[d] != n {
				t.Errorf("%s %s: %v, want %v", c.provider, c.model, got, c.want)
			}
		}
	}
	// Anthropic's priority tier, as an operator would write it: fractions round up.
	p := profile(t, "anthropic")
	p.Dimensions[1].Counts = provider.Weights{Input: 100, Cached: 10, CacheWrite: 125}
	if got := p.QuotaCharge("", provider.Usage{Input: 6, Cached: 3, CacheWrite: 2})[1].Amount; got != 4 {
		t.Errorf("1 + .3 + 2.5 is %d, want 4", got)
	}
}

func TestSettleRule(t *testing.T) {
	for s, want := range map[provider.Settle]ledger.Rule{
		provider.SettlesActual: ledger.SettleActual, provider.SettlesFinal: ledger.SettleFinal,
		provider.SettlesProduced: ledger.SettleProduced, provider.SettlesUnknown: ledger.SettleFinal, "": ledger.SettleFinal,
	} {
		if got := s.Rule(); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}
