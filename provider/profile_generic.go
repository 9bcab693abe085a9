package provider

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// vLLM is from vLLM's docs and issues, 2026-11. It queues and does not refuse: a
// limit on calls in flight is ours to choose, and a 429 is from a gateway before it.
func vLLM() *Profile {
	p := generic()
	p.AsOf = "2026-11-01"
	p.BaseURLs = []string{"http://localhost:8000/v1"}
	p.Dimensions = []Dimension{
		{Name: "concurrent", Unit: ledger.InFlight, Algorithm: Concurrency, Settles: SettlesActual},
	}
	// With stream_options.continuous_usage_stats; without it a cut stream has no
	// usage at all, and nothing is taken for exact.
	p.ExactOnCut = true
	p.APIs = []API{Chat, Completions, Embeddings, Responses}
	p.EndsWithoutDone = false
	return p
}

// generic is any server that speaks OpenAI's API, or nearly: it reads every family
// of headers, every shape of usage, and the error texts that mean the same with
// every provider.
func generic() *Profile {
	p := openAI()
	p.AsOf = "2026-10-17"
	p.BaseURLs = nil
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Unmeasured, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Unmeasured, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
	}
	p.Admission.LargerOf = false
	p.FailedCalls = Unknown
	p.Ramp = Ramp{}
	p.Headers = openAIHeaders(AnyFormat)
	p.Headers = append(p.Headers, mistralHeaders()...)
	p.Headers = append(p.Headers, anthropicHeaders()...)
	p.Headers = append(p.Headers,
		LimitHeaders{Name: "requests", Limit: "x-ratelimit-limit", Remaining: "x-ratelimit-remaining", Reset: "x-ratelimit-reset", Format: AnyFormat},
		LimitHeaders{Name: "requests", Limit: "ratelimit-limit", Remaining: "ratelimit-remaining", Reset: "ratelimit-reset", Format: AnyFormat},
		LimitHeaders{Name: "tokens", Limit: "x-tokenlimit-limit", Remaining: "x-tokenlimit-remaining", Window: time.Second},
		LimitHeaders{Name: "requests_day", Limit: "x-ratelimit-limit-requests-day", Remaining: "x-ratelimit-remaining-requests-day", Reset: "x-ratelimit-reset-requests-day", Format: AnyFormat, Window: day},
		LimitHeaders{Name: "tokens_day", Limit: "x-ratelimit-limit-tokens-day", Remaining: "x-ratelimit-remaining-tokens-day", Reset: "x-ratelimit-reset-tokens-day", Format: AnyFormat, Window: day},
	)
	p.ErrorTypeHeader = "x-amzn-errortype"
	const code, kind = "error.code|code", "error.type|type"
	p.Errors = []ErrorRule{
		{Status: []int{429}, Path: code, In: openAIMoney(), Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: kind, In: []string{"insufficient_quota", "billing_error"}, Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: "error.details.error_code", In: []string{"enforced_spend_limit_reached"}, Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{400}, Path: messagePath, Contains: []string{"specified api usage limits", "specified workspace api usage limits"}, Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: "error.details.violations.quotaId", Contains: []string{"perday"}, Class: QuotaExhausted, Scope: ScopeDay},
		{Status: []int{429, 413}, Path: messagePath, Contains: []string{"request too large"}, Class: TooLarge, Scope: ScopeTokens},
		{Status: []int{413}, Path: code, In: []string{"rate_limit_exceeded"}, Class: TooLarge, Scope: ScopeTokens},
		{Status: []int{429}, Path: code, In: []string{"slow_down"}, Class: Acceleration, Scope: ScopeAcceleration},
		{Status: []int{429}, Path: messagePath, Contains: []string{"high demand", "temporarily unable"}, Class: Overloaded, Scope: ScopeCapacity},
		{Status: []int{429}, Path: "error.metadata.provider_code", Class: RateLimited, Scope: ScopeUpstream},
		{Status: []int{429}, Path: messagePath, Contains: []string{"per day", "per-day", "daily", "(rpd)", "(tpd)"}, Class: RateLimited, Scope: ScopeDay},
		{Status: []int{429}, Path: messagePath, Contains: []string{"input tokens per min"}, Class: RateLimited, Scope: ScopeInputTokens},
		{Status: []int{429}, Path: messagePath, Contains: []string{"output tokens per min"}, Class: RateLimited, Scope: ScopeOutputTokens},
		{Status: []int{429}, Path: messagePath, Contains: []string{"requests per min", "call rate limit", "(rpm)"}, Class: RateLimited, Scope: ScopeRequests},
		{Status: []int{429}, Path: messagePath, Contains: []string{"tokens per min", "token rate limit", "(tpm)"}, Class: RateLimited, Scope: ScopeTokens},
	}
	p.APIs = []API{Chat, Responses, Messages, Generate, Completions, Embeddings, Converse}
	p.UsagePaths = map[API]UsagePaths{Chat: reconciled(), Completions: reconciled()}
	p.EndsWithoutDone = true
	return p
}
