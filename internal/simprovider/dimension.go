package simprovider

import "time"

// The dimensions are what a provider may count against a limit of its own.
const (
	dimRequests = iota
	dimTokens   // of input alone where output has a limit of its own
	dimOutput
	dimDay // requests, in a day of 1,440 minutes
	dims
)

// byName is the order in which a refusal names what is short.
var byName = [dims]int{dimRequests, dimDay, dimTokens, dimOutput}

// amount is something of each dimension.
type amount [dims]int64

// dimension is one limit of a pool. The server's lock guards it.
type dimension struct {
	name    string
	base    int64         // the limit as configured; Unlimited for none
	limit   int64         // the limit in force
	largest int64         // that limit can become
	window  time.Duration // that limit is for
	meter   meter
	changes []change // of limit, in order of time

	refused int64 // requests for which this was short; they are in one dimension only
	charged int64
	taken   int64 // by other traffic, since the disturbance began
}

// change is a difference in the limit from some time on.
type change struct {
	at    time.Duration
	delta int64
}

// setLimit makes the limit factor times the configured one.
func (d *dimension) setLimit(now time.Duration, factor float64) {
	if d.base == Unlimited {
		return
	}
	limit := int64(factor * float64(d.base))
	limit = min(max(limit, 1), d.largest)
	if limit != d.limit {
		d.changes = append(d.changes, change{now, limit - d.limit})
		d.limit = limit
		d.meter.setLimit(now, limit)
	}
}

// budget is the time average, between two times, of what the limit allowed in the
// minute before.
func (d *dimension) budget(from, to, minute time.Duration) float64 {
	average := float64(d.base)
	for _, c := range d.changes {
		average += float64(c.delta) * (ramp(to-c.at, minute) - ramp(from-c.at, minute)) / float64(to-from)
	}
	return average * float64(minute) / float64(d.window)
}

// ramp is the integral up to x of the part of the minute before that lies after 0.
func ramp(x, minute time.Duration) float64 {
	part := float64(min(max(x, 0), minute))
	return part*part/(2*float64(minute)) + float64(max(x-minute, 0))
}
