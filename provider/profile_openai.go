package provider

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

const (
	minute = time.Minute
	day    = 24 * time.Hour
	month  = 30 * day
)

var (
	// all counts everything, cached input included.
	all = Weights{Input: 100, Cached: 100, CacheWrite: 100, Output: 100}
	// estimated is the whole estimated input and the output cap.
	estimated = Weights{Input: 100, Output: 100}
	// inputOnly and outputOnly are its halves.
	inputOnly  = Weights{Input: 100, Cached: 100, CacheWrite: 100}
	outputOnly = Weights{Output: 100}
	// uncached is input that was not read from a cache.
	uncached = Weights{Input: 100, CacheWrite: 100}
)

// openAI is from OpenAI's rate limit and error guides, 2026-10. The algorithm and
// the fields that multiply are measured, not documented.
func openAI() *Profile {
	return &Profile{
		AsOf:     "2026-10-17",
		BaseURLs: []string{"https://api.openai.com/v1"},
		Dimensions: []Dimension{
			{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Continuous, Settles: SettlesFinal},
			{Name: "rpd", Unit: ledger.Requests, Window: day, Algorithm: Continuous, Settles: SettlesFinal},
			{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Continuous, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
			{Name: "tpd", Unit: ledger.Tokens, Window: day, Algorithm: Continuous, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
		},
		Admission: Admission{
			CharsPerToken: 4,
			OutputCaps:    []string{"max_completion_tokens", "max_output_tokens", "max_tokens"},
			Multipliers:   []string{"n", "best_of"},
			LargerOf:      true,
		},
		FailedCalls:   Yes,
		Ramp:          Ramp{Above: 1_000_000, Percent: 50, Every: 15 * minute},
		Headers:       openAIHeaders(GoDuration),
		Hints:         usualHints(),
		NoRetryHeader: "x-should-retry",
		Errors:        openAIErrors(),
		ErrorStatus:   usualErrorStatus(),
		APIs:          []API{Chat, Responses, Completions, Embeddings},
	}
}

// openAIHeaders are the names that most providers have taken over.
func openAIHeaders(reset Format) []LimitHeaders {
	return []LimitHeaders{
		{Name: "requests", Limit: "x-ratelimit-limit-requests", Remaining: "x-ratelimit-remaining-requests", Reset: "x-ratelimit-reset-requests", Format: reset},
		{Name: "tokens", Limit: "x-ratelimit-limit-tokens", Remaining: "x-ratelimit-remaining-tokens", Reset: "x-ratelimit-reset-tokens", Format: reset},
		{Name: "project_tokens", Limit: "x-ratelimit-limit-project-tokens", Remaining: "x-ratelimit-remaining-project-tokens", Reset: "x-ratelimit-reset-project-tokens", Format: reset},
	}
}

func openAIErrors() []ErrorRule {
	return []ErrorRule{
		{Status: []int{429}, Path: "error.code", In: openAIMoney(), Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: "error.type", In: []string{"insufficient_quota"}, Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429, 413}, Path: messagePath, Contains: []string{"request too large"}, Class: TooLarge, Scope: ScopeTokens},
		{Status: []int{429}, Path: "error.code", In: []string{"slow_down"}, Class: Acceleration, Scope: ScopeAcceleration},
		{Status: []int{429}, Path: messagePath, Contains: []string{"per day", "(rpd)", "(tpd)"}, Class: RateLimited, Scope: ScopeDay},
		{Status: []int{429}, Path: messagePath, Contains: []string{"requests per min", "(rpm)"}, Class: RateLimited, Scope: ScopeRequests},
		{Status: []int{429}, Path: messagePath, Contains: []string{"tokens per min", "(tpm)"}, Class: RateLimited, Scope: ScopeTokens},
		{Status: []int{429}, Path: messagePath, Contains: []string{"images per min", "(ipm)"}, Class: RateLimited, Scope: ScopeImages},
	}
}

func openAIMoney() []string {
	return []string{
		"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_hard_limit_reached",
	}
}

// usualErrorStatus are the names that providers give errors inside a 200. No name
// means two things, so that one table serves every gateway.
func usualErrorStatus() map[string]int {
	return map[string]int{
		// OpenAI. The codes of money are refused with 429.
		"rate_limit_exceeded": 429, "slow_down": 429, "requests": 429, "tokens": 429,
		"insufficient_quota": 429, "credit_balance_exhausted": 429,
		"organization_spend_limit_exceeded": 429, "project_spend_limit_exceeded": 429,
		"organization_usage_limit_exceeded": 429, "billing_hard_limit_reached": 429,
		"server_is_overloaded": 503, "service_unavailable_error": 503, "server_error": 500,
		"invalid_prompt": 400, "context_length_exceeded": 400, "content_filter": 400,
		// Anthropic.
		"rate_limit_error": 429, "overloaded_error": 529, "api_error": 500, "timeout_error": 504,
		"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402,
		"permission_error": 403, "not_found_error": 404, "request_too_large": 413,
		// Google.
		"RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "INTERNAL": 500, "DEADLINE_EXCEEDED": 504,
		"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "PERMISSION_DENIED": 403,
		// Bedrock's exception events.
		"throttlingException": 429, "serviceUnavailableException": 503, "internalServerException": 500,
		"modelStreamErrorException": 424, "modelTimeoutException": 408, "validationException": 400,
	}
}

// azureOpenAI is from Microsoft's quota pages, 2026-10; windows and charges are
// from readings of 2024 with gpt-35 to gpt-4o, which nobody has repeated since.
func azureOpenAI() *Profile {
	p := openAI()
	p.AsOf = "2026-10-17"
	p.BaseURLs = []string{"https://{resource}.openai.azure.com", "https://{resource}.services.ai.azure.com"}
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, SubWindow: 10 * time.Second, Algorithm: Sliding, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Sliding, Reserves: estimated, Counts: all, Settles: SettlesFinal},
	}
	p.Admission = Admission{
		CharsPerToken: 4,
		PerMessage:    1,
		OutputCaps:    []string{"max_completion_tokens", "max_output_tokens", "max_tokens"},
		// 640 was measured for gpt-4o. The newer models' default is not known, and
		// too much only waits.
		DefaultOutput: 4096,
		Multipliers:   []string{"best_of", "n"},
	}
	p.FailedCalls = No
	p.Ramp = Ramp{}
	p.Headers = openAIHeaders(Seconds)[:2]
	p.Headers[0].RemainingWindow = 10 * time.Second
	p.Errors = []ErrorRule{
		{Status: []int{429}, Path: "error.code", In: openAIMoney(), Class: QuotaExhausted, Scope: ScopeSpend},
		{Status: []int{429}, Path: messagePath, Contains: []string{"high demand", "temporarily unable"}, Class: Overloaded, Scope: ScopeCapacity},
		{Status: []int{429}, Path: messagePath, Contains: []string{"token rate limit"}, Class: RateLimited, Scope: ScopeTokens},
		{Status: []int{429}, Path: messagePath, Contains: []string{"call rate limit"}, Class: RateLimited, Scope: ScopeRequests},
	}
	return p
}
