package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// config is what the flags say. Each flag may also be given as an environment
// variable: -max-wait as PACELINE_MAX_WAIT. The command line counts first.
type config struct {
	addr string

	model, embedModel string
	tpm, rpm          int64
	embedTPM          int64
	embedRPM          int64
	tenants           tenantFlag
	tenantDefault     int64
	settle            string
	reserve           int // percent

	ledger      string
	upstream    string
	upstreamKey string // from OPENAI_API_KEY, never from a flag
	accounts    []*account
	keys        string
	faults      bool

	rateLimitFields bool
	lowerMaxTokens  float64 // times what is expected; 0 for as declared

	workers, maxQueue, maxTenantQueue int
	maxWait                           time.Duration
	maxBody, maxMemory                int64 // MiB
	drain, shutdownDelay              time.Duration
	debug                             bool
}

// parseConfig reads the flags and the environment. The error says what to do.
func parseConfig(args []string, getenv func(string) string, out io.Writer) (*config, error) {
	c := &config{tenants: tenantFlag{limits: []tenantLimit{{"acme", 40_000}, {"globex", 10_000}}}}
	var accounts string
	f := flag.NewFlagSet("demo-server", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller reports what is wrong
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`address` to listen on; one that is not loopback needs -keys")
	f.StringVar(&c.model, "model", "gpt-4o-mini", "chat model")
	f.Int64Var(&c.tpm, "tpm", 200_000, "tokens per minute of the chat model")
	f.Int64Var(&c.rpm, "rpm", 500, "requests per minute of the chat model")
	f.StringVar(&c.embedModel, "embed-model", "text-embedding-3-small", "embedding model")
	f.Int64Var(&c.embedTPM, "embed-tpm", 1_000_000, "tokens per minute of the embedding model")
	f.Int64Var(&c.embedRPM, "embed-rpm", 3_000, "requests per minute of the embedding model")
	f.Var(&c.tenants, "tenant", "`NAME=TPM`, a tenant's tokens per minute over all models; may be repeated; none for no such tenants")
	f.Int64Var(&c.tenantDefault, "tenant-default", 5_000, "tokens per minute of each other tenant; 0 for no limit")
	f.StringVar(&c.settle, "settle", "", "what the provider does with its estimate when a call ends: actual corrects it, final keeps it (default actual for the simulator, final with -upstream)")
	f.IntVar(&c.reserve, "reserve", 0, "`percent` of each model's token rate that is kept for paid work; 0 for none")
	f.StringVar(&c.ledger, "ledger", "", "`URL` of a shared ledger: redis://, rediss://, redis-sentinel:// or redis-cluster:// (default in memory)")
	f.StringVar(&c.upstream, "upstream", "", "`URL` of a provider, whose key is read from OPENAI_API_KEY; needs -keys (default a built-in simulator)")
	f.StringVar(&accounts, "accounts", "", "`FILE` with the accounts at providers and the models that each serves, in JSON; instead of -upstream, and needs -keys")
	f.StringVar(&c.keys, "keys", "", "`FILE` with a line for each key: KEY (16 characters or more) TENANT [CLASS], the best class that it may claim: paid, free, background or 0 to 9 (default free)")
	f.BoolVar(&c.faults, "faults", false, "obey the header X-Sim-Fault, for tests with the simulator")
	f.IntVar(&c.workers, "workers", 256, "calls that may run at once")
	f.IntVar(&c.maxQueue, "max-queue", 2_000, "requests that may wait")
	f.IntVar(&c.maxTenantQueue, "max-tenant-queue", 500, "requests of one tenant that may wait")
	f.DurationVar(&c.maxWait, "max-wait", time.Minute, "longest wait for a turn")
	f.Int64Var(&c.maxBody, "max-body", 32, "largest request body, in `MiB`")
	f.Int64Var(&c.maxMemory, "max-memory", 512, "all request bodies that are held at once, in `MiB`")
	f.DurationVar(&c.drain, "drain", 30*time.Second, "how long calls may still run after SIGTERM")
	f.DurationVar(&c.shutdownDelay, "shutdown-delay", -1, "how long to take requests after SIGTERM while /readyz says 503 (default 0 on loopback, else 5s)")
	f.BoolVar(&c.rateLimitFields, "ratelimit-fields", false, "send the IETF draft's RateLimit and RateLimit-Policy too, for limits of requests")
	f.Float64Var(&c.lowerMaxTokens, "lower-max-tokens", 0, "send a max_tokens of so many `times` the length that an answer is expected to have, where a request asks for more and its provider counts what is asked for; longer answers are cut; 0 for as asked")
	f.BoolVar(&c.debug, "debug", false, "log every request")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(out, "Each flag can also be set in the environment: -max-wait as PACELINE_MAX_WAIT.")
			f.SetOutput(out)
			f.PrintDefaults()
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; everything is set by flags, see -h", f.Arg(0))
	}
	if err := fromEnvironment(f, getenv); err != nil {
		return nil, err
	}
	c.upstreamKey = getenv("OPENAI_API_KEY")
	if accounts != "" {
		var err error
		if err = notWithAccounts(f); err == nil {
			c.accounts, err = readAccounts(accounts, getenv)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.validate()
}

// notWithAccounts refuses flags that say what the file of -accounts says.
func notWithAccounts(f *flag.FlagSet) (err error) {
	f.Visit(func(fl *flag.Flag) {
		switch fl.Name {
		case "upstream", "model", "tpm", "rpm", "embed-model", "embed-tpm", "embed-rpm", "settle":
			err = fmt.Errorf("-%s can not be used with -accounts: the file has the providers, their models and their limits", fl.Name)
		}
	})
	return err
}

// fromEnvironment sets the flags that the command line did not.
func fromEnvironment(f *flag.FlagSet, getenv func(string) string) (err error) {
	given := make(map[string]bool)
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	f.VisitAll(func(fl *flag.Flag) {
		name := "PACELINE_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		if v := getenv(name); v != "" && !given[fl.Name] && err == nil {
			if e := f.Set(fl.Name, v); e != nil {
				err = fmt.Errorf("%s: %w", name, e)
			}
		}
	})
	return err
}

// mostWait and callTimeout together are less than 300 s, after which Node's fetch
// gives up without a head, whatever timeout its user set.
const mostWait = time.Minute

func (c *config) validate() error {
	loopback, err := isLoopback(c.addr)
	if err != nil {
		return err
	}
	// The simulator takes limits up to this, and nobody has more.
	const mostPerMinute = 100_000_000
	for _, v := range []struct {
		name               string
		value, least, most int64
	}{
		{"tpm", c.tpm, 1, mostPerMinute}, {"rpm", c.rpm, 1, mostPerMinute},
		{"embed-tpm", c.embedTPM, 1, mostPerMinute}, {"embed-rpm", c.embedRPM, 1, mostPerMinute},
		{"tenant-default", c.tenantDefault, 0, mostPerMinute},
		{"reserve", int64(c.reserve), 0, 90},
		{"workers", int64(c.workers), 1, 1 << 20},
		{"max-queue", int64(c.maxQueue), 1, 1 << 20}, {"max-tenant-queue", int64(c.maxTenantQueue), 1, 1 << 20},
		{"max-body", c.maxBody, 1, 1 << 20}, {"max-memory", c.maxMemory, c.maxBody, 1 << 20},
	} {
		if v.value < v.least || v.value > v.most {
			return fmt.Errorf("-%s must be from %d to %d, not %d", v.name, v.least, v.most, v.value)
		}
	}
	if c.maxWait < time.Second || c.maxWait > mostWait {
		return fmt.Errorf("-max-wait must be from 1s to %v, not %v", mostWait, c.maxWait)
	}
	if c.lowerMaxTokens != 0 && !(c.lowerMaxTokens >= 1 && c.lowerMaxTokens <= 1000) {
		return fmt.Errorf("-lower-max-tokens must be 0, or from 1 to 1000, not %v", c.lowerMaxTokens)
	}
	if c.drain < 0 {
		return fmt.Errorf("-drain must not be negative, not %v", c.drain)
	}
	if c.model == "" || c.embedModel == "" || c.model == c.embedModel {
		return errors.New("-model and -embed-model must be two names")
	}
	switch c.settle {
	case "":
		c.settle = "actual"
		if c.upstream != "" {
			// Nobody has measured that OpenAI corrects its estimate.
			c.settle = "final"
		}
	case "actual", "final":
	default:
		return fmt.Errorf("-settle must be actual or final, not %q", c.settle)
	}
	if c.shutdownDelay < 0 {
		c.shutdownDelay = 0
		if !loopback {
			c.shutdownDelay = 5 * time.Second
		}
	}
	if c.keys == "" && !loopback {
		return fmt.Errorf("-addr %s can be reached from other machines, so callers need keys: add -keys FILE, or listen on 127.0.0.1", c.addr)
	}
	where := "-upstream"
	switch _, plain := plainURL(c.upstream); {
	case c.accounts != nil:
		where = "-accounts"
	case c.upstream == "":
		return nil
	case !plain:
		return errors.New("-upstream must be a plain URL such as https://api.openai.com/v1")
	case c.upstreamKey == "":
		return errors.New("-upstream needs the provider's key in the environment: set OPENAI_API_KEY")
	}
	switch {
	case c.keys == "":
		return fmt.Errorf("%s spends money, so callers need keys: add -keys FILE", where)
	case c.faults:
		return fmt.Errorf("-faults is for the simulator and can not be used with %s", where)
	}
	return nil
}

func isLoopback(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("-addr must be HOST:PORT, not %q", addr)
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback(), nil
}

// tenantLimit is one tenant's budget of tokens per minute.
type tenantLimit struct {
	name string
	tpm  int64
}

// tenantFlag collects -tenant; the first one replaces the defaults.
type tenantFlag struct {
	limits []tenantLimit
	given  bool
}

func (t *tenantFlag) String() string {
	var parts []string
	for _, l := range t.limits {
		parts = append(parts, fmt.Sprintf("%s=%d", l.name, l.tpm))
	}
	return strings.Join(parts, ",")
}

// Set takes one limit, several with commas between, or "none".
func (t *tenantFlag) Set(text string) error {
	if !t.given {
		t.given, t.limits = true, nil
	}
	if text == "none" {
		t.limits = nil
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndexByte(part, '=')
		if i < 1 || checkTenant(part[:i]) != nil {
			return errors.New("want NAME=TPM, such as acme=40000")
		}
		tpm, err := strconv.ParseInt(part[i+1:], 10, 64)
		if err != nil || tpm < 1 || tpm > 100_000_000 {
			return errors.New("want NAME=TPM with 1 to 100000000 tokens per minute")
		}
		t.limits = append(t.limits, tenantLimit{part[:i], tpm})
	}
	return nil
}
