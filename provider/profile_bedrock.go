package provider

import "github.com/paceline-go/paceline/ledger"

// bedrockRuntime is from AWS's quota pages and articles, 2026-05. Window and
// algorithm are not documented. Limits on requests were removed in May 2026.
func bedrockRuntime() *Profile {
	return &Profile{
		AsOf:     "2026-05-27",
		BaseURLs: []string{"https://bedrock-runtime.{region}.amazonaws.com"},
		Dimensions: []Dimension{
			{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Unmeasured, Reserves: estimated, Counts: Weights{Input: 100, CacheWrite: 100, Output: 100}, Settles: SettlesActual},
			{Name: "tpd", Unit: ledger.Tokens, Window: day, Algorithm: Unmeasured, Reserves: estimated, Counts: Weights{Input: 100, CacheWrite: 100, Output: 100}, Settles: SettlesActual},
		},
		// Output of these counts five times. A newer Claude 4 whose factor is not
		// published matches too: too high a charge only waits.
		Exceptions: []Exception{{
			Models:     []string{"claude-3-7-sonnet", "claude-sonnet-4", "claude-opus-4", "claude-haiku-4-5"},
			Dimensions: []string{"tpm", "tpd"},
			Counts:     Weights{Input: 100, CacheWrite: 100, Output: 500},
		}},
		Admission:       Admission{OutputCaps: []string{"inferenceConfig.maxTokens", "max_tokens", "max_completion_tokens", "max_output_tokens"}},
		FailedCalls:     Unknown,
		Hints:           usualHints(),
		ErrorTypeHeader: "x-amzn-errortype",
		Errors: []ErrorRule{
			{Type: []string{"ThrottlingException"}, Path: messagePath, Contains: []string{"tokens per day", "daily"}, Class: QuotaExhausted, Scope: ScopeDay},
			{Type: []string{"ThrottlingException"}, Class: RateLimited, Scope: ScopeUnknown},
			{Type: []string{"ServiceQuotaExceededException"}, Class: QuotaExhausted, Scope: ScopeUnknown},
			{Type: []string{"ModelNotReadyException", "ServiceUnavailableException"}, Class: Overloaded, Scope: ScopeCapacity},
			// 503 without a name is a failure; 424 is the model's.
			{Status: []int{424, 503}, Class: UpstreamError, Scope: ScopeNone},
		},
		ErrorStatus: usualErrorStatus(),
		APIs:        []API{Converse, Messages, Chat, Responses},
	}
}

// bedrockMantle is from AWS's page on the mantle endpoint's quotas, 2026-11: the
// output cap is checked against the quota of input.
func bedrockMantle() *Profile {
	p := bedrockRuntime()
	p.AsOf = "2026-11-01"
	p.BaseURLs = []string{"https://bedrock-mantle.{region}.api.aws"}
	p.Dimensions = []Dimension{
		{Name: "itpm", Unit: ledger.InputTokens, Window: minute, Algorithm: Unmeasured, Reserves: estimated, Counts: uncached, Settles: SettlesActual},
		{Name: "otpm", Unit: ledger.OutputTokens, Window: minute, Algorithm: Unmeasured, Counts: outputOnly, Settles: SettlesProduced},
	}
	p.Exceptions = nil
	p.APIs = []API{Chat, Responses, Messages}
	return p
}
