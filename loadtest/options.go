package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	Provider    string  // whose accounting is imitated; "" for Enforcer and Settle
	Configured  float64 // times the true limits; 0: paceline has to learn them
	Others      int     // percent of each limit that somebody else uses
	Jitter      time.Duration
	RPM, TPM    int64
	InFlight    int64 // 0 for no limit
	Minute      time.Duration
	Duration    time.Duration
	KillAt      time.Duration // 0 for never
	Cap         int64         // 0 for a part of the job
	OutputMean  float64       // 0 for as long as the cap
	Outputs     string        // declared or chat
	Expect      string        // what paceline reserves for an answer: cap, learnt or exact
	LowerCaps   float64       // times what is expected; 0 for as declared
	Weights     []int64       // of the three tenants
	Reserve     int           // percent of the token rate, for paid work
	Seed        uint64
	Compare     bool
	HTML        string
	SVG         string
	JSON        string
	Quiet       bool
}

// errUsage is wrapped by every complaint about the flags.
var errUsage = errors.New("loadtest: bad flags")

// parseOptions reads the flags, and returns the options of each run that they ask
// for. The flag package writes its own complaints, and the help, to w.
func parseOptions(args []string, w io.Writer) ([]options, error) {
	var o options
	f := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	f.SetOutput(w)
	o.Weights = []int64{1, 1, 1}
	f.StringVar(&o.Scenario, "scenario", "steady", "`workload`, or several separated by commas:"+list(scenarios(o.Weights), func(s scenario) (string, string) { return s.name, s.about }))
	f.StringVar(&o.Strategy, "strategy", "paceline", "`how` the limits are kept:"+list(allStrategies(), func(s namedStrategy) (string, string) { return s.name, s.about }))
	f.BoolVar(&o.Compare, "compare", false, "run every strategy, write a page with plots, and print a Markdown table")
	f.StringVar(&o.HTML, "html", "", "`file` for the page of a comparison (default compare.html)")
	f.StringVar(&o.SVG, "svg", "", "`file` for the first plot of a comparison by itself")
	f.IntVar(&o.Procs, "procs", 0, "processes; 0 for as many as the scenario has, mostly 4")
	f.IntVar(&o.Dispatchers, "dispatchers", 0, "dispatchers in each process; 0 for as many as the scenario has, mostly 1")
	f.StringVar(&o.Ledger, "ledger", "auto", "`address` of the shared ledger, redis://host:port; auto starts a redis-server")
	f.StringVar((*string)(&o.Enforcer), "enforcer", "sliding", "how the provider enforces: bucket, fixed, sliding, azure")
	f.StringVar((*string)(&o.Settle), "settle", "final", "what becomes of the provider's charge: final, actual, produced")
	f.StringVar(&o.Provider, "provider", "", "`whose` own accounting and words the provider has, instead of -enforcer and -settle: openai, azure, anthropic, bedrock, groq; -tpm is then what it limits by the minute, input tokens at anthropic")
	f.Float64Var(&o.Configured, "configured", 1, "`times` the true limits that paceline is configured with, to see it learn them; 0 for no limits at all; wants -provider")
	f.IntVar(&o.Others, "others", 0, "`percent` of each limit that other traffic on the same account uses; wants -provider")
	f.DurationVar(&o.Jitter, "jitter", 0, "the longest way to the provider, and back, in which every request is delayed at random")
	f.Int64Var(&o.TPM, "tpm", 200_000, "tokens per minute")
	f.Int64Var(&o.RPM, "rpm", 500, "requests per minute")
	f.Int64Var(&o.InFlight, "inflight", 0, "limit of calls in flight, which only paceline keeps; 0 for none")
	f.DurationVar(&o.Minute, "minute", time.Minute, "how long the provider's minute lasts")
	f.DurationVar(&o.Duration, "duration", 0, "how long the load lasts; 0 for as long as the scenario does, five to twenty minutes of the provider")
	f.DurationVar(&o.KillAt, "kill-at", 0, "when one process is killed (kill -9); 0 for never")
	f.Int64Var(&o.Cap, "cap", 0, "output tokens that every job declares; 0 for 30 % of the job")
	f.Float64Var(&o.OutputMean, "output-mean", 0, "mean length of the answers in tokens; 0 for as long as declared")
	f.StringVar(&o.Outputs, "outputs", "declared", "how long the answers are: declared, or chat as recorded at a provider, mean 211 tokens")
	f.StringVar(&o.Expect, "expect", "", "what paceline reserves for an answer: cap, learnt, exact (default learnt where the provider does not count caps and -outputs or -output-mean makes answers shorter than -cap, else cap)")
	f.Float64Var(&o.LowerCaps, "lower-caps", 0, "send a cap of so many `times` the length that an answer is expected to have, when a job declares more; 0 for the declared one")
	f.Func("weights", "`weights` of the three tenants in tenants and neighbours, the flooder first (default 1:1:1)", func(text string) (err error) {
		o.Weights, err = parseWeights(text)
		return err
	})
	f.IntVar(&o.Reserve, "reserve", 0, "`percent` of the token rate that paceline keeps for paid work; 0 for none")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything random in the workload")
	f.StringVar(&o.JSON, "json", "", "`file` for the report in JSON; an array of several runs")
	f.BoolVar(&o.Quiet, "quiet", false, "show no progress")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	given := make(map[string]bool)
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%w: unexpected %q", errUsage, f.Arg(0))
	case o.Compare && given["strategy"]:
		return nil, fmt.Errorf("%w: -compare runs every strategy; leave -strategy out", errUsage)
	case o.Provider != "" && (given["enforcer"] || given["settle"]):
		return nil, fmt.Errorf("%w: -provider has its own rules; leave -enforcer and -settle out", errUsage)
	case (o.HTML != "" || o.SVG != "") && !o.Compare:
		return nil, fmt.Errorf("%w: -html and -svg are of a comparison: they want -compare", errUsage)
	case o.Compare && o.HTML == "":
		o.HTML = "compare.html"
	}
	var runs []options
	for name := range strings.SplitSeq(o.Scenario, ",") {
		o.Scenario = name
		run, err := o.filled(given["weights"])
		if err != nil {
			return nil, err
		}
		if !o.Compare {
			runs = append(runs, run)
			continue
		}
		for _, s := range strategies {
			run.Strategy = s.name
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// parseWeights reads three weights, as in 4:2:1.
func parseWeights(text string) ([]int64, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, errors.New("three numbers are wanted, as in 4:2:1")
	}
	var weights []int64
	for _, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 1 || n > maxWeight {
			return nil, fmt.Errorf("%q is not a number from 1 to %d", part, maxWeight)
		}
		weights = append(weights, n)
	}
	return weights, nil
}

// maxWeight keeps shares to something that a few minutes can show.
const maxWeight = 1000

func list[T any](all []T, line func(T) (name, about string)) string {
	var b strings.Builder
	for _, v := range all {
		name, about := line(v)
		b.WriteString("\n  " + name + ", " + about)
	}
	return b.String()
}

// filled gives what the flags left open the values of the scenario, and checks the
// whole.
func (o options) filled(weights bool) (options, error) {
	bad := func(format string, a ...any) (options, error) {
		return options{}, fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, a...))
	}
	sc, err := o.scenario()
	if err != nil {
		return options{}, err
	}
	if weights && !sc.weighted {
		return bad("-weights is for tenants and neighbours, not for %s", sc.name)
	}
	o.Procs = cmp.Or(o.Procs, sc.procs, 4)
	o.Dispatchers = cmp.Or(o.Dispatchers, sc.dispatchers, 1)
	if o.Minute < 100*time.Millisecond || o.Minute > time.Minute {
		return bad("-minute must be from 100ms to 1m, not %v", o.Minute)
	}
	if o.Duration == 0 {
		o.Duration = o.minutes(cmp.Or(sc.minutes, 5))
	}
	least := max(2*o.Minute, sc.from(o))
	largest := o.sizes().largest()
	switch {
	case !slices.ContainsFunc(allStrategies(), func(s namedStrategy) bool { return s.name == o.Strategy }):
		return bad("-strategy: there is no %q", o.Strategy)
	case o.Procs < 1:
		return bad("-procs must be at least 1, not %d", o.Procs)
	case o.Dispatchers < 1 || o.Dispatchers > maxDispatchers:
		return bad("-dispatchers must be from 1 to %d, not %d", maxDispatchers, o.Dispatchers)
	case !slices.Contains([]simprovider.Rule{simprovider.Bucket, simprovider.Fixed, simprovider.Sliding, simprovider.Azure}, o.Enforcer):
		return bad("-enforcer: there is no %q", o.Enforcer)
	case o.Provider != "" && o.imitation() == nil:
		return bad("-provider: there is no %q", o.Provider)
	case !slices.Contains([]simprovider.Settle{simprovider.Final, simprovider.Actual, simprovider.Produced}, o.Settle):
		return bad("-settle: there is no %q", o.Settle)
	case o.Provider == "" && (o.Configured != 1 || o.Others != 0):
		return bad("-configured and -others want -provider, whose answers paceline listens to")
	case !(o.Configured >= 0 && o.Configured <= 100):
		return bad("-configured must be from 0 to 100, not %g", o.Configured)
	case o.Others < 0 || o.Others > 90:
		return bad("-others must be from 0 to 90 percent, not %d", o.Others)
	case o.Jitter < 0 || o.Jitter > 10*time.Second:
		return bad("-jitter must be from 0 to 10s, not %v", o.Jitter)
	case o.RPM < 6 || o.RPM > maxLimit:
		return bad("-rpm must be from 6 to %d, not %d", maxLimit, o.RPM)
	case o.Cap < 0 || o.Cap > maxLimit:
		return bad("-cap must be from 0 to %d, not %d", maxLimit, o.Cap)
	case o.TPM < 4*largest.charge() || o.TPM > maxLimit:
		return bad("-tpm must be from %d to %d, not %d: a job may cost %d tokens, and at most a quarter of the limit",
			4*largest.charge(), maxLimit, o.TPM, largest.charge())
	case o.Reserve < 0 || o.Reserve > 90:
		return bad("-reserve must be from 0 to 90 percent, not %d", o.Reserve)
	case o.InFlight < 0:
		return bad("-inflight must not be negative, not %d", o.InFlight)
	case !(o.OutputMean >= 0 && o.OutputMean <= maxLimit):
		return bad("-output-mean must be from 0 to %d, not %g", maxLimit, o.OutputMean)
	case o.Outputs != "declared" && o.Outputs != "chat":
		return bad("-outputs: there is no %q", o.Outputs)
	case o.Outputs == "chat" && o.OutputMean > 0:
		return bad("-outputs chat has its own lengths; leave -output-mean out")
	case !slices.Contains([]string{"", "cap", "learnt", "exact"}, o.Expect):
		return bad("-expect: there is no %q", o.Expect)
	case !(o.LowerCaps == 0 || o.LowerCaps >= 1 && o.LowerCaps <= 100):
		return bad("-lower-caps must be 0 or from 1 to 100, not %g", o.LowerCaps)
	case o.Strategy == oracle.name && o.Expect != "" && o.Expect != "exact":
		return bad("-strategy oracle expects exact lengths; leave -expect out")
	case o.Duration <= least:
		return bad("-duration must be more than %v, not %v: the scenario is measured from then on", least, o.Duration)
	case o.KillAt < 0 || o.KillAt >= o.Duration:
		return bad("-kill-at must be before the end of the load, not %v", o.KillAt)
	case o.KillAt > 0 && o.Procs < 2:
		return bad("-kill-at wants a second process, which goes on")
	}
	holds := o.Settle != simprovider.Produced
	if o.Provider != "" {
		holds = o.profile().ReservesOutput()
	}
	switch {
	case o.Strategy == oracle.name:
		o.Expect = "exact"
	case o.Expect == "" && !holds && o.Cap > 0 && (o.Outputs == "chat" || o.OutputMean > 0):
		o.Expect = "learnt"
	case o.Expect == "":
		o.Expect = "cap"
	}
	if holds && o.Expect == "exact" {
		o.Expect = "cap" // the provider holds the cap until the end, and whoever reserves less is refused
	}
	if _, err := simprovider.New(o.provider()); err != nil {
		return options{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	return o, nil
}

const (
	maxLimit       = 100_000_000 // what the provider takes
	maxDispatchers = 1 << 16     // the seeds count them in 16 bits
)

// minutes is a number of the provider's minutes.
func (o options) minutes(n float64) time.Duration {
	return time.Duration(n * float64(o.Minute))
}

// jobsPerMinute is how many jobs of such lengths the token limit holds.
func (o options) jobsPerMinute(l lengths) float64 { return float64(o.TPM) / o.sizes().meanCharge(l) }
