package main

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/paceline-go/paceline/dispatcher"
)

// local is a limiter in each dispatcher, for its part of the limits: the fleet
// needs nothing in common, and the part of one that has no work is lost.
type local struct{ requests, tokens *rate.Limiter }

func newLocal(s setup, sc scenario, _ shared) (strategy, error) {
	o := s.Options
	// A limiter holds its part of a minute, and at least the largest job: less
	// would never let that pass.
	part := func(limit, largest int64) *rate.Limiter {
		n := float64(limit) / float64(o.Procs*o.Dispatchers)
		return rate.NewLimiter(rate.Limit(n/o.Minute.Seconds()), max(int(n), int(largest)))
	}
	return newRival(s, sc, local{part(o.RPM, 1), part(o.TPM, o.sizes().largest().charge())}), nil
}

func (l local) pass(ctx context.Context, t *task) error {
	err := l.requests.Wait(ctx)
	if err == nil {
		err = l.tokens.WaitN(ctx, int(t.record.Charge))
	}
	if err != nil && ctx.Err() == nil {
		// It sees that it would not be in time, and does not wait for that.
		return &dispatcher.ShedError{Reason: dispatcher.Expired}
	}
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (local) run(context.Context) {}
