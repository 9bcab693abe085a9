package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/paceline-go/paceline/job"
)

// stream is a source of jobs: a backlog, or arrivals. Zero means the default.
type stream struct {
	classes []portion
	// backlog is how much work is kept waiting, in minutes of the token limit over
	// the whole fleet. The next job is submitted when one leaves the queue.
	backlog float64
	// phases are the rates of arrivals; their times are random and independent.
	phases []phase
	// home is the only process that has the stream, counted from 1; with fewer
	// processes the count goes round. 0 is all of them.
	home int
	// tenant is whose jobs they are; "" draws from all by their parts.
	tenant string
	// tokens is the size of every job; 0 draws log-normal sizes.
	tokens int64
	// trace gives sizes and times of arrival instead.
	trace *trace
}

// portion is how many of a stream's jobs are of a class; the portions of a stream
// sum to 1.
type portion struct {
	class job.Priority
	part  float64
}

// phase is a time in which jobs arrive at one rate.
type phase struct {
	minutes float64 // 0 for the rest of the load
	load    float64 // tokens in multiples of the limit, over the whole fleet
}

// in reports whether a process has the stream.
func (s stream) in(proc, procs int) bool { return s.home == 0 || proc == (s.home-1)%procs }

func (s stream) lengths() lengths {
	switch {
	case s.trace != nil:
		return s.trace.sizes
	case s.tokens > 0:
		return exactly(s.tokens)
	}
	return usual
}

// gap draws the time between two arrivals, in multiples of its mean.
func (s stream) gap(r *rand.Rand) float64 {
	if s.trace != nil {
		return s.trace.gaps.draw(r) / s.trace.gaps.mean()
	}
	return r.ExpFloat64()
}

// class draws the class of a job.
func (s stream) class(r *rand.Rand) job.Priority {
	x := r.Float64()
	for _, p := range s.classes {
		if x -= p.part; x < 0 {
			return p.class
		}
	}
	return s.classes[len(s.classes)-1].class
}

// arrival is a job that comes.
type arrival struct {
	at     time.Duration // since the start of the load
	class  job.Priority
	tenant string
	size   size
}

// arrivals are the jobs of one stream in one dispatcher. They depend on the seed,
// the scenario and the place in the fleet, and on nothing that happens: each
// strategy gets the same.
type arrivals struct {
	options options
	tenants []tenant
	stream  stream
	rng     *rand.Rand
	parts   float64 // dispatchers that have the stream
	phase   int
	at, end float64 // minutes since the start, of the last job and of the phase
}

func newArrivals(o options, sc scenario, proc, dispatcher, index int) *arrivals {
	st := sc.streams[index]
	a := &arrivals{
		options: o, tenants: sc.tenants, stream: st,
		rng:   rand.New(rand.NewPCG(o.Seed, uint64(proc)<<32|uint64(dispatcher)<<16|uint64(index))),
		parts: float64(o.Dispatchers),
		phase: -1,
	}
	if st.home == 0 {
		a.parts *= float64(o.Procs)
	}
	return a
}

// next is the next job, in the order of time; false when no more come.
func (a *arrivals) next() (arrival, bool) {
	for {
		if a.phase >= 0 {
			perMinute := a.stream.phases[a.phase].load * a.options.jobsPerMinute(a.stream.lengths()) / a.parts
			a.at += a.stream.gap(a.rng) / perMinute
			if a.at < a.end {
				return a.draw(), true
			}
		}
		// At the border of a phase the wait begins anew: it has no memory.
		a.at = a.end
		if a.phase++; a.phase == len(a.stream.phases) {
			return arrival{}, false
		}
		if m := a.stream.phases[a.phase].minutes; m > 0 {
			a.end += m
		} else {
			a.end = math.Inf(1)
		}
	}
}

// draw makes a job that comes at the present time.
func (a *arrivals) draw() arrival {
	return arrival{
		at:     a.options.minutes(a.at),
		size:   a.options.sizes().draw(a.rng, a.stream.lengths()),
		class:  a.stream.class(a.rng),
		tenant: a.tenant(),
	}
}

func (a *arrivals) tenant() string {
	if a.stream.tenant != "" {
		return a.stream.tenant
	}
	x := a.rng.Float64()
	for _, t := range a.tenants {
		if x -= t.part; x < 0 {
			return t.name
		}
	}
	return a.tenants[len(a.tenants)-1].name
}
