package provider

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// hosted is what the providers below have in common: OpenAI's shape, without what
// is documented of OpenAI's own limits.
func hosted(asOf, url string) *Profile {
	return &Profile{
		AsOf:          asOf,
		BaseURLs:      []string{url},
		Admission:     Admission{OutputCaps: []string{"max_completion_tokens", "max_tokens"}, Multipliers: []string{"n"}},
		FailedCalls:   Unknown,
		Hints:         usualHints(),
		NoRetryHeader: "x-should-retry",
		ErrorStatus:   usualErrorStatus(),
		APIs:          []API{Chat, Completions, Embeddings},
	}
}

// mistral is from Mistral's pages on tiers, 2026-11. The header names are from
// users; other guides list OpenAI's names, so those are read as well.
func mistral() *Profile {
	p := hosted("2026-11-01", "https://api.mistral.ai/v1")
	p.Dimensions = []Dimension{
		{Name: "rps", Unit: ledger.Requests, Window: time.Second, Algorithm: Unmeasured, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Unmeasured, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
		{Name: "tokens_per_month", Unit: ledger.Tokens, Window: month, Algorithm: Unmeasured, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
	}
	p.Admission.CostHeader = "x-ratelimit-tokens-query-cost"
	p.Headers = append(mistralHeaders(), openAIHeaders(AnyFormat)...)
	p.Errors = []ErrorRule{{Status: []int{503}, Class: UpstreamError, Scope: ScopeNone}}
	return p
}

func mistralHeaders() []LimitHeaders {
	return []LimitHeaders{
		{Name: "requests", Limit: "x-ratelimit-limit-req-minute", Remaining: "x-ratelimit-remaining-req-minute", Window: minute},
		{Name: "tokens", Limit: "x-ratelimit-limit-tokens-minute", Remaining: "x-ratelimit-remaining-tokens-minute", Reset: "x-ratelimit-reset-tokens-minute", Format: AnyFormat, Cost: "x-ratelimit-tokens-query-cost", Window: minute},
		{Name: "requests", Limit: "x-ratelimit-limit-requests-minute", Remaining: "x-ratelimit-remaining-requests-minute", Reset: "x-ratelimit-reset-requests-minute", Format: AnyFormat, Window: minute},
	}
}

// groq is from Groq's rate limit page, 2026-10. What is charged at admission is not
// documented; the bucket is computed from its messages.
func groq() *Profile {
	p := hosted("2026-10-01", "https://api.groq.com/openai/v1")
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Continuous, Settles: SettlesFinal},
		{Name: "rpd", Unit: ledger.Requests, Window: day, Algorithm: Continuous, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Continuous, Reserves: estimated, Counts: Weights{Input: 100, CacheWrite: 100, Output: 100}, Settles: SettlesUnknown},
		{Name: "tpd", Unit: ledger.Tokens, Window: day, Algorithm: Continuous, Reserves: estimated, Counts: Weights{Input: 100, CacheWrite: 100, Output: 100}, Settles: SettlesUnknown},
	}
	p.Headers = openAIHeaders(GoDuration)[:2]
	p.Headers[0].Window, p.Headers[1].Window = day, minute // documented as always these
	p.Errors = []ErrorRule{
		{Status: []int{413}, Path: "error.code", In: []string{"rate_limit_exceeded"}, Class: TooLarge, Scope: ScopeTokens},
		{Status: []int{429}, Path: "error.message", Contains: []string{"request too large"}, Class: TooLarge, Scope: ScopeTokens},
		{Status: []int{429}, Path: "error.message", Contains: []string{"(tpd)", "(rpd)", "(asd)"}, Class: RateLimited, Scope: ScopeDay},
		{Status: []int{429}, Path: "error.message", Contains: []string{"(tpm)"}, Class: RateLimited, Scope: ScopeTokens},
		{Status: []int{429}, Path: "error.message", Contains: []string{"(rpm)"}, Class: RateLimited, Scope: ScopeRequests},
		{Status: []int{498}, Class: Overloaded, Scope: ScopeCapacity},
	}
	p.APIs = append(p.APIs, Responses)
	return p
}

// openRouter is from OpenRouter's pages on limits and streaming, 2026-10: only free
// models have limits of its own, and money is the limit of the others. That resets
// are in milliseconds is from users.
func openRouter() *Profile {
	p := hosted("2026-10-17", "https://openrouter.ai/api/v1")
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Unmeasured, Settles: SettlesFinal},
		{Name: "rpd", Unit: ledger.Requests, Window: day, Algorithm: Fixed, Settles: SettlesFinal}, // UTC day
	}
	p.Headers = []LimitHeaders{
		{Name: "requests", Limit: "x-ratelimit-limit", Remaining: "x-ratelimit-remaining", Reset: "x-ratelimit-reset", Format: EpochMilliseconds},
	}
	p.Errors = []ErrorRule{
		{Status: []int{429}, Path: "error.metadata.provider_code", Class: RateLimited, Scope: ScopeUpstream},
		{Status: []int{429}, Path: "error.message", Contains: []string{"per-day", "daily"}, Class: RateLimited, Scope: ScopeDay},
		{Status: []int{429}, Class: RateLimited, Scope: ScopeRequests},
	}
	p.APIs = append(p.APIs, Responses, Messages)
	return p
}

// deepSeek is from DeepSeek's rate limit page, 2026-10; earlier it had no limit.
func deepSeek() *Profile {
	p := hosted("2026-10-17", "https://api.deepseek.com")
	p.Dimensions = []Dimension{
		{Name: "concurrent", Unit: ledger.InFlight, Algorithm: Concurrency, Settles: SettlesActual},
	}
	p.Errors = []ErrorRule{
		{Status: []int{429}, Class: RateLimited, Scope: ScopeConcurrency},
	}
	p.UsagePaths = map[API]UsagePaths{Chat: {
		Input:     []string{"prompt_tokens"}, // hit and miss together
		Cached:    []string{"prompt_cache_hit_tokens|prompt_tokens_details.cached_tokens"},
		Output:    []string{"completion_tokens"},
		Reasoning: []string{"completion_tokens_details.reasoning_tokens"},
	}}
	return p
}

// together is from Together's rate limit page, 2026-11; the headers are from users.
// The limit grows with steady success, and 503 is load at or below it.
func together() *Profile {
	p := hosted("2026-11-01", "https://api.together.xyz/v1")
	p.Dimensions = []Dimension{
		{Name: "rps", Unit: ledger.Requests, Window: time.Second, Algorithm: Adaptive, Settles: SettlesFinal},
		{Name: "tps", Unit: ledger.Tokens, Window: time.Second, Algorithm: Adaptive, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
	}
	p.Headers = []LimitHeaders{
		{Name: "requests", Limit: "x-ratelimit-limit", Remaining: "x-ratelimit-remaining", Reset: "x-ratelimit-reset", Format: Seconds, Window: time.Second},
		{Name: "tokens", Limit: "x-tokenlimit-limit", Remaining: "x-tokenlimit-remaining", Window: time.Second},
	}
	return p
}

// fireworks is from Fireworks' rate limit page, 2026-11: limits are shown per second
// and enforced per minute, and move with use.
func fireworks() *Profile {
	p := hosted("2026-11-01", "https://api.fireworks.ai/inference/v1")
	p.Dimensions = []Dimension{
		{Name: "prompt_tpm", Unit: ledger.InputTokens, Window: minute, Algorithm: Adaptive, Reserves: inputOnly, Counts: inputOnly, Settles: SettlesUnknown},
		{Name: "uncached_prompt_tpm", Unit: ledger.InputTokens, Window: minute, Algorithm: Adaptive, Reserves: inputOnly, Counts: uncached, Settles: SettlesUnknown},
		{Name: "generated_tpm", Unit: ledger.OutputTokens, Window: minute, Algorithm: Adaptive, Reserves: outputOnly, Counts: outputOnly, Settles: SettlesUnknown},
	}
	of := func(name, dimension string) LimitHeaders {
		return LimitHeaders{Name: name, Limit: "x-ratelimit-limit-tokens-" + dimension, Remaining: "x-ratelimit-remaining-tokens-" + dimension, Window: time.Second}
	}
	p.Headers = []LimitHeaders{
		of("prompt_tokens", "prompt"), of("uncached_prompt_tokens", "cache-adjusted-prompt"), of("generated_tokens", "generated"),
	}
	p.Errors = []ErrorRule{
		{Status: []int{402, 412}, Class: QuotaExhausted, Scope: ScopeSpend},
	}
	p.UsageHeaders.Input, p.UsageHeaders.Cached = "fireworks-prompt-tokens", "fireworks-cached-prompt-tokens"
	return p
}

// xAI is from xAI's rate limit page, 2026-10. Its header names are not documented,
// and neither is whether completion_tokens holds the reasoning.
func xAI() *Profile {
	p := hosted("2026-10-05", "https://api.x.ai/v1")
	p.Dimensions = []Dimension{
		{Name: "rps", Unit: ledger.Requests, Window: time.Second, Algorithm: Unmeasured, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Unmeasured, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
	}
	p.Headers = openAIHeaders(AnyFormat)[:2]
	p.Errors = []ErrorRule{{Status: []int{503}, Class: UpstreamError, Scope: ScopeNone}}
	p.UsagePaths = map[API]UsagePaths{Chat: reconciled()}
	p.APIs = append(p.APIs, Responses)
	return p
}

// cohere is from Cohere's rate limit page, 2026-11; the headers, of trial keys only,
// are from users.
func cohere() *Profile {
	p := hosted("2026-11-01", "https://api.cohere.com/v2")
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Unmeasured, Settles: SettlesFinal},
		{Name: "calls_per_month", Unit: ledger.Requests, Window: month, Algorithm: Fixed, Settles: SettlesFinal},
	}
	p.Admission = Admission{OutputCaps: []string{"max_tokens"}}
	p.Headers = []LimitHeaders{
		{Name: "requests", Limit: "x-trial-endpoint-call-limit", Remaining: "x-trial-endpoint-call-remaining", Window: minute},
		{Name: "monthly_calls", Limit: "x-endpoint-monthly-call-limit", Window: month},
	}
	p.Errors = []ErrorRule{
		{Status: []int{429}, Path: "message", Contains: []string{"month"}, Class: QuotaExhausted, Scope: ScopeMonth},
		{Status: []int{429}, Class: RateLimited, Scope: ScopeRequests},
		{Status: []int{503}, Class: UpstreamError, Scope: ScopeNone},
		{Status: []int{402}, Class: ClientError, Scope: ScopeNone},
	}
	p.APIs = []API{Chat}
	p.UsagePaths = map[API]UsagePaths{Chat: { // billed_units leave the prompt's template out
		Input:  []string{"tokens.input_tokens"},
		Cached: []string{"cached_tokens"},
		Output: []string{"tokens.output_tokens"},
	}}
	return p
}
