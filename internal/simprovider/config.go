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
	// RPM and TPM replace those of the Config for this model; 0 keeps them.
	// They need Scope PerModel.
	RPM, TPM int64
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
	// Models are the models on offer; none means gpt-4o-mini and
	// text-embedding-3-small. Any of them answers every endpoint.
	Models []Model
	// Scope is PerModel when empty.
	Scope Scope
	// Rule is Bucket when empty.
	Rule Rule
	// Settle is Final when empty.
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
	// charge for gpt-4 and gpt-4o in 2024; a negative value charges nothing.
	DefaultOutput int64
	// APIKey, if not empty, must come with every request as a bearer token.
	APIKey string
	// Faults makes the server obey the X-Sim-Fault header.
	Faults bool
	// Seed is the source of everything random: the lengths of answers and the
	// phase of fixed minutes.
	Seed uint64
}

const (
	maxLimit  = 100_000_000 // with a minute of at most 60 s, limit × nanoseconds fits an int64
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
	c.Models = slices.Clone(c.Models)
	if len(c.Models) == 0 {
		c.Models = []Model{{ID: "gpt-4o-mini"}, {ID: "text-embedding-3-small"}}
	}
	for i := range c.Models {
		orDefault(&c.Models[i].RPM, c.RPM)
		orDefault(&c.Models[i].TPM, c.TPM)
	}
	orDefault(&c.Scope, PerModel)
	orDefault(&c.Rule, Bucket)
	orDefault(&c.Settle, Final)
	orDefault(&c.Minute, time.Minute)
	orDefault(&c.FirstByte, c.Minute/100)
	orDefault(&c.OutputPerMinute, 3000)
	orDefault(&c.Output.Mean, 100)
	orDefault(&c.DefaultOutput, 640)
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
		if c.Rule == Azure && 0 < n && n < 6 {
			return bad(field, n, "at least 6, which the azure rule needs: it admits a sixth of it per sixth of a minute")
		}
		return limit(field, n)
	}
	if err := requests("RPM", c.RPM); err != nil {
		return err
	}
	if err := limit("TPM", c.TPM); err != nil {
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
		if c.Scope == Account && (m.RPM != c.RPM || m.TPM != c.TPM) {
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
	return nil
}
