package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// binMinutes is how long a time is that waits and refusals are summed up over.
	binMinutes = 0.25
	// useStep is how often the use of the budget is looked at, in minutes.
	useStep = 0.1
)

// overTime is what the plots show.
type overTime struct {
	waits    map[string][]point // p95, in minutes, by class or tenant
	use      []point            // parts of the token limit
	refusals []point            // per minute
}

// point is a value at a time in minutes of the provider; NaN for none.
type point struct{ x, y float64 }

// seriesOf works out how the figures changed during the load.
func seriesOf(o options, sc scenario, all []history) overTime {
	group := func(rec record) string { return rec.Class.String() }
	if sc.weighted {
		group = func(rec record) string { return rec.Tenant }
	}
	return overTime{waits: waitsOverTime(o, all, group), use: useOverTime(o, all), refusals: refusalsOverTime(o, all)}
}

// bin is the index of the time that an instant belongs to.
func (o options) bin(at time.Duration) int { return int(float64(at) / float64(o.Minute) / binMinutes) }

// bins is the middle of each time of the load.
func (o options) bins() []point {
	ps := make([]point, max(o.bin(o.Duration-1)+1, 1))
	for i := range ps {
		ps[i].x = (float64(i) + 0.5) * binMinutes
	}
	return ps
}

// waitsOverTime counts a job when it is granted or gives up, and with its wait so far at
// the end of each time until then: who never gets anything waits too.
func waitsOverTime(o options, all []history, group func(record) string) map[string][]point {
	waits := make(map[string][][]time.Duration)
	for _, h := range all {
		for _, rec := range h.records {
			name := group(rec)
			if waits[name] == nil {
				waits[name] = make([][]time.Duration, len(o.bins()))
			}
			wait, _ := rec.wait(h.end(o))
			first, last := o.bin(rec.Submitted), min(o.bin(rec.Submitted+wait), len(waits[name])-1)
			for bin := first; bin < last; bin++ {
				soFar := o.minutes(float64(bin+1)*binMinutes) - rec.Submitted
				waits[name][bin] = append(waits[name][bin], soFar)
			}
			if first <= last {
				waits[name][last] = append(waits[name][last], wait)
			}
		}
	}
	series := make(map[string][]point)
	for name, bins := range waits {
		ps := o.bins()
		for i, waits := range bins {
			slices.Sort(waits)
			ps[i].y = math.NaN()
			if len(waits) > 0 {
				ps[i].y = percentile(waits, 95).Seconds() / o.Minute.Seconds()
			}
		}
		series[name] = ps
	}
	return series
}

// useOverTime is what was admitted in the minute before each time, as declared.
func useOverTime(o options, all []history) []point {
	type charge struct {
		at     time.Duration
		tokens int64
	}
	var charges []charge
	for _, h := range all {
		for _, rec := range h.records {
			if rec.Counted > 0 { // it was admitted
				charges = append(charges, charge{rec.Granted + rec.Sent, rec.Charge})
			}
		}
	}
	slices.SortFunc(charges, func(a, b charge) int { return cmp.Compare(a.at, b.at) })
	var ps []point
	var sum int64
	first, next := 0, 0
	for i := 1; ; i++ {
		x := float64(i) * useStep
		now := o.minutes(x)
		if now > o.Duration {
			return ps
		}
		for ; next < len(charges) && charges[next].at <= now; next++ {
			sum += charges[next].tokens
		}
		for ; first < next && charges[first].at <= now-o.Minute; first++ {
			sum -= charges[first].tokens
		}
		ps = append(ps, point{x, share(sum, o.TPM)})
	}
}

func refusalsOverTime(o options, all []history) []point {
	ps := o.bins()
	for _, h := range all {
		for _, rec := range h.records {
			for _, at := range rec.Refused {
				if i := o.bin(at); i < len(ps) {
					ps[i].y += 1 / binMinutes
				}
			}
		}
	}
	return ps
}
