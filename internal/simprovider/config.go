package simprovider

import (
	"fmt"
	"slices"
	"time"
)

// Unlimited, as a limit, means that there is none.
const Unlimited = -1

// Rule says how a limit is enforced. Each rule is exact: times are whole
// nanoseconds, amounts whole tokens, and nothing is rounded in the client's
// favour.
type Rule string

const (
	// Bucket holds at most one minute's worth, starts full, and is refilled
	// continuously. OpenAI's headers describe one.
	Bucket Rule = "bucket"
	// Fixed counts from zero in each minute of a clock whose phase the client
	// does not know.
	Fixed Rule = "fixed"
	// Sliding keeps every charge of the last minute: it admits nothing that would
	// put more than the limit into any interval of a minute, however placed.
	Sliding Rule = "sliding"
	// Azure slides too, but counts requests over a sixth of a minute, against a
	// sixth of RPM, rounded down: published readings of Azure OpenAI show 60 s
	// for tokens and 10 s for requests.
	Azure Rule = "azure"
)

// Settle says what becomes of the tokens charged at admission.
type Settle string

const (
	// Final: the charge stands, whatever the answer used, as at Azure OpenAI.
	Final Settle = "final"
	// Actual: at the end of the request the charge becomes what was used, at
	// the time of its admission. Once that time has left the window this
	// changes nothing. A bucket gets the difference back, up to its capacity.
	Actual Settle = "actual"
	// Produced: admission charges the input alone, and output is charged as it
	// is produced, though that may take the balance below zero.
	Produced Settle = "produced"
)

// Scope says which requests share a pair of limits.
type Scope string

const (
	// PerModel gives each model its own pair.
	PerModel Scope = "model"
	// Account counts all models together.
	Account Scope = "account"
)

// Model is one model on offer.
type Model struct {
	// ID is its name; it must not be empty.
	ID string
	// RPM, TPM and OTPM replace those of the Config for this model; 0 keeps them.
	// They need Scope PerModel.
	RPM, TPM, OTPM int64
	// Burndown is what a token of output counts in the end at Bedrock. 0 means 5
	// if the ID names a claude, which holds for those of 2025, and 1 otherwise.
	Burndown int64
}

// Lengths is how long the answers are, in tokens, when the request does not say.
type Lengths struct {
	// Mean is the average length; 0 means 100.
	Mean int64
	// Sigma is the standard deviation of the logarithm of a log-normal length;
	// 0 makes every answer Mean tokens long. At most 3.
	Sigma float64
}

// Config describes a provider. RPM and TPM must be given; the zero value of
// every other field has a meaning.
type Config struct {
	// RPM and TPM are requests and tokens per Minute: 1 to 100,000,000, or
	// Unlimited. Zero is refused: a judge whose limit was forgotten would
	// acquit everybody.
	RPM, TPM int64
	// OTPM is output tokens per Minute, which only KindAnthropic limits and must
	// be given; TPM is then input tokens alone.
	OTPM int64
	// RPD is requests per day of 1,440 Minutes, at most 100,000, which only
	// KindGroq limits; 0 means Unlimited.
	RPD int64
	// Imitate is whose accounting, headers and errors these are; empty means
	// OpenAI's words around the Rule and Settle given. KindBedrock needs no RPM,
	// because it has none.
	Imitate Kind
	// Charge is how KindOpenAI adds up an admission; empty means Sum.
	Charge Charge
	// InputPercent is what the input truly comes to, in usage and in corrected
	// charges, in percent of its estimate by characters: 1 to 1000, 0 means 100.
	InputPercent int64
	// Models are the models on offer; none means gpt-4o-mini and
	// text-embedding-3-small, or one that the imitated provider has. Any of them answers every endpoint.
	Models []Model
	// Scope is PerModel when empty.
	Scope Scope
	// Rule and Settle are those of Imitate when empty, and Bucket and Final
	// without it.
	Rule   Rule
	Settle Settle
	// Minute is how long the provider's minute lasts, so that a test need not
	// wait for real ones: 100 ms to 1 minute, 0 means 1 minute. Limits, window
	// and default latencies all scale with it.
	Minute time.Duration
	// FirstByte is the time from admission to the first byte of an answer, at
	// most an hour. 0 means a hundredth of Minute, a negative value no time.
	FirstByte time.Duration
	// OutputPerMinute is how many tokens each choice produces per Minute. 0
	// means 3,000; a negative value means that it takes no time.
	OutputPerMinute int64
	// Output is how long answers are when the request does not say.
	Output Lengths
	// DefaultOutput is the output charged at admission, per choice, when the
	// request declares no cap. 0 means 640, which Azure OpenAI was seen to
	// charge for gpt-4 and gpt-4o in 2024, or 64,000 for KindBedrock, which
	// reserves what the model can write; a negative value charges nothing.
	DefaultOutput int64
	// APIKey, if not empty, must come with every request as a bearer token.
	APIKey string
	// Disturbances are what goes wrong when, in order of time.
	Disturbances []Disturbance
	// Faults makes the server obey the X-Sim-Fault header.
	Faults bool
	// Seed is the source of everything random: the lengths of answers, the
	// phase of fixed minutes, and the draws of disturbances.
	Seed uint64
}

const (
	maxLimit  = 100_000_000 // with a minute of at most 60 s, limit × nanoseconds fits an int64
	maxPerDay = 100_000     // so does that, with a day of at most 24 h
	maxTokens = 1_000_000   // the longest answer, and the largest default output
	maxWait   = time.Hour
)

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// withDefaults replaces the zero values that stand for something else, and the
// negative ones that stand for nothing.
func (c Config) withDefaults() Config {
	of := kinds[c.Imitate]
	c.Models = slices.Clone(c.Models)
	if len(c.Models) == 0 {
		for _, id := range of.models {
			c.Models = append(c.Models, Model{ID: id})
		}
	}
	if c.Imitate == KindBedrock {
		orDefault(&c.RPM, Unlimited)
	}
	if c.Imitate != KindAnthropic {
		orDefault(&c.OTPM, Unlimited)
	}
	orDefault(&c.RPD, Unlimited)
	for i := range c.Models {
		orDefault(&c.Models[i].RPM, c.RPM)
		orDefault(&c.Models[i].TPM, c.TPM)
		orDefault(&c.Models[i].OTPM, c.OTPM)
	}
	orDefault(&c.Charge, Sum)
	orDefault(&c.InputPercent, 100)
	orDefault(&c.Scope, PerModel)
	orDefault(&c.Rule, of.rule)
	orDefault(&c.Settle, of.settle)
	orDefault(&c.Minute, time.Minute)
	orDefault(&c.FirstByte, c.Minute/100)
	orDefault(&c.OutputPerMinute, 3000)
	orDefault(&c.Output.Mean, 100)
	orDefault(&c.DefaultOutput, of.defaultOutput)
	c.FirstByte = max(c.FirstByte, 0)
	c.DefaultOutput = max(c.DefaultOutput, 0)
	return c
}

// validate checks a Config that has its defaults.
func (c Config) validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("simprovider: Config.%s: %v is not %s", field, value, want)
	}
	limit := func(field string, n int64) error {
		if n == Unlimited || 0 < n && n <= maxLimit {
			return nil
		}
		return bad(field, n, "between 1 and 100000000, nor Unlimited")
	}
	requests := func(field string, n int64) error {
		if c.Imitate == KindBedrock && n != Unlimited {
			return bad(field, n, "Unlimited, as Bedrock has it")
		}
		if c.Rule == Azure && 0 < n && n < 6 {
			return bad(field, n, "at least 6, which the azure rule needs: it admits a sixth of it per sixth of a minute")
		}
		return limit(field, n)
	}
	output := func(field string, n int64) error {
		if c.Imitate != KindAnthropic && n != Unlimited {
			return bad(field, n, "0: only Anthropic has that limit")
		}
		return limit(field, n)
	}
	if of, ok := kinds[c.Imitate]; !ok {
		return bad("Imitate", fmt.Sprintf("%q", c.Imitate), "openai, azure, anthropic, bedrock or groq")
	} else if c.Imitate != "" && (c.Rule != of.rule || c.Settle != of.settle) {
		return bad("Rule, Settle", fmt.Sprintf("(%q, %q)", c.Rule, c.Settle), "what is imitated has")
	}
	if err := requests("RPM", c.RPM); err != nil {
		return err
	}
	if err := limit("TPM", c.TPM); err != nil {
		return err
	}
	if err := output("OTPM", c.OTPM); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, m := range c.Models {
		field := fmt.Sprintf("Models[%d].", i)
		if m.ID == "" || seen[m.ID] {
			return bad(field+"ID", fmt.Sprintf("%q", m.ID), "a new name")
		}
		seen[m.ID] = true
		if err := requests(field+"RPM", m.RPM); err != nil {
			return err
		}
		if err := limit(field+"TPM", m.TPM); err != nil {
			return err
		}
		if err := output(field+"OTPM", m.OTPM); err != nil {
			return err
		}
		if m.Burndown < 0 || m.Burndown > 100 {
			return bad(field+"Burndown", m.Burndown, "between 1 and 100, nor 0 for the default")
		}
		if c.Scope == Account && (m.RPM != c.RPM || m.TPM != c.TPM || m.OTPM != c.OTPM) {
			return bad(field+"RPM, TPM", fmt.Sprintf("(%d, %d)", m.RPM, m.TPM), "the account's, although the scope is the account")
		}
	}
	switch {
	case c.Scope != PerModel && c.Scope != Account:
		return bad("Scope", fmt.Sprintf("%q", c.Scope), "model or account")
	case c.Rule != Bucket && c.Rule != Fixed && c.Rule != Sliding && c.Rule != Azure:
		return bad("Rule", fmt.Sprintf("%q", c.Rule), "bucket, fixed, sliding or azure")
	case c.Settle != Final && c.Settle != Actual && c.Settle != Produced:
		return bad("Settle", fmt.Sprintf("%q", c.Settle), "final, actual or produced")
	case c.RPD != Unlimited && (c.Imitate != KindGroq || c.RPD < 1 || c.RPD > maxPerDay):
		return bad("RPD", c.RPD, "between 1 and 100000 with KindGroq, nor 0 for none")
	case c.Charge != Sum && (c.Charge != Larger || c.Imitate != KindOpenAI):
		return bad("Charge", fmt.Sprintf("%q", c.Charge), "sum, nor larger with KindOpenAI")
	case c.InputPercent < 1 || c.InputPercent > 1000:
		return bad("InputPercent", c.InputPercent, "between 1 and 1000, nor 0 for 100")
	case c.Minute < 100*time.Millisecond || c.Minute > time.Minute:
		return bad("Minute", c.Minute, "between 100ms and 1m")
	case c.FirstByte > maxWait:
		return bad("FirstByte", c.FirstByte, "at most 1h")
	case c.OutputPerMinute > maxLimit:
		return bad("OutputPerMinute", c.OutputPerMinute, "at most 100000000")
	case c.Output.Mean < 0 || c.Output.Mean > maxTokens:
		return bad("Output.Mean", c.Output.Mean, "between 1 and 1000000, nor 0 for the default")
	case !(c.Output.Sigma >= 0 && c.Output.Sigma <= 3):
		return bad("Output.Sigma", c.Output.Sigma, "between 0 and 3")
	case c.DefaultOutput > maxTokens:
		return bad("DefaultOutput", c.DefaultOutput, "at most 1000000")
	}
	return validateDisturbances("Config.", c.Disturbances)
}
