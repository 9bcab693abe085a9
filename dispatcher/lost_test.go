package dispatcher_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// When answers get lost nobody knows what was granted. Asking again tells, and who
// does not ask again gives back what may have been granted.
func TestLostAnswers(t *testing.T) {
	limit := perSecond("limit", 100)
	limit.Window = time.Hour
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{limit}, MaxQueue: 5})
		synctest.Wait()
		lose := func(op string) error {
			if op == "reserve" {
				return errDown
			}
			return nil
		}
		// Granted at the first ask, told at the second.
		a.after(lose)
		k := must(t, d, spec("t", job.Paid, 40), used(10))
		time.Sleep(10 * time.Millisecond)
		a.after(nil)
		if r := <-k.Result(); r.Err != nil || r.Attempts != 1 {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Millisecond)
		if n := balance(t, a.inner, limit); n != 10 {
			t.Errorf("%d tokens are held", n)
		}
		// Cancelled, or expired, before it was told; and one that Do found no place
		// for after its short way got no answer.
		a.after(lose)
		k = must(t, d, spec("t", job.Paid, 40), used(10))
		s := spec("t", job.Paid, 40)
		s.Deadline = time.Now().Add(3 * time.Second)
		late := must(t, d, s, used(10))
		time.Sleep(100 * time.Millisecond)
		k.Cancel()
		if r := <-k.Result(); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		if r := <-late.Result(); shedError(t, r.Err).Reason != dispatcher.Expired {
			t.Errorf("%+v", r)
		}
		for range 6 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 40), nothing); err == nil {
				t.Error("it ran")
			}
			cancel()
		}
		time.Sleep(time.Second)
		if n := balance(t, a.inner, limit); n != 10 {
			t.Errorf("%d tokens are held", n)
		}
		// Denied at the second ask, although the first may be under way still: it
		// is given back all the same.
		a.after(nil)
		<-must(t, d, spec("t", job.Paid, 90), used(90)).Result()
		a.after(lose)
		k = must(t, d, spec("t", job.Paid, 40), used(10))
		time.Sleep(10 * time.Millisecond)
		a.after(nil)
		time.Sleep(5 * time.Second)
		k.Cancel()
		<-k.Result()
	})
}

// The answer to Do's short way gets lost, and then there is no place in the queue.
func TestLostAnswerAndNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudit(t, ledger.NewMemory())
		d := open(t, dispatcher.Config{Ledger: direct{a}, MaxQueue: 1, AgingStep: -1, MaxWait: 3 * time.Second})
		synctest.Wait()
		var once sync.Once
		var k *dispatcher.Ticket
		a.after(func(op string) error {
			if op != "reserve" {
				return nil
			}
			once.Do(func() { k = must(t, d, spec("t", job.Paid, 5), used(5)) })
			return errDown
		})
		_, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 10), nothing)
		if e := shedError(t, err); e.Reason != dispatcher.QueueFull {
			t.Errorf("%+v", e)
		}
		a.after(nil)
		if r := <-k.Result(); r.Err != nil {
			t.Error(r.Err)
		}
		time.Sleep(time.Second)
		if n := balance(t, a.inner, wide); n != 5 {
			t.Errorf("%d tokens are held", n)
		}
	})
}

// A ledger that decides less than it was asked decides nothing.
func TestMissingDecisions(t *testing.T) {
	for _, never := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := dispatcher.Config{Ledger: mute{ledger.NewMemory()}}
			if never {
				cfg.Ledger = directMute{mute{ledger.NewMemory()}}
			}
			d := open(t, cfg)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := dispatcher.Do(ctx, d, spec("t", job.Paid, 1), nothing); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dispatcher.ErrShed) {
				t.Error(err)
			}
		})
	}
}

type mute struct{ ledger.Ledger }

type directMute struct{ mute }

func (directMute) NeverBlocks() {}

func (mute) Reserve(context.Context, []ledger.Request) ([]ledger.Decision, error) { return nil, nil }
