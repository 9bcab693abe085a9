package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paceline-go/paceline/job"
)

// scenario is a workload. Every dispatcher of the fleet has all its streams.
type scenario struct {
	name, about string
	tenants     []tenant
	streams     []stream
}

// tenant is one of those who share the limits.
type tenant struct {
	name   string
	weight int64
}

// stream is a source of jobs: a backlog, or arrivals. The tenants of its jobs are
// drawn evenly.
type stream struct {
	classes []portion
	// backlog is how much work is kept waiting, in minutes of the token limit over
	// the whole fleet. The next job is submitted when one leaves the queue.
	backlog float64
	// phases are the rates of arrivals; their times are random and independent.
	phases []phase
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

var fifthPaid = []portion{{job.Paid, 0.2}, {job.Free, 0.8}}

var scenarios = []scenario{
	{
		name: "steady", about: "every process always has work",
		tenants: equals(20),
		streams: []stream{{classes: fifthPaid, backlog: 1}},
	},
	{
		name: "surge", about: "quiet, three times the limit for 0.3 minutes, quiet",
		tenants: equals(20),
		streams: []stream{{classes: fifthPaid, phases: []phase{{2, 0.1}, {0.3, 3}, {0, 0.1}}}},
	},
}

// equals returns tenants of the same weight.
func equals(n int) []tenant {
	all := make([]tenant, n)
	for i := range all {
		all[i] = tenant{fmt.Sprintf("tenant-%02d", i), 1}
	}
	return all
}

func scenarioNamed(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("%w: no scenario %q", errUsage, name)
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
