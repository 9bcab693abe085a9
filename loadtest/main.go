package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"
)

func main() {
	played, err := runRole()
	if !played {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run makes the measurements and writes their reports.
func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	runs, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	o := runs[0]
	for _, name := range []string{o.JSON, o.HTML} {
		if name == "" {
			continue
		}
		// Better now than after minutes of measuring.
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return fmt.Errorf("loadtest: %w", err)
		}
	}
	var reports []*report
	for _, o := range runs {
		p := newProgress(stderr, o)
		var r *report
		r, err = measure(ctx, o, p)
		p.clear()
		if r != nil {
			reports = append(reports, r)
			if !o.Compare {
				r.print(stdout)
			}
		}
		if err != nil {
			break // what was measured before is still worth its report
		}
	}
	if len(reports) == 0 {
		return err
	}
	for _, ratio := range relate(reports) {
		fmt.Fprintln(stdout, ratio)
	}
	if o.Compare {
		markdown(stdout, reports)
	}
	return errors.Join(err, writeJSON(o.JSON, reports, len(runs)), writeComparison(o, reports))
}

// writeJSON writes the report of the only run, or those of several as an array.
func writeJSON(name string, reports []*report, runs int) error {
	if name == "" {
		return nil
	}
	var v any = reports
	if runs == 1 {
		v = reports[0]
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	return nil
}

// measure runs the scenario. A report with an error is of a run in which a process
// ended early.
func measure(ctx context.Context, o options, p *progress) (*report, error) {
	sc, err := o.scenario()
	if err != nil {
		return nil, err
	}
	v, err := openVault(ctx, o.Ledger)
	if err != nil {
		return nil, err
	}
	defer v.close()
	j, err := startProvider(o.provider())
	if err != nil {
		return nil, err
	}
	defer j.child.stop()

	s := setup{Options: o, Ledger: v.address, LedgerName: "loadtest-" + uuid.NewString(), Provider: j.url}
	f, err := launch(s, func() (*child, error) { return spawn("worker") }, p.show)
	if err != nil {
		return nil, err
	}
	defer f.close()

	before, err := v.scripts(ctx)
	if err != nil {
		return nil, err
	}
	early := f.run(ctx)
	if early != nil && !errors.Is(early, errEarly) {
		return nil, early
	}
	ob := observed{histories: f.histories()}
	after, err := v.scripts(ctx)
	if err != nil {
		return nil, err
	}
	ob.roundTrips = after - before
	if o.Strategy == "paceline" || o.Strategy == oracle.name { // the others do not use it
		if ob.line, err = v.line(ctx, s.LedgerName); err != nil {
			return nil, err
		}
	}
	if o.InFlight > 0 {
		if ob.leasesAfter, err = v.inFlight(ctx, s.LedgerName, o.inFlightLimit()); err != nil {
			return nil, err
		}
	}
	end := f.start.Add(o.Duration)
	if ob.stats, err = j.stats(ctx, f.start.Add(2*o.Minute), end); err != nil {
		return nil, err
	}
	if o.KillAt > 0 {
		st, err := j.stats(ctx, f.start.Add(o.KillAt+o.Minute), end)
		if err != nil {
			return nil, err
		}
		ob.afterKill = st.Pools[0].TokenUtilisation
	}
	return o.report(sc, ob), early
}
