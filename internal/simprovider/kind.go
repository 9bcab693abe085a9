package simprovider

// Kind is the provider whose accounting, words and headers are imitated. It fixes
// Rule and Settle. What the providers do not say is taken the strict way.
type Kind string

const (
	// KindOpenAI refills buckets continuously and never gives an estimate back.
	// A failed call counts: a refused one takes a request, if one is left, and one
	// that fails after admission keeps its charge.
	KindOpenAI Kind = "openai"
	// KindAzure slides, over a minute for tokens and a sixth of one for requests,
	// and never gives an estimate back. Failed calls count nothing.
	KindAzure Kind = "azure"
	// KindAnthropic refills three buckets: requests, input tokens (TPM) and output
	// tokens (OTPM). Input is estimated and then corrected, output counts as it is
	// produced, and cache reads count nothing.
	KindAnthropic Kind = "anthropic"
	// KindBedrock slides over a minute and has no limit on requests. Admission
	// charges all input and the cap; at the end that becomes the input without
	// cache reads, and the output times the model's Burndown.
	KindBedrock Kind = "bedrock"
	// KindGroq refills buckets continuously; cached input counts nothing. Its
	// headers tell the requests of the day (RPD), never those of the minute.
	KindGroq Kind = "groq"
)

// Charge says how an estimate of input and a cap on output make one charge.
type Charge string

const (
	// Sum adds them: the safe bound, and what OpenAI's own batch client counts.
	Sum Charge = "sum"
	// Larger takes the larger one, as OpenAI's guide words it.
	Larger Charge = "larger"
)

// traits are what a kind fixes, and what it makes of zero values.
type traits struct {
	rule          Rule
	settle        Settle
	models        []string
	defaultOutput int64
	failedCount   bool
}

var kinds = map[Kind]traits{
	"":         {Bucket, Final, []string{"gpt-4o-mini", "text-embedding-3-small"}, 640, false},
	KindOpenAI: {Bucket, Final, []string{"gpt-4o-mini", "text-embedding-3-small"}, 640, true},
	KindAzure:  {Azure, Final, []string{"gpt-4o-mini", "text-embedding-3-small"}, 640, false},
	// Anthropic's max_tokens is mandatory, and takes no part in the limits.
	KindAnthropic: {Bucket, Produced, []string{"claude-sonnet-4-5"}, 640, false},
	// Without a cap Bedrock reserves the model's maximum, 64K or more.
	KindBedrock: {Sliding, Actual, []string{"anthropic.claude-sonnet-4-5-20250929-v1:0"}, 64_000, false},
	KindGroq:    {Bucket, Final, []string{"openai/gpt-oss-120b"}, 640, false},
}
