package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// Profile is how one provider counts, reports its limits, and refuses. It is data:
// take one from [ProfileNamed], change the fields that your contract or gateway
// changes, and use that. The zero Profile knows no headers and no error texts, and
// classifies by the HTTP status alone.
//
// A Profile is read-only once its methods are in use; then they are safe to call
// at once. The facts are from the providers' documentation, and where that is
// silent from published measurements; comments say which is not documented.
type Profile struct {
	// Name is the name ProfileNamed knows it by.
	Name string
	// AsOf is the date of the newest text the facts are from, as 2006-01-02.
	AsOf string
	// BaseURLs are where the provider's API is; parts in braces vary.
	BaseURLs []string

	// Dimensions are what the provider counts. The amounts are not here: they
	// differ by account and change too often. Headers or the operator tell them.
	Dimensions []Dimension
	// Exceptions replace how a dimension counts, for some models.
	Exceptions []Exception
	// Admission is how the provider estimates a call before it runs.
	Admission Admission
	// FailedCalls says whether a refused or failed call counts as a request.
	FailedCalls Answered
	// Ramp is the fastest growth of traffic; the zero Ramp is no known rule.
	Ramp Ramp

	// Headers are the families of limit headers. Of several with one name the
	// first that holds anything usable counts.
	Headers []LimitHeaders
	// Hints are where the time to wait is looked for, best first. After them
	// comes the reset of the exhausted dimension.
	Hints []Hint
	// NoRetryHeader forbids a retry when its value is "false"; "" for none.
	NoRetryHeader string
	// ErrorTypeHeader names the error, up to a colon; "" for none.
	ErrorTypeHeader string
	// Errors classify a refusal; the first that matches decides. A status that
	// no rule matches is classified by the status alone.
	Errors []ErrorRule
	// ErrorStatus is the HTTP status that an error inside a 200 stands for, by
	// the error's code, type or status. An unknown one counts as 500.
	ErrorStatus map[string]int

	// APIs are the shapes the provider answers in, the usual one first.
	APIs []API
	// UsagePaths replace the usual places of the counts, per shape.
	UsagePaths map[API]UsagePaths
	// UsageHeaders name input and cached input in the header of an answer whose
	// body has no usage; "" for none.
	UsageHeaders struct{ Input, Cached string }
	// ExactOnCut says that usage comes with every chunk, and that the provider
	// stops where the stream was cut, so that the last usage is exact.
	ExactOnCut bool
	// EndsWithoutDone says that a chat stream may end with its finish_reason and
	// without [DONE].
	EndsWithoutDone bool
}

// Answered is the answer to a question about a provider that may be open.
type Answered string

// The values of Answered. Unknown is to be treated as the costlier of the others.
const (
	Unknown Answered = "unknown"
	Yes     Answered = "yes"
	No      Answered = "no"
)

// Algorithm is how a provider's counter moves with time.
type Algorithm string

// The algorithms. Under Unmeasured and Adaptive a sliding window of the whole
// limit is safe: every other algorithm admits what it admits.
const (
	// Continuous: a bucket as large as the limit, refilled at limit/window.
	Continuous Algorithm = "continuous"
	// Sliding: a charge leaves exactly one window after it was admitted.
	Sliding Algorithm = "sliding"
	// Fixed: a counter that is reset at wall-clock boundaries.
	Fixed Algorithm = "fixed"
	// Concurrency: calls in flight.
	Concurrency Algorithm = "concurrency"
	// Adaptive: the limit itself moves with traffic and load.
	Adaptive Algorithm = "adaptive"
	// Unmeasured: not documented, and nobody published a measurement.
	Unmeasured Algorithm = "unknown"
)

// Settle is what becomes of a charge when the call is over.
type Settle string

// The settle rules.
const (
	// SettlesActual: the estimate is replaced by what was used.
	SettlesActual Settle = "actual"
	// SettlesFinal: the estimate stands until it leaves the window.
	SettlesFinal Settle = "final"
	// SettlesProduced: nothing at admission, then each token as it is produced.
	SettlesProduced Settle = "produced"
	// SettlesUnknown is to be treated as final: giving back what the provider
	// keeps would admit too much.
	SettlesUnknown Settle = "unknown"
)

// Rule returns the ledger's rule for s, the safe one for an unknown.
func (s Settle) Rule() ledger.Rule {
	switch s {
	case SettlesActual:
		return ledger.SettleActual
	case SettlesProduced:
		return ledger.SettleProduced
	default:
		return ledger.SettleFinal
	}
}

// Dimension is one thing a provider counts.
type Dimension struct {
	// Name is the provider's own short word: "rpm", "tpd", "itpm".
	Name string
	// Unit is what is counted.
	Unit ledger.Unit
	// Window is the time over which it is counted; 0 for calls in flight.
	Window time.Duration
	// SubWindow is a shorter time over which the same rate is enforced as well:
	// no more than Amount*SubWindow/Window within it. 0 for none.
	SubWindow time.Duration
	// Algorithm is how the counter moves.
	Algorithm Algorithm
	// Reserves is what a call takes when it is admitted: Input weighs the whole
	// estimated input, Output the declared or default output cap.
	Reserves Weights
	// Counts is what it has taken in the end, by the reported usage.
	Counts Weights
	// Settles says whether Counts replaces Reserves.
	Settles Settle
}

// Weights say how much of a call a dimension counts, in percent: 100 counts each
// token once, 0 not at all. Dimensions of requests and of calls in flight have none.
type Weights struct {
	// Input is input that was neither read from a cache nor written to one.
	Input int64
	// Cached is input read from a cache, CacheWrite input written to one.
	Cached, CacheWrite int64
	// Output is all that was generated, reasoning included.
	Output int64
}

// ReservesOutput says that the provider counts a call's cap on its output at admission,
// declared or not: to reserve less would be refused.
func (p *Profile) ReservesOutput() bool {
	return slices.ContainsFunc(p.Dimensions, func(d Dimension) bool { return d.Reserves.Output > 0 })
}

// Exception replaces Counts of the dimensions named for models whose name contains
// one of Models.
type Exception struct {
	Models     []string
	Dimensions []string
	Counts     Weights
}

// Admission is how a provider estimates a call before it runs.
type Admission struct {
	// CharsPerToken is the divisor of an estimate from characters; 0 when the
	// input is tokenized, or nobody knows.
	CharsPerToken int64
	// PerMessage is added for each message, in tokens.
	PerMessage int64
	// OutputCaps are the request's fields that declare the most output; the
	// largest one given counts.
	OutputCaps []string
	// DefaultOutput is charged when no cap is declared, in tokens; 0 is the
	// model's own maximum.
	DefaultOutput int64
	// Multipliers are the request's fields that multiply the output cap.
	Multipliers []string
	// LargerOf says that the larger of input and output cap is documented to be
	// charged, not the sum. Reserving the sum is safe.
	LargerOf bool
	// CostHeader tells on each answer what it was charged, in tokens; "" for none.
	CostHeader string
}

// Ramp is a rule on how fast traffic may grow.
type Ramp struct {
	// Above is the input tokens per minute from which the rule holds; 0 for all.
	Above int64
	// Percent is the most growth within Every; 0 when no number is published.
	Percent int
	Every   time.Duration
}

// LimitHeaders are the names of the headers that tell one limit; "" for none.
type LimitHeaders struct {
	// Name is what the limit is called in [Reported].
	Name string
	// Limit, Remaining and Reset name the headers; Cost names the one that tells
	// what this call was charged.
	Limit, Remaining, Reset, Cost string
	// Format is that of Reset.
	Format Format
	// Window is the time the numbers are for; 0 when the provider does not say.
	Window time.Duration
	// RemainingWindow is the time Remaining is for where that is shorter.
	RemainingWindow time.Duration
	// Rounding is to what multiple Remaining is rounded; 0 for exact.
	Rounding int64
}

// ErrProfile is wrapped by the complaint about a profile that does not exist.
var ErrProfile = errors.New("provider: no such profile")

// profiles makes each profile anew, so that nobody's changes reach anybody else.
var profiles = []struct {
	name string
	make func() *Profile
}{
	{"anthropic", anthropic},
	{"azure_openai", azureOpenAI},
	{"bedrock_mantle", bedrockMantle},
	{"bedrock_runtime", bedrockRuntime},
	{"cohere", cohere},
	{"deepseek", deepSeek},
	{"fireworks", fireworks},
	{"gemini", gemini},
	{"generic", generic},
	{"groq", groq},
	{"mistral", mistral},
	{"openai", openAI},
	{"openrouter", openRouter},
	{"together", together},
	{"vertex_gemini", vertexGemini},
	{"vllm", vLLM},
	{"xai", xAI},
}

// ProfileNamed returns a profile that is the caller's own to change. An unknown
// name is an error that wraps [ErrProfile] and lists the names.
func ProfileNamed(name string) (*Profile, error) {
	for _, p := range profiles {
		if p.name == name {
			profile := p.make()
			profile.Name = name
			return profile, nil
		}
	}
	return nil, fmt.Errorf("%w: %.64q; there are %s", ErrProfile, name, strings.Join(ProfileNames(), ", "))
}

// ProfileNames returns the names that ProfileNamed knows, sorted.
func ProfileNames() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}
