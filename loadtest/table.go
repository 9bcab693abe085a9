package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// print writes the report for people.
func (r *report) print(w io.Writer) {
	rules := fmt.Sprintf("%s, %s", r.Enforcer, r.Settle)
	if r.Imitates != "" {
		rules = "as " + r.Imitates
	}
	fmt.Fprintf(w, "%s with %s: %d processes × %d dispatchers, %d TPM and %d RPM per %gs (%s), %gs, seed %d\n\n",
		r.Scenario, r.Strategy, r.Procs, r.Dispatchers, r.Limit.TPM, r.Limit.RPM, r.MinuteS, rules, r.DurationS, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, a ...any) { fmt.Fprintf(t, format+"\n", a...) }
	line("provider\taccepted %d, refused %d, %d tokens charged", r.Provider.Accepted, r.Provider.Refused, r.Provider.TokensCharged)
	line("utilisation\ttokens %.2f %%, requests %.2f %%", 100*r.Provider.Utilisation, 100*r.Provider.RequestsUtilisation)
	if p := r.Provider; p.Refused > 0 {
		line("refusals\tat most %d in one process, the last %.2f minutes after the start", p.RefusedMost, p.RefusedLastMinutes)
	}
	if p := r.Provider; p.OthersUtilisation > 0 {
		line("others\tused %.2f %%; of the rest %.2f %% was used", 100*p.OthersUtilisation, 100*p.RestUtilisation)
	}
	line("jobs\tlost %d, duplicated %d, failed %d", r.Lost, r.Duplicated, r.Failed)
	if r.Cut > 0 {
		line("lowered caps\tcut %d answers, %.2f %%", r.Cut, 100*share(r.Cut, r.Provider.Accepted))
	}
	line("ledger\t%.2f round trips per job served", r.Ledger.RoundTripsPerJobServed)
	line("grant to sent\tat least %v", r.GrantToSentMS)
	line("grant to counted\tat most %v", r.GrantToCountedMS)
	line("guard\t%.1f ms; %d jobs surely took longer, %d perhaps", r.GuardMS, r.Late.Surely, r.Late.Perhaps)
	line("fairness\tJain %.4f over %d tenants", r.Jain, len(r.Tenants))
	if k := r.Killed; k != nil {
		line("killed\tone process at %.1fs with %d jobs, %d of them running; utilisation after it %.2f %%", k.AtS, k.Jobs, k.Running, 100*k.Utilisation)
	}
	if f := r.InFlight; f != nil {
		line("in flight\tlimit %d; %d leases left at the end", f.Limit, f.Left)
	}
	if s := r.Surge; s != nil {
		line("surge\t%d of %d jobs done; all granted %.2f minutes after its end, all done after %.2f", s.Done, s.Jobs, s.GrantedMinutes, s.DoneMinutes)
	}
	if a := r.Aged; a != nil {
		line("ageing\tfree work is overdue after %gs; waits p99 %.3fs, max %.3fs; %d were served more than %gs later or never", a.BoundS, a.P99S, a.MaxS, a.Violations, a.SlackS)
	}
	if r.Inversions != nil {
		line("line\t%d of %d grants out of order, %.2f wake-ups per job served", *r.Inversions, *r.Grants, *r.WakeupsPerJobServed)
	}
	t.Flush()
	fmt.Fprintln(w)

	printGroups(w, "class", r.Classes)
	if len(r.Tenants) <= maxTenants {
		printGroups(w, "tenant", r.tenantGroups())
	}
}

// maxTenants is how many are shown one by one.
const maxTenants = 5

func printGroups(w io.Writer, what string, groups []groupReport) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tjobs\tdone\tshed\tunfinished\tfailed\tkilled\twait p50\tp95\tp99\tmax\tin minutes p50\tp99\ttokens\t\n", what)
	for _, g := range groups {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3fs\t%.3fs\t%.3fs\t%.3fs\t%.4f\t%.4f\t%.1f %%\t\n",
			g.Name, g.Jobs, g.Done, g.Shed, g.Unfinished, g.Failed, g.Killed,
			g.WaitS.P50, g.WaitS.P95, g.WaitS.P99, g.WaitS.Max, g.WaitMinutes.P50, g.WaitMinutes.P99, 100*g.TokenShare)
	}
	t.Flush()
	fmt.Fprintln(w)
}

func (q quantiles) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", q.P50, q.P99, q.Max)
}
