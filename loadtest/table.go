package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// print writes the report for people.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s with %s: %d processes × %d dispatchers, %d TPM and %d RPM per %gs (%s, %s), %gs, seed %d\n\n",
		r.Scenario, r.Strategy, r.Procs, r.Dispatchers, r.Limit.TPM, r.Limit.RPM, r.MinuteS, r.Enforcer, r.Settle, r.DurationS, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, a ...any) { fmt.Fprintf(t, format+"\n", a...) }
	line("provider\taccepted %d, refused %d, %d tokens charged", r.Provider.Accepted, r.Provider.Refused, r.Provider.TokensCharged)
	line("utilisation\ttokens %.2f %%, requests %.2f %%", 100*r.Provider.Utilisation, 100*r.Provider.RequestsUtilisation)
	line("jobs\tlost %d, duplicated %d, failed %d", r.Lost, r.Duplicated, r.Failed)
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
	t.Flush()
	fmt.Fprintln(w)

	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line("class\tjobs\tdone\tshed\tunfinished\tfailed\tkilled\twait p50\tp95\tp99\tmax\ttokens\t")
	for _, c := range r.Classes {
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3fs\t%.3fs\t%.3fs\t%.3fs\t%.1f %%\t", c.Name, c.Jobs, c.Done, c.Shed, c.Unfinished, c.Failed, c.Killed,
			c.WaitS.P50, c.WaitS.P95, c.WaitS.P99, c.WaitS.Max, 100*c.TokenShare)
	}
	t.Flush()
}

func (q quantiles) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", q.P50, q.P99, q.Max)
}
