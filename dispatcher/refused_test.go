package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// TestRefusedJobs are those that are refused before anything is asked.
func TestRefusedJobs(t *testing.T) {
	small := &ledger.Limit{Key: "small", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, MaxCharge: 100}
	plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		if s.Model == "unknown" {
			return nil, errProvider
		}
		if s.Model == "nil" {
			return []ledger.Charge{{}}, nil
		}
		return []ledger.Charge{{Limit: small, Amount: e.Tokens()}}, nil
	})
	one := job.Estimate{Input: 1}
	for _, test := range []struct {
		name string
		spec job.Spec
		want error
	}{
		{"priority", job.Spec{Priority: 11, Estimate: one}, dispatcher.ErrSpec},
		{"negative input", job.Spec{Estimate: job.Estimate{Input: -1}}, dispatcher.ErrSpec},
		{"negative output", job.Spec{Estimate: job.Estimate{Input: 2, Output: -1}}, dispatcher.ErrSpec},
		{"no estimate, no estimator", job.Spec{}, dispatcher.ErrSpec},
		{"plan", job.Spec{Model: "unknown", Estimate: one}, errProvider},
		{"plan that can not be read", job.Spec{Model: "nil", Estimate: one}, ledger.ErrRequest},
		{"overdue", job.Spec{Deadline: time.Now().Add(-time.Second), Estimate: one}, dispatcher.ErrShed},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			d := open(t, dispatcher.Config{Ledger: a, Plan: plan})
			if _, err := d.Submit(context.Background(), test.spec, used(1)); !errors.Is(err, test.want) {
				t.Errorf("Submit: %v", err)
			}
			if _, err := dispatcher.Do(context.Background(), d, test.spec, nothing); !errors.Is(err, test.want) {
				t.Errorf("Do: %v", err)
			}
			if a.count("reserve") > 0 {
				t.Error("the ledger was asked")
			}
		})
	}
	t.Run("no function", func(t *testing.T) {
		d := open(t, dispatcher.Config{Ledger: ledger.NewMemory()})
		if _, err := d.Submit(context.Background(), spec("a", job.Paid, 1), nil); !errors.Is(err, dispatcher.ErrSpec) {
			t.Error(err)
		}
	})
	t.Run("context", func(t *testing.T) {
		d := open(t, dispatcher.Config{Ledger: ledger.NewMemory()})
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errProvider)
		if _, err := d.Submit(ctx, spec("a", job.Paid, 1), used(1)); !errors.Is(err, errProvider) {
			t.Error(err)
		}
		if _, err := dispatcher.Do(ctx, d, spec("a", job.Paid, 1), nothing); !errors.Is(err, errProvider) {
			t.Error(err)
		}
	})
	// openlimit waited for ever for more than it could ever have; redis_rate said
	// "in 5 s" for ever; litellm#23749 said nothing that a caller could act on.
	for _, tokens := range []int64{100, 101, 1001} {
		d := open(t, dispatcher.Config{Ledger: ledger.NewMemory(), Plan: plan})
		_, err := dispatcher.Do(context.Background(), d, spec("a", job.Paid, tokens), nothing)
		var large *dispatcher.TooLargeError
		if errors.As(err, &large) != (tokens > 100) {
			t.Fatalf("%d tokens: %v", tokens, err)
		}
		if large != nil && (large.Limit != small || large.Charge != tokens || !strings.Contains(err.Error(), `"small"`)) {
			t.Errorf("%+v: %v", large, err)
		}
	}
}

// A ledger may know a smaller limit than the plan does.
func TestTooLargeFromTheLedger(t *testing.T) {
	none := &ledger.Limit{Key: "none", Unit: ledger.Tokens, Window: time.Minute}
	plan := planFunc(func(*job.Spec, job.Estimate) ([]ledger.Charge, error) {
		return []ledger.Charge{{Limit: none, Amount: 0}}, nil
	})
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: plan})
		synctest.Wait()
		var large *dispatcher.TooLargeError
		if _, err := dispatcher.Do(context.Background(), d, spec("a", job.Paid, 1), nothing); !errors.As(err, &large) || large.Limit != none {
			t.Error(err)
		}
		r := <-must(t, d, spec("a", job.Paid, 1), used(1)).Result()
		if !errors.As(r.Err, &large) || large.Limit != none || r.Attempts != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A job whose id was used before is refused, and told so; the first one's budget
// stays as it is.
func TestUsedID(t *testing.T) {
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		n := new(notes)
		d := open(t, dispatcher.Config{Ledger: l, Observer: n})
		synctest.Wait()
		s := spec("a", job.Paid, 10)
		s.ID = uuid.New()
		if _, err := dispatcher.Do(context.Background(), d, s, nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		_, err := dispatcher.Do(context.Background(), d, s, nothing)
		if err == nil || !strings.Contains(err.Error(), "id") {
			t.Error(err)
		}
		if n.finished != 2 || n.started != 1 {
			t.Errorf("%d started, %d finished", n.started, n.finished)
		}
	})
}

// A far deadline is no overflow.
func TestFarDeadline(t *testing.T) {
	d := open(t, dispatcher.Config{Ledger: ledger.NewMemory(), MaxWait: 1<<63 - 1})
	for _, at := range []time.Time{{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} {
		s := spec("a", job.Paid, 1)
		s.Deadline = at
		if r := <-must(t, d, s, used(1)).Result(); r.Err != nil {
			t.Errorf("%v: %v", at, r.Err)
		}
	}
}

// The estimator is asked for jobs that bring no estimate, and not for those that
// are shed anyway.
func TestEstimator(t *testing.T) {
	e := new(counter)
	d := create(t, dispatcher.Config{Ledger: ledger.NewMemory(), Estimator: e, MaxQueue: 1})
	k := must(t, d, job.Spec{}, used(7))
	if _, err := d.Submit(context.Background(), job.Spec{}, used(7)); !errors.Is(err, dispatcher.ErrShed) {
		t.Error(err)
	}
	if e.n != 1 {
		t.Errorf("asked %d times", e.n)
	}
	if err := d.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if r := <-k.Result(); r.Estimate.Input != 7 {
		t.Errorf("%+v", r)
	}
	e.err = errProvider
	d = open(t, dispatcher.Config{Ledger: ledger.NewMemory(), Estimator: e})
	if _, err := d.Submit(context.Background(), job.Spec{}, used(7)); !errors.Is(err, errProvider) {
		t.Error(err)
	}
}

type counter struct {
	n   int
	err error
}

func (c *counter) Estimate(job.Spec) (job.Estimate, error) {
	c.n++
	return job.Estimate{Input: 7}, c.err
}
