package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// changing is a plan whose limits become others.
type changing struct {
	limits  atomic.Pointer[fixed]
	version atomic.Uint64
}

func (c *changing) Charges(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
	return c.limits.Load().Charges(s, e)
}

func (c *changing) Version() uint64 { return c.version.Load() }

func (c *changing) set(limits ...*ledger.Limit) {
	f := fixed(limits)
	c.limits.Store(&f)
	c.version.Add(1)
}

// Jobs that wait are charged by the plan as it is when they are asked for, also when it
// is about other limits than before.
func TestChangedPlan(t *testing.T) {
	tpm := func(amount int64) *ledger.Limit {
		return &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: amount, Window: time.Minute, Unpaced: true}
	}
	few := &ledger.Limit{Key: "unknown", Unit: ledger.InFlight, Amount: 1}
	for name, limits := range map[string][2]*ledger.Limit{
		"a raised limit": {tpm(100), tpm(1000)},
		"other limits":   {few, tpm(1000)},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
				plan := new(changing)
				plan.set(limits[0])
				d := open(t, dispatcher.Config{Ledger: l, Plan: plan, MaxWait: 10 * time.Minute})
				var o order
				told := make(chan struct{})
				first := must(t, d, spec("t", job.Paid, 100), func(context.Context) (any, job.Usage, error) {
					<-told
					return nil, job.Used(100, 0), nil
				})
				var all []*dispatcher.Ticket
				for i := range 5 {
					time.Sleep(time.Millisecond)
					all = append(all, must(t, d, spec("t", job.Paid, 100), o.note(fmt.Sprint(i), 100)))
				}
				time.Sleep(time.Second)
				if n := len(o.get()); n != 0 {
					t.Fatalf("%d jobs were let through", n)
				}
				plan.set(limits[1])
				if b, err := a.inner.Observe(t.Context(), []ledger.Observation{{Limit: limits[1], Used: ledger.Untold}}); err != nil || len(b) != 1 {
					t.Fatal(b, err)
				}
				close(told)
				<-first.Result()
				time.Sleep(time.Second)
				if got := slices.Sorted(slices.Values(o.get())); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
					t.Errorf("served %v", got)
				}
				// What ran before is charged, too.
				b, err := a.inner.Observe(t.Context(), []ledger.Observation{{Limit: limits[1], Used: ledger.Untold}})
				if err != nil || b[0].Used != 600 {
					t.Errorf("%+v, %v, want 600 used", b, err)
				}
				for _, k := range all {
					k.Cancel()
					<-k.Result()
				}
			})
		})
	}
}

// Jobs that are charged to other limits than before leave the places in line that they
// had by the old ones: others would wait behind those.
func TestChangedPlanLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, m := new(changing), ledger.NewMemory()
		plan.set(&ledger.Limit{Key: "unknown", Unit: ledger.InFlight, Amount: 1})
		a, b := two(t, dispatcher.Config{Ledger: m, Plan: plan})
		var o turns
		must(t, a, spec("t", job.Paid, 100), o.job("long", 10*time.Second))
		for i := range 10 {
			time.Sleep(time.Millisecond)
			must(t, []*dispatcher.Dispatcher{a, b}[i%2], spec(fmt.Sprint(i/2), job.Paid, 100), o.job(fmt.Sprint(i), 0))
		}
		time.Sleep(time.Second)
		if s, _ := m.Inspect(t.Context()); s.Tickets != 10 {
			t.Fatalf("%d tickets of 10 lanes", s.Tickets)
		}
		plan.set(&ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute})
		must(t, a, spec("t", job.Paid, 100), o.job("a", 0))
		must(t, b, spec("t", job.Paid, 100), o.job("b", 0))
		time.Sleep(time.Second)
		if s, _ := m.Inspect(t.Context()); s.Tickets != 0 || len(o.order()) != 13 {
			t.Errorf("%d tickets are left in line, served %v", s.Tickets, o.order())
		}
	})
}

// A job whose limit is closed for longer than it may wait is told at once.
func TestClosedForTooLong(t *testing.T) {
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		tpm := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, Unpaced: true}
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{tpm}, MaxWait: time.Minute})
		if _, err := a.inner.Observe(t.Context(), []ledger.Observation{{Limit: tpm, Used: ledger.Untold, Close: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		r := <-must(t, d, spec("t", job.Paid, 10), used(10)).Result()
		shed, ok := errors.AsType[*dispatcher.ShedError](r.Err)
		if !ok || shed.Reason != dispatcher.Hopeless || shed.Limit != "tpm" || shed.RetryAfter < 59*time.Minute || shed.Own {
			t.Errorf("%+v", r.Err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("told after %v", took)
		}
	})
}

// A job that a closed limit sent back waits for it to open, and has as many attempts as
// before.
func TestClosedLimitCostsNoAttempt(t *testing.T) {
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		tpm := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, Unpaced: true}
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{tpm}, MaxAttempts: 2, MaxWait: 10 * time.Minute})
		calls := 0
		var o order
		refused := must(t, d, spec("t", job.Paid, 10), func(ctx context.Context) (any, job.Usage, error) {
			if calls++; calls <= 4 {
				if _, err := a.inner.Observe(ctx, []ledger.Observation{{Limit: tpm, Used: ledger.Untold, Close: time.Second}}); err != nil {
					t.Error(err)
				}
				return nil, job.Used(0, 0), &job.RetryError{Err: errors.New("429"), Closed: true}
			}
			return o.note("refused", 10)(ctx)
		})
		time.Sleep(time.Millisecond)
		later := must(t, d, spec("t", job.Paid, 10), o.note("later", 10))
		begin := time.Now()
		r := <-refused.Result()
		<-later.Result()
		if r.Err != nil || r.Attempts != 1 {
			t.Errorf("%v after %d attempts", r.Err, r.Attempts)
		}
		if took := time.Since(begin); took < 3900*time.Millisecond || took > 5*time.Second {
			t.Errorf("four refusals of a second took %v", took)
		}
		if got := o.get(); len(got) != 2 {
			t.Errorf("served %v", got)
		}
	})
}
