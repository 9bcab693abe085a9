package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// again is a refusal by the provider, as a transport would wrap it.
func again(after time.Duration) error {
	return fmt.Errorf("chat: %w", &job.RetryError{Err: errProvider, After: after})
}

// hibiken/asynq#1079: a job that was sent back went to the end of a long queue.
func TestRetryKeepsThePlace(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{0, "[a a b c d e]"},
		{100 * time.Millisecond, "[a b a c d e]"},
		{1500 * time.Millisecond, "[a b c a d e]"}, // b and c took a second each
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
				d := open(t, dispatcher.Config{Ledger: l, Workers: 1, UrgentWorkers: -1})
				var o order
				tried := false
				var tickets []*dispatcher.Ticket
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					note := o.note(name, 1)
					tickets = append(tickets, must(t, d, spec("t", job.Paid, 1), func(ctx context.Context) (any, job.Usage, error) {
						v, u, err := note(ctx)
						if name == "a" && !tried {
							tried = true
							return nil, job.Usage{}, again(test.after)
						}
						time.Sleep(time.Second)
						return v, u, err
					}))
				}
				for _, k := range tickets {
					if r := <-k.Result(); r.Err != nil {
						t.Error(r.Err)
					}
				}
				if got := fmt.Sprint(o.get()); got != test.want {
					t.Errorf("%v, want %v", got, test.want)
				}
			})
		})
	}
}

// BerriAI/litellm#7669: all the attempts were gone in milliseconds. The provider's
// time is kept, attempts are bounded, each has a reservation of its own, and each
// is settled.
func TestRetryBounds(t *testing.T) {
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		n := new(notes)
		d := open(t, dispatcher.Config{Ledger: l, MaxAttempts: 4, Observer: n})
		synctest.Wait()
		var at []time.Duration
		start := time.Now()
		f := func(context.Context) (any, job.Usage, error) {
			at = append(at, time.Since(start).Round(100*time.Millisecond))
			return nil, job.Used(1, 0), again(time.Duration(len(at)) * time.Second)
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}
		var retry *job.RetryError

		r := <-must(t, d, spec("t", job.Paid, 5), f).Result()
		if !slices.Equal(at, want) || r.Attempts != 4 || !errors.As(r.Err, &retry) || !errors.Is(r.Err, errProvider) {
			t.Errorf("attempts at %v: %+v", at, r)
		}
		if r.Wait < 6*time.Second || r.Usage != job.Used(1, 0) {
			t.Errorf("%+v", r)
		}

		at, start = nil, time.Now()
		_, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 5), f)
		if !slices.Equal(at, want) || !errors.As(err, &retry) {
			t.Errorf("attempts at %v: %v", at, err)
		}
		if n.started != 8 || n.finished != 2 || n.shed != 0 {
			t.Errorf("%d started, %d finished, %d shed", n.started, n.finished, n.shed)
		}
		time.Sleep(10 * time.Millisecond)
		if len(a.ids) != 8 || balance(t, a.inner, wide) != 8 {
			t.Errorf("%d reservations, %d tokens", len(a.ids), balance(t, a.inner, wide))
		}
	})
}

// diegosouzapw/OmniRoute#495: jobs hung for hours on a provider that said "in two
// hours". Those that can not wait that long are told now.
func TestRetryBeyondTheDeadline(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Hour, time.Minute, math.MaxInt64} {
		ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
			d := open(t, dispatcher.Config{Ledger: l})
			start := time.Now()
			r := <-must(t, d, spec("t", job.Paid, 1), func(context.Context) (any, job.Usage, error) {
				return nil, job.Usage{}, again(after)
			}).Result()
			var retry *job.RetryError
			if !errors.As(r.Err, &retry) || retry.After != after || r.Attempts != 1 || time.Since(start) > time.Second {
				t.Errorf("after %v: %+v", time.Since(start), r)
			}
		})
	}
}

// A job that leaves while it waits for its next attempt tells what it did before.
func TestLeavesBetweenAttempts(t *testing.T) {
	first := job.Used(3, 4)
	for _, test := range []struct {
		name   string
		leave  func(d *dispatcher.Dispatcher, k *dispatcher.Ticket)
		after  time.Duration
		reason dispatcher.Reason
		err    error
	}{
		{"cancel", func(_ *dispatcher.Dispatcher, k *dispatcher.Ticket) { k.Cancel(); k.Cancel() }, time.Second, 0, context.Canceled},
		{"shutdown", func(d *dispatcher.Dispatcher, _ *dispatcher.Ticket) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = d.Shutdown(ctx)
		}, time.Second, dispatcher.Closing, dispatcher.ErrShed},
		{"deadline", func(*dispatcher.Dispatcher, *dispatcher.Ticket) {}, 3 * time.Second, dispatcher.Expired, dispatcher.ErrShed},
	} {
		t.Run(test.name, func(t *testing.T) {
			ways(t, func(t *testing.T, _ *audit, l ledger.Ledger) {
				n := new(notes)
				limit := perSecond("limit", 10)
				limit.Window = time.Minute
				d := open(t, dispatcher.Config{Ledger: l, Observer: n, Plan: fixed{limit}, MaxWait: 5 * time.Second, AgingStep: -1})
				s := spec("t", job.Paid, 10)
				s.ID = uuid.New()
				k := must(t, d, s, func(context.Context) (any, job.Usage, error) {
					return nil, first, again(test.after) // and then there is no budget left
				})
				time.Sleep(500 * time.Millisecond)
				if s := d.Stats(); s.Waiting != [10]int{1: 1} || s.Running != 0 {
					t.Errorf("between attempts: %+v", s)
				}
				start := time.Now()
				test.leave(d, k)
				r := <-k.Result()
				if !errors.Is(r.Err, test.err) || r.Attempts != 1 || r.Usage != first {
					t.Errorf("%+v", r)
				}
				var shed *dispatcher.ShedError
				if errors.As(r.Err, &shed) && shed.Reason != test.reason {
					t.Error(r.Err)
				}
				if test.name != "deadline" && time.Since(start) > 0 {
					t.Errorf("it took %v", time.Since(start))
				}
				n.result(t, s.ID)
				if sheds := n.shed; (sheds == 1) != (shed != nil) {
					t.Errorf("observed %d times as shed", sheds)
				}
			})
		})
	}
}
