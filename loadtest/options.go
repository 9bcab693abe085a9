package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
)

// options are the flags. They travel to the workers as they are.
type options struct {
	Scenario    string
	Strategy    string
	Procs       int
	Dispatchers int // per process
	Ledger      string
	Enforcer    simprovider.Rule
	Settle      simprovider.Settle
	RPM, TPM    int64
	InFlight    int64 // 0 for no limit
	Minute      time.Duration
	Duration    time.Duration
	KillAt      time.Duration // 0 for never
	Cap         int64         // 0 for a part of the job
	OutputMean  float64       // 0 for as long as the cap
	Seed        uint64
	JSON        string
	Quiet       bool
}

// errUsage is wrapped by every complaint about the flags.
var errUsage = errors.New("loadtest: bad flags")

// parseOptions reads the flags. The flag package writes its own complaints, and
// the help, to w.
func parseOptions(args []string, w io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&o.Scenario, "scenario", "steady", "workload:"+list(scenarios, func(s scenario) string { return s.name + ", " + s.about }))
	f.StringVar(&o.Strategy, "strategy", "paceline", "how the limits are kept: "+strings.Join(slices.Sorted(maps.Keys(strategies)), ", "))
	f.IntVar(&o.Procs, "procs", 4, "processes")
	f.IntVar(&o.Dispatchers, "dispatchers", 1, "dispatchers in each process")
	f.StringVar(&o.Ledger, "ledger", "auto", "`address` of the shared ledger, redis://host:port; auto starts a redis-server")
	f.StringVar((*string)(&o.Enforcer), "enforcer", "sliding", "how the provider enforces: bucket, fixed, sliding, azure")
	f.StringVar((*string)(&o.Settle), "settle", "final", "what becomes of the provider's charge: final, actual, produced")
	f.Int64Var(&o.TPM, "tpm", 200_000, "tokens per minute")
	f.Int64Var(&o.RPM, "rpm", 500, "requests per minute")
	f.Int64Var(&o.InFlight, "inflight", 0, "limit of calls in flight; 0 for none")
	f.DurationVar(&o.Minute, "minute", time.Minute, "how long the provider's minute lasts")
	f.DurationVar(&o.Duration, "duration", 0, "how long the load lasts; 0 for five minutes of the provider")
	f.DurationVar(&o.KillAt, "kill-at", 0, "when one process is killed (kill -9); 0 for never")
	f.Int64Var(&o.Cap, "cap", 0, "output tokens that every job declares; 0 for 30 % of the job")
	f.Float64Var(&o.OutputMean, "output-mean", 0, "mean length of the answers in tokens; 0 for as long as declared")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything random")
	f.StringVar(&o.JSON, "json", "", "`file` for the report in JSON")
	f.BoolVar(&o.Quiet, "quiet", false, "show no progress")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected %q", errUsage, f.Arg(0))
	}
	if o.Duration == 0 {
		o.Duration = 5 * o.Minute
	}
	return o, o.validate()
}

func list[T any](all []T, line func(T) string) string {
	var b strings.Builder
	for _, v := range all {
		b.WriteString("\n  " + line(v))
	}
	return b.String()
}

func (o options) validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, a...))
	}
	largest := o.sizes().largest()
	switch {
	case strategies[o.Strategy] == nil:
		return bad("no strategy %q", o.Strategy)
	case o.Procs < 1 || o.Dispatchers < 1:
		return bad("-procs and -dispatchers must be at least 1")
	case o.Duration <= 2*o.Minute:
		return bad("-duration must be more than two of -minute, not %v: utilisation is measured after the second", o.Duration)
	case o.KillAt < 0 || o.KillAt >= o.Duration:
		return bad("-kill-at must be before the end of the load, not %v", o.KillAt)
	case o.KillAt > 0 && o.Procs < 2:
		return bad("-kill-at wants a second process, which goes on")
	case o.InFlight < 0 || o.Cap < 0 || o.OutputMean < 0:
		return bad("-inflight, -cap and -output-mean must not be negative")
	case o.TPM < 4*largest.charge():
		return bad("-tpm must be at least %d: a job may cost %d tokens, and at most a quarter of the limit", 4*largest.charge(), largest.charge())
	}
	if _, err := scenarioNamed(o.Scenario); err != nil {
		return err
	}
	if _, err := simprovider.New(o.provider()); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

// minutes is a number of the provider's minutes.
func (o options) minutes(n float64) time.Duration {
	return time.Duration(n * float64(o.Minute))
}

// jobsPerMinute is how many jobs of mean size the token limit holds.
func (o options) jobsPerMinute() float64 { return float64(o.TPM) / o.sizes().meanCharge() }
