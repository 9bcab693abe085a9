package main

import (
	"cmp"
	"math"
	"time"
)

// The bounds are the same for every strategy, so that none looks better for
// holding more.

const (
	// leastQueue is what one dispatcher may hold at least, so that each of a large
	// fleet always has work.
	leastQueue = 16
	// waitMinutes is how long a job may wait: longer than the longest queue takes.
	waitMinutes = 20
	// agingMinutes is the ageing step.
	agingMinutes = 0.5
)

// workers is how many calls may run at once in one dispatcher. It never binds a
// strategy that keeps to the limits: of the calls that run at one time, no more
// than RPM were sent in each of the minutes that the longest answer takes.
func (o options) workers() int {
	longest := o.answerTime(o.sizes().largest().output)
	return int(float64(o.RPM) * math.Ceil(float64(longest)/float64(o.Minute)))
}

// maxQueue is how many jobs may wait in one dispatcher.
func (o options) maxQueue(sc scenario) int {
	jobs := cmp.Or(sc.queue, 4) * o.jobsPerMinute(usual)
	return max(int(math.Ceil(jobs/float64(o.Procs*o.Dispatchers))), leastQueue)
}

func (o options) maxWait() time.Duration { return o.minutes(waitMinutes) }

func (o options) agingStep() time.Duration { return o.minutes(agingMinutes) }
