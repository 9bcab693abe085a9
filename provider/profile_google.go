package provider

import "github.com/paceline-go/paceline/ledger"

// gemini is from Google's Gemini API pages, 2026-08. How the counters move with
// time is not documented; there are no limit headers.
func gemini() *Profile {
	return &Profile{
		AsOf:     "2026-08-24",
		BaseURLs: []string{"https://generativelanguage.googleapis.com/v1beta"},
		Dimensions: []Dimension{
			{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Unmeasured, Settles: SettlesFinal},
			// Output is not limited. That cached input counts is assumed.
			{Name: "tpm", Unit: ledger.InputTokens, Window: minute, Algorithm: Unmeasured, Reserves: inputOnly, Counts: inputOnly, Settles: SettlesFinal},
			// Reset at midnight in Los Angeles; one reading says 00:00 UTC.
			{Name: "rpd", Unit: ledger.Requests, Window: day, Algorithm: Fixed, Settles: SettlesFinal},
		},
		Admission:   Admission{OutputCaps: []string{"generationConfig.maxOutputTokens"}, Multipliers: []string{"generationConfig.candidateCount"}},
		FailedCalls: Yes,
		Hints:       usualHints(),
		Errors: []ErrorRule{
			// The hint of a daily limit has been below one second.
			{Status: []int{429}, Path: "error.details.violations.quotaId", Contains: []string{"perday"}, Class: QuotaExhausted, Scope: ScopeDay},
			{Status: []int{429}, Path: "error.details.type", In: []string{"spend_limit_exceeded"}, Class: RateLimited, Scope: ScopeSpend10Min},
			{Status: []int{429}, Path: "error.details.violations.quotaId", Contains: []string{"inputtoken"}, Class: RateLimited, Scope: ScopeInputTokens},
			{Status: []int{429}, Path: "error.details.violations.quotaId", Contains: []string{"requestsperminute"}, Class: RateLimited, Scope: ScopeRequests},
		},
		ErrorStatus: usualErrorStatus(),
		APIs:        []API{Generate, Chat},
		// The OpenAI shape can leave thinking out of completion_tokens.
		UsagePaths: map[API]UsagePaths{Chat: reconciled()},
		// Its streams have been seen to end without [DONE].
		EndsWithoutDone: true,
	}
}

// vertexGemini is from Google Cloud's pages on standard pay-as-you-go, 2026-11:
// above a baseline that is not enforced, all share what there is.
func vertexGemini() *Profile {
	p := gemini()
	p.AsOf = "2026-11-01"
	p.BaseURLs = []string{"https://{location}-aiplatform.googleapis.com", "https://aiplatform.googleapis.com"}
	p.Dimensions = []Dimension{
		{Name: "rpm", Unit: ledger.Requests, Window: minute, Algorithm: Adaptive, Settles: SettlesFinal},
		{Name: "tpm", Unit: ledger.Tokens, Window: minute, Algorithm: Adaptive, Reserves: estimated, Counts: all, Settles: SettlesUnknown},
	}
	p.FailedCalls = Unknown
	p.Errors = []ErrorRule{
		{Status: []int{429}, Path: messagePath, Contains: []string{"quota exceeded for"}, Class: RateLimited, Scope: ScopeUnknown},
		{Status: []int{429}, Class: Overloaded, Scope: ScopeCapacity},
	}
	return p
}
