package dispatcher_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

var errProvider = errors.New("provider: 500")

// endings are the ways in which an attempt can end, and what each leaves in the
// budgets of a job that reserved 100 tokens.
var endings = []struct {
	name     string
	f        job.Func
	err      error
	tokens   int64
	requests int64
}{
	{"usage below the estimate comes back",
		func(context.Context) (any, job.Usage, error) { return "answer", job.Used(20, 30), nil }, nil, 50, 1},
	{"usage above the estimate is owed",
		func(context.Context) (any, job.Usage, error) { return "answer", job.Used(100, 80), nil }, nil, 180, 1},
	// Menci/Floway#66, api7/aisix#683: a stream that breaks off is settled at
	// what it used.
	{"an error with usage",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(20, 5), errProvider }, errProvider, 25, 1},
	// TensorZero kept, or gave back, what it could not know.
	{"an error without usage stands as reserved",
		func(context.Context) (any, job.Usage, error) { return nil, job.Usage{}, errProvider }, errProvider, 100, 1},
	// BerriAI/litellm#1477, #27955, #30020: a call that failed before it was
	// sent, or was answered from a cache.
	{"what was not sent costs nothing",
		func(context.Context) (any, job.Usage, error) {
			return "cached", job.Usage{Known: job.NotSent}, nil
		}, nil, 0, 0},
	{"a panic stands as reserved",
		func(context.Context) (any, job.Usage, error) { panic("boom") }, nil, 100, 1},
	{"so does a Goexit",
		func(context.Context) (any, job.Usage, error) { runtime.Goexit(); return nil, job.Usage{}, nil }, dispatcher.ErrGoexit, 100, 1},
	{"a usage that can not be is cut to what can",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(-5, 40), nil }, nil, 40, 1},
	{"and one that overflows",
		func(context.Context) (any, job.Usage, error) { return nil, job.Used(1<<62, 1<<62), nil }, nil, ledger.MaxAmount, 1},
}

// TestEndings runs every way out, through Submit and through Do.
func TestEndings(t *testing.T) {
	tokens := &ledger.Limit{Key: "tokens", Unit: ledger.Tokens, Amount: ledger.MaxAmount, Window: time.Minute, Unpaced: true}
	requests := &ledger.Limit{Key: "requests", Unit: ledger.Requests, Amount: 1000, Window: time.Minute, Unpaced: true}
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1}
	estimate := job.Estimate{Input: 60, Output: 40, Declared: true, Upper: 70, Method: "exact"}
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
				n := new(notes)
				d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{tokens, requests, flight}, Observer: n})
				synctest.Wait()
				check := func(r job.Result) {
					t.Helper()
					if e.err != nil && !errors.Is(r.Err, e.err) {
						t.Errorf("error %v, want %v", r.Err, e.err)
					}
					var p *dispatcher.PanicError
					switch panicked := strings.Contains(e.name, "panic"); {
					case errors.As(r.Err, &p) != panicked:
						t.Errorf("error %v", r.Err)
					case panicked && (p.Value != "boom" || !strings.Contains(string(p.Stack), "do_test.go")):
						t.Errorf("panic %v at\n%s", p.Value, p.Stack)
					case !panicked && e.err == nil && r.Err != nil:
						t.Errorf("error %v", r.Err)
					}
					if r.Estimate != estimate || r.Reserved != 100 || r.Attempts != 1 || r.Wait > 4*time.Millisecond {
						t.Errorf("%+v", r)
					}
					time.Sleep(10 * time.Millisecond) // a settlement may be on its way
					if got := balance(t, a.inner, tokens); got != e.tokens {
						t.Errorf("%d tokens are held, want %d", got, e.tokens)
					}
					if got := balance(t, a.inner, requests); got != e.requests {
						t.Errorf("%d requests are held, want %d", got, e.requests)
					}
					if got := balance(t, a.inner, flight); got != 0 {
						t.Errorf("%d calls are in flight", got)
					}
					if s := d.Stats(); s != (dispatcher.Stats{}) {
						t.Errorf("%+v", s)
					}
				}
				s := job.Spec{ID: uuid.New(), Tenant: "acme", Model: "m", Estimate: estimate}
				r := <-must(t, d, s, e.f).Result()
				check(r)
				seen := n.result(t, s.ID)
				if seen.Value != r.Value || seen.Usage != r.Usage || seen.Wait != r.Wait {
					t.Errorf("observed %+v, delivered %+v", seen, r)
				}
				time.Sleep(2 * time.Minute)

				s.ID = uuid.New()
				var v any
				var err error
				returned := make(chan bool, 1)
				go func() {
					ok := false
					defer func() { returned <- ok }()
					v, err = dispatcher.Do(context.Background(), d, s, e.f)
					ok = true
				}()
				if ok := <-returned; ok == errors.Is(e.err, dispatcher.ErrGoexit) {
					t.Errorf("Do returned: %v", ok)
				} else if ok && (v != r.Value || (err == nil) != (r.Err == nil)) {
					t.Errorf("Do returned %v, %v", v, err)
				}
				check(n.result(t, s.ID))
			})
		})
	}
}

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
