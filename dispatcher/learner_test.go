package dispatcher_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// pupil notes what it is told.
type pupil struct {
	mu   sync.Mutex
	told []int64 // outputs
}

func (*pupil) Estimate(job.Spec) (job.Estimate, error) {
	return job.Estimate{Input: 10, Output: 10}, nil
}

func (p *pupil) Learn(s job.Spec, u job.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Request == "mine" {
		p.told = append(p.told, u.Output)
	}
}

func TestLearner(t *testing.T) {
	ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
		p := new(pupil)
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{}, Estimator: p})
		own := spec("t", job.Paid, 100)
		own.Request = "mine"
		asked := own
		asked.Estimate = job.Estimate{}
		attempts := 0
		for i, c := range []struct {
			spec job.Spec
			f    job.Func
		}{
			{asked, func(context.Context) (any, job.Usage, error) { return nil, job.Used(10, 1), nil }},
			{own, func(context.Context) (any, job.Usage, error) { return nil, job.Used(10, 2), nil }},
			{asked, func(context.Context) (any, job.Usage, error) { return nil, job.Used(10, 3), errors.New("failed") }},
			{asked, func(context.Context) (any, job.Usage, error) { return nil, job.Usage{Output: 4}, nil }},
			{asked, func(context.Context) (any, job.Usage, error) { return nil, job.Usage{Known: job.NotSent}, nil }},
			{asked, func(context.Context) (any, job.Usage, error) {
				if attempts++; attempts == 1 {
					return nil, job.Used(0, 0), &job.RetryError{Err: errors.New("refused")}
				}
				return nil, job.Used(10, 6), nil
			}},
		} {
			if i%2 == 0 {
				<-must(t, d, c.spec, c.f).Result()
			} else {
				_, _ = dispatcher.Do(t.Context(), d, c.spec, c.f)
			}
		}
		if want := []int64{1, 6}; !slices.Equal(p.told, want) {
			t.Errorf("told of %v, want %v", p.told, want)
		}
	})
}
