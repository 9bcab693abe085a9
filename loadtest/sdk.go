package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paceline-go/paceline/job"
)

// sdk tries a call again as OpenAI's SDKs do by default (openai-python,
// _base_client.py and _constants.py): twice, after half a second doubling up to
// eight, less up to a quarter, or after what the provider asks for if that is at
// most a minute. All of it scales with the provider's minute.
type sdk struct{ second time.Duration }

const sdkRetries = 2

// errGaveUp is the error of a job that was refused once more than the SDK retries.
var errGaveUp = errors.New("loadtest: refused too often")

// pause is the time before a retry, counted from 0, with a random number below 1.
func (s sdk) pause(retry int, after time.Duration, random float64) time.Duration {
	if 0 < after && after <= 60*s.second {
		return after
	}
	d := min(s.second/2<<min(retry, 4), 8*s.second)
	return d - time.Duration(float64(d)/4*random)
}

// do makes the call until it is not refused, the retries are used up or ctx ends.
func (s sdk) do(ctx context.Context, t *task, f job.Func) (r job.Result) {
	for retry := 0; ; retry++ {
		now := time.Now()
		t.begin(now, now)
		r.Attempts++
		r.Value, r.Usage, r.Err = f(ctx)
		var refused *job.RetryError
		if !errors.As(r.Err, &refused) {
			return r
		}
		if retry == sdkRetries {
			r.Err = fmt.Errorf("%w: %w", errGaveUp, r.Err)
			return r
		}
		select {
		case <-time.After(s.pause(retry, refused.After, rand.Float64())):
		case <-ctx.Done():
			r.Err = context.Cause(ctx)
			return r
		}
	}
}
