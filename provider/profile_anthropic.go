package provider

import "github.com/paceline-go/paceline/ledger"

// anthropic is from Anthropic's rate limit and error pages, 2026-04 and 2026-10.
// Whether failed calls count is not documented. Until 2025 the output limit was
// charged from max_tokens at admission; it no longer is.
func anthropic() *Profile {
	return &Profile{
		AsOf:     "2026-10-17",
		BaseURLs: []string{"https://api.anthropic.com/v1"},
		Dimensions: []Dimension{
			{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Continuous, Settles: SettlesFinal},
			{Name: "itpm", Unit: ledger.InputTokens, Window: minute, Algorithm: Continuous, Reserves: inputOnly, Counts: uncached, Settles: SettlesActual},
			{Name: "otpm", Unit: ledger.OutputTokens, Window: minute, Algorithm: Continuous, Counts: outputOnly, Settles: SettlesProduced},
		},
		Exceptions: []Exception{
			{Models: []string{"claude-3-5-haiku", "claude-haiku-3-5", "claude-3.5-haiku"}, Dimensions: []string{"itpm"}, Counts: inputOnly},
		},
		Admission:   Admission{OutputCaps: []string{"max_tokens"}},
		FailedCalls: Unknown,
		Ramp:        Ramp{}, // a limit exists, and has no published numbers
		Headers:     anthropicHeaders(),
		Hints:       usualHints(),

		NoRetryHeader: "x-should-retry",
		Errors:        anthropicErrors(),
		ErrorStatus:   usualErrorStatus(),
		APIs:          []API{Messages},
	}
}

func anthropicHeaders() []LimitHeaders {
	of := func(name, prefix string, rounding int64) LimitHeaders {
		return LimitHeaders{
			Name: name, Limit: prefix + "-limit", Remaining: prefix + "-remaining", Reset: prefix + "-reset",
			Format: RFC3339, Window: minute, Rounding: rounding,
		}
	}
	return []LimitHeaders{
		of("requests", "anthropic-ratelimit-requests", 0),
		of("tokens", "anthropic-ratelimit-tokens", 1000), // the tightest limit in force
		of("input_tokens", "anthropic-ratelimit-input-tokens", 1000),
		of("output_tokens", "anthropic-ratelimit-output-tokens", 1000),
		of("priority_input_tokens", "anthropic-priority-input-tokens", 1000),
		of("priority_output_tokens", "anthropic-priority-output-tokens", 1000),
	}
}

func anthropicErrors() []ErrorRule {
	return []ErrorRule{
		{Status: []int{429}, Path: "error.details.error_code", In: []string{"enforced_spend_limit_reached"}, Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: "error.message", Contains: []string{"input tokens per minute"}, Class: RateLimited, Scope: ScopeInputTokens},
		{Status: []int{429}, Path: "error.message", Contains: []string{"output tokens per minute"}, Class: RateLimited, Scope: ScopeOutputTokens},
		{Status: []int{429}, Path: "error.message", Contains: []string{"requests per minute"}, Class: RateLimited, Scope: ScopeRequests},
		{Status: []int{429}, Path: "error.message", Contains: []string{"acceleration"}, Class: Acceleration, Scope: ScopeAcceleration},
		{Status: []int{400}, Path: "error.message", Contains: []string{"specified api usage limits", "specified workspace api usage limits"}, Class: QuotaExhausted, Scope: ScopeSpend},
		// Unlike elsewhere, 503 here is a failure: load is 529.
		{Status: []int{503}, Class: UpstreamError, Scope: ScopeNone},
	}
}
