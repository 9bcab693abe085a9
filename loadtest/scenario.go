package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-go/paceline/job"
)

// scenario is a workload. Zero means the default that is named.
type scenario struct {
	name, about string
	tenants     []tenant
	streams     []stream
	// procs and dispatchers are the fleet's size when the flags give none: 4 and 1.
	procs, dispatchers int
	// minutes is how long the load lasts when the flags do not say: 5.
	minutes float64
	// settled is how many minutes have passed when what is measured begins: 1.
	settled float64
	// queue is how much may wait in the fleet, in minutes of the token limit: 4.
	queue float64
	// weighted scenarios take -weights.
	weighted bool
	// starving scenarios report how ageing kept its bound.
	starving bool
}

// tenant is one of those who share the limits. Of the jobs of a stream that is
// nobody's own it sends its part; the parts sum to 1.
type tenant struct {
	name   string
	weight int64
	part   float64
}

// scenarios is the table, for the weights of the three tenants of those that are
// weighted.
func scenarios(weights []int64) []scenario {
	twenty := equals(20)
	trio := weightedTrio(weights)
	return []scenario{
		{
			name: "steady", about: "every process always has work",
			tenants: twenty,
			streams: []stream{{classes: fifthPaid, backlog: 1}},
			queue:   20,
		},
		{
			name: "surge", about: "quiet, three times the limit for 0.3 minutes, quiet",
			tenants: twenty,
			streams: []stream{{classes: fifthPaid, phases: []phase{{2, 0.1}, {0.3, 3}, {0, 0.1}}}},
			queue:   20,
		},
		{
			name: "flood", about: "free work at three times the limit everywhere, paid work at a fifth of it in one process",
			tenants: twenty,
			streams: []stream{{classes: all(job.Free), phases: always(3)}, {classes: all(job.Paid), phases: always(0.2), home: 1}},
		},
		{
			name: "fleet", about: "a hundred dispatchers: free work at three times the limit, paid work at half of it",
			tenants: twenty,
			streams: []stream{{classes: all(job.Free), phases: always(3)}, {classes: all(job.Paid), phases: always(0.5)}},
			procs:   4, dispatchers: 25,
		},
		{
			name: "starve", about: "paid work at one and a half times the limit, free work at a tenth of it",
			tenants: twenty,
			streams: []stream{{classes: all(job.Paid), phases: always(1.5)}, {classes: all(job.Free), phases: always(0.1)}},
			minutes: tenBounds, starving: true,
		},
		{
			name: "tenants", about: "three tenants, with large, small and middling jobs, each at one and a half times its share",
			tenants: trio,
			streams: trioStreams(1.5*trio[0].part, 1.5*trio[1].part, 1.5*trio[2].part), weighted: true,
		},
		{
			name: "neighbours", about: "the same three; the first floods, the others stay at half their share",
			tenants: trio,
			streams: trioStreams(1.5, 0.5*trio[1].part, 0.5*trio[2].part), weighted: true,
		},
		{
			name: "aged", about: "paid work at half the limit before an endless free backlog that is overdue",
			tenants: twenty,
			streams: endless,
			minutes: tenBounds, settled: 4,
		},
		{
			name: "fresh", about: "the same, but the queues are so short that nothing in them is overdue",
			tenants: twenty,
			streams: endless,
			minutes: tenBounds, settled: 4, queue: 0.5,
		},
		{
			name: "mixed", about: "chat, code completion and batches at twice the limit, as recorded at providers",
			tenants: skewed,
			streams: []stream{
				{classes: all(job.Paid), phases: always(0.5), trace: &chat},
				{classes: all(job.Free), phases: always(1), trace: &code},
				{classes: all(job.Background), phases: always(0.5), trace: &batches},
			},
		},
	}
}

// tenBounds is ten times what free work waits behind paid work until it is
// overdue, in minutes: as long as what ageing does must be watched.
const tenBounds = 10 * (5 - 1) * agingMinutes

var (
	fifthPaid = []portion{{job.Paid, 0.2}, {job.Free, 0.8}}
	// endless free work: with four minutes of the limit in the queues it is served
	// when it is eight minutes old, with half a minute when it is one minute old.
	endless = []stream{{classes: all(job.Paid), phases: always(0.5)}, {classes: all(job.Free), phases: always(3)}}
)

func all(class job.Priority) []portion { return []portion{{class, 1}} }

// always is one rate for the whole load.
func always(load float64) []phase { return []phase{{0, load}} }

// equals returns tenants of the same weight who send the same.
func equals(n int) []tenant {
	all := make([]tenant, n)
	for i := range all {
		all[i] = tenant{fmt.Sprintf("tenant-%02d", i), 1, 1 / float64(n)}
	}
	return all
}

// weightedTrio returns three tenants whose parts are their shares.
func weightedTrio(weights []int64) []tenant {
	trio := []tenant{{name: "flooder"}, {name: "small"}, {name: "middling"}}
	var sum int64
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		trio[i].weight, trio[i].part = w, share(w, sum)
	}
	return trio
}

// trioStreams are the streams of the three: the flooder's in every process, the
// others' in one each.
func trioStreams(flooder, small, middling float64) []stream {
	return []stream{
		{classes: all(job.Free), phases: always(flooder), tenant: "flooder", tokens: 3000},
		{classes: all(job.Free), phases: always(small), tenant: "small", tokens: 300, home: 2},
		{classes: all(job.Free), phases: always(middling), tenant: "middling", tokens: 1000, home: 3},
	}
}

// scenario finds the workload that the flags name.
func (o options) scenario() (scenario, error) {
	table := scenarios(o.Weights)
	i := slices.IndexFunc(table, func(s scenario) bool { return s.name == o.Scenario })
	if i < 0 {
		return scenario{}, fmt.Errorf("%w: -scenario: there is no %q", errUsage, o.Scenario)
	}
	return table[i], nil
}

// weight is what the dispatchers are told of a tenant.
func (s scenario) weight(name string) int64 {
	for _, t := range s.tenants {
		if t.name == name {
			return t.weight
		}
	}
	return 1
}

// from is when what is measured begins.
func (s scenario) from(o options) time.Duration {
	return o.minutes(cmp.Or(s.settled, 1))
}

// surge is the first phase that ends and asks for more than the limit: what came
// in it is reported apart.
func (s scenario) surge(o options) (from, to time.Duration, ok bool) {
	for _, st := range s.streams {
		var at float64
		for _, p := range st.phases {
			if p.load > 1 && p.minutes > 0 {
				return o.minutes(at), o.minutes(at + p.minutes), true
			}
			at += p.minutes
		}
	}
	return 0, 0, false
}
