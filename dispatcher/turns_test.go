package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// turns notes which jobs were granted when.
type turns struct {
	mu    sync.Mutex
	names []string
	times []time.Time
	at    map[string]time.Time
}

// since returns when a job of that name was granted after a time.
func (o *turns) since(name string, after time.Time) (times []time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, at := range o.times {
		if o.names[i] == name && at.After(after) {
			times = append(times, at)
		}
	}
	return times
}

func (o *turns) job(name string, runs time.Duration) job.Func {
	return func(context.Context) (any, job.Usage, error) {
		o.mu.Lock()
		o.names, o.times = append(o.names, name), append(o.times, time.Now())
		if o.at == nil {
			o.at = make(map[string]time.Time)
		}
		o.at[name] = time.Now()
		o.mu.Unlock()
		time.Sleep(runs)
		return nil, job.Usage{}, nil // nobody knows: the charge stands
	}
}

func (o *turns) order() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.names)
}

func (o *turns) when(name string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.at[name]
	return at, ok
}

// two dispatchers, a and b, on one ledger.
func two(t *testing.T, cfg dispatcher.Config) (a, b *dispatcher.Dispatcher) {
	if cfg.Ledger == nil {
		cfg.Ledger = ledger.NewMemory()
	}
	return open(t, cfg), open(t, cfg)
}

func charging(limits map[string][]*ledger.Limit) planFunc {
	return func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
		var out []ledger.Charge
		for _, l := range limits[s.Model] {
			c := ledger.Charge{Limit: l, Amount: e.Tokens()}
			if l.Unit == ledger.Requests || l.Unit == ledger.InFlight {
				c.Amount = 1
			}
			out = append(out, c)
		}
		return out, nil
	}
}

func of(model, tenant string, p job.Priority, tokens int64) job.Spec {
	s := spec(tenant, p, tokens)
	s.Model = model
	return s
}

// Each of two jobs is short of what the other's limit has: neither waits for ever, and
// the more urgent one goes at the time at which its own limits allow for it.
func TestShortOfTwoLimitsCrosswise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &ledger.Limit{Key: "x", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute, Burst: 1000}
		y := &ledger.Limit{Key: "y", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute, Burst: 1000}
		a, b := two(t, dispatcher.Config{Plan: charging(map[string][]*ledger.Limit{"x": {x}, "y": {y}, "xy": {x, y}, "yx": {y, x}})})
		var o turns
		for range 3 { // both buckets are emptied, x by more
			must(t, a, of("x", "t", job.P0, 1000), o.job("x", 0))
			must(t, b, of("y", "t", job.P0, 500), o.job("y", 0))
		}
		time.Sleep(time.Second)
		begin := time.Now()
		must(t, a, of("xy", "p", job.Paid, 900), o.job("first", 0))
		time.Sleep(time.Millisecond)
		must(t, b, of("yx", "q", job.Paid, 900), o.job("second", 0))
		for i := range 30 {
			must(t, b, of("y", fmt.Sprint(i), job.Free, 50), o.job(fmt.Sprint("small", i), 0))
		}
		time.Sleep(2 * time.Minute)
		first, ok1 := o.when("first")
		second, ok2 := o.when("second")
		if !ok1 || !ok2 || !first.Before(second) || second.Sub(begin) > 50*time.Second {
			t.Errorf("first after %v, second after %v: %v", first.Sub(begin), second.Sub(begin), o.order())
		}
	})
}

// A job that needs most of the window gets it, however many small ones stream by.
func TestMostOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute}
		a, b := two(t, dispatcher.Config{Plan: fixed{l}, MaxWait: 10 * time.Minute})
		var o turns
		stop := time.Now().Add(5 * time.Minute)
		var feeding sync.WaitGroup
		for i, d := range []*dispatcher.Dispatcher{a, b} {
			feeding.Go(func() {
				for n := 0; time.Now().Before(stop); n++ {
					_, _ = d.Submit(context.Background(), spec(fmt.Sprint("t", i), job.Paid, 60), o.job(fmt.Sprint("small", i, n), 0))
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		begin := time.Now()
		must(t, a, spec("big", job.Paid, 5500), o.job("big", 0))
		time.Sleep(2 * time.Minute)
		if at, ok := o.when("big"); !ok || at.Sub(begin) > 70*time.Second {
			t.Errorf("the big job went after %v, %v", at.Sub(begin), ok)
		}
		feeding.Wait()
	})
}

// A tenant that is short of its own limit waits alone, though it is first in line.
func TestOwnLimitAtTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := &ledger.Limit{Key: "account", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute}
		own := &ledger.Limit{Key: "own", Unit: ledger.Tokens, Amount: 600, Window: time.Minute, Own: true}
		a, b := two(t, dispatcher.Config{Plan: charging(map[string][]*ledger.Limit{"m": {account}, "own": {account, own}})})
		var o turns
		for i := range 5 {
			must(t, a, of("own", "poor", job.P0, 100), o.job(fmt.Sprint("poor", i), 0))
		}
		begin := time.Now()
		for i := range 40 {
			must(t, b, of("m", "rich", job.Free, 1000), o.job(fmt.Sprint("rich", i), 0))
		}
		time.Sleep(55 * time.Second)
		if at, ok := o.when("rich39"); !ok || at.Sub(begin) > 45*time.Second {
			t.Errorf("the last of the others went after %v, %v", at.Sub(begin), ok)
		}
		if _, ok := o.when("poor4"); !ok {
			t.Error("the tenant with a limit of its own was not served")
		}
	})
}

// stalling is a ledger of a process that can be stopped: its calls do not arrive.
type stalling struct {
	*ledger.Memory
	mu     sync.Mutex
	resume chan struct{}
}

func (s *stalling) stall(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.resume = c
	time.AfterFunc(d, func() { close(c) })
}

func (s *stalling) wait() {
	s.mu.Lock()
	c := s.resume
	s.mu.Unlock()
	if c != nil {
		<-c
	}
}

func (s *stalling) Reserve(ctx context.Context, b []ledger.Request) ([]ledger.Decision, error) {
	s.wait()
	return s.Memory.Reserve(ctx, b)
}

func (s *stalling) Settle(ctx context.Context, b []ledger.Settlement) error {
	s.wait()
	return s.Memory.Settle(ctx, b)
}

// A process that dies or stalls while it is first in line costs the others a quarter
// of a second, and takes part again when it goes on.
func TestStalledAtTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute}
		m := ledger.NewMemory()
		s := &stalling{Memory: m}
		a := open(t, dispatcher.Config{Ledger: s, Plan: fixed{l}, MaxWait: 5 * time.Minute})
		b := open(t, dispatcher.Config{Ledger: m, Plan: fixed{l}, MaxWait: 5 * time.Minute})
		var o turns
		must(t, a, spec("z", job.P0, 240), o.job("all", 0))
		for i := range 8 {
			must(t, a, spec(fmt.Sprint("a", i), job.Paid, 100), o.job(fmt.Sprint("stalled", i), 0))
		}
		time.Sleep(10 * time.Millisecond)
		for i := range 20 {
			must(t, b, spec("b", job.Paid, 50), o.job(fmt.Sprint("other", i), 0))
		}
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		s.stall(30 * time.Second)
		time.Sleep(28 * time.Second)
		// 20 jobs of 50 at 98 tokens a second.
		if at, ok := o.when("other19"); !ok || at.Sub(begin) > 14*time.Second {
			t.Errorf("the other process was done after %v, %v: %v", at.Sub(begin), ok, o.order())
		}
		if slices.Contains(o.order(), "stalled0") {
			t.Error("a stalled process was served")
		}
		time.Sleep(15 * time.Second)
		if _, ok := o.when("stalled7"); !ok {
			t.Errorf("the process was not served after it went on: %v", o.order())
		}
	})
}

// A grant that is older than the guard when the call could begin goes back, for the
// provider would count the call later than the ledger does. That happens once for
// each attempt: a slow network keeps no job from being sent.
func TestStaleGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 6000, Window: 6 * time.Second} // its guard is 100 ms
		a := newAudit(t, ledger.NewMemory())
		d := open(t, dispatcher.Config{Ledger: a, Plan: fixed{l}})
		for _, slow := range []struct {
			took time.Duration
			asks int
		}{{90 * time.Millisecond, 1}, {110 * time.Millisecond, 2}} {
			asks := 0
			a.before(func(_ context.Context, op string) error {
				if op == "reserve" {
					asks++
					time.Sleep(slow.took)
				}
				return nil
			})
			ran := 0
			if _, err := dispatcher.Do(t.Context(), d, spec("t", job.Paid, 100), func(context.Context) (any, job.Usage, error) {
				ran++
				return nil, job.Used(100, 0), nil
			}); err != nil {
				t.Error(err)
			}
			r := <-must(t, d, spec("t", job.Paid, 100), used(100)).Result()
			if r.Err != nil || r.Attempts != 1 || ran != 1 || asks != 2*slow.asks {
				t.Errorf("a grant of %v: %v after %d attempts; Do ran %d times; %d reservations", slow.took, r.Err, r.Attempts, ran, asks)
			}
		}
		time.Sleep(time.Second)
		if used := balance(t, a.inner, l); used != 400 {
			t.Errorf("%d tokens used, want those of the four calls", used)
		}
	})
}

// A process whose workers are all busy does not stand in others' way.
func TestBusyAtTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 6000, Window: time.Minute}
		m := ledger.NewMemory()
		a := open(t, dispatcher.Config{Ledger: m, Plan: fixed{l}, Workers: 1, UrgentWorkers: -1, MaxWait: 5 * time.Minute})
		b := open(t, dispatcher.Config{Ledger: m, Plan: fixed{l}, MaxWait: 5 * time.Minute})
		var o turns
		must(t, a, spec("a", job.Paid, 240), o.job("long", 20*time.Second))
		time.Sleep(10 * time.Millisecond)
		must(t, a, spec("a", job.Paid, 100), o.job("behind", 0))
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		for i := range 10 {
			must(t, b, spec("b", job.Paid, 100), o.job(fmt.Sprint("other", i), 0))
		}
		time.Sleep(15 * time.Second)
		if at, ok := o.when("other9"); !ok || at.Sub(begin) > 13*time.Second {
			t.Errorf("the other process was done after %v, %v", at.Sub(begin), ok)
		}
		if s, _ := m.Inspect(t.Context()); s.Tickets != 0 {
			t.Errorf("%d tickets of a process without a worker", s.Tickets)
		}
		time.Sleep(10 * time.Second)
		if _, ok := o.when("behind"); !ok {
			t.Error("the job behind the long one was not served")
		}
	})
}

// All places in flight are held by free streams when a paid call comes: the next one
// that ends is the paid call's, in whichever process, at once.
func TestPaidCallBeforeFreeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 4}
		a, b := two(t, dispatcher.Config{Plan: charging(map[string][]*ledger.Limit{"m": {flight}}), MaxWait: 5 * time.Minute})
		var o turns
		for i := range 20 {
			must(t, a, of("m", "f", job.Free, 1), o.job(fmt.Sprint("free", i), time.Duration(10+i)*time.Second))
		}
		time.Sleep(time.Second)
		begin := time.Now()
		must(t, b, of("m", "p", job.Paid, 1), o.job("paid", time.Second))
		time.Sleep(12 * time.Second)
		if at, ok := o.when("paid"); !ok || at.Sub(begin) > 9001*time.Millisecond {
			t.Errorf("the paid call went after %v, %v: %v", at.Sub(begin), ok, o.order())
		}
		time.Sleep(3 * time.Minute)
	})
}

// What waits for one model's limit, with as many tickets as there may be, keeps nobody
// from another model, however much less urgent. They share a limit that is not short.
func TestModelsWaitApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := &ledger.Limit{Key: "account", Unit: ledger.Tokens, Amount: 6_000_000, Window: time.Minute}
		busy := &ledger.Limit{Key: "busy", Unit: ledger.Tokens, Amount: 600, Window: time.Minute, Unpaced: true}
		a, b := two(t, dispatcher.Config{Plan: charging(map[string][]*ledger.Limit{"busy": {account, busy}, "idle": {account}})})
		var o turns
		for _, p := range []job.Priority{job.Paid, job.Free} {
			for i := range 40 {
				d := []*dispatcher.Dispatcher{a, b}[i%2]
				must(t, d, of("busy", fmt.Sprint(i/2), p, 100), o.job(fmt.Sprint(p), 0))
			}
		}
		time.Sleep(time.Second)
		begin := time.Now()
		for i := range 20 {
			must(t, a, of("idle", fmt.Sprint(i), job.Free, 100), o.job(fmt.Sprint("idle", i), 0))
		}
		must(t, b, of("idle", "t", job.P9, 100), o.job("idle20", 0))
		time.Sleep(100 * time.Millisecond)
		for i := range 21 {
			if at, ok := o.when(fmt.Sprint("idle", i)); !ok || at != begin {
				t.Errorf("job %d of the idle model: after %v, %v", i, at.Sub(begin), ok)
			}
		}
		time.Sleep(70 * time.Second)
		if n := slices.Index(o.order(), fmt.Sprint(job.Free)); n >= 0 {
			t.Errorf("free work was served as number %d, before paid work", n)
		}
	})
}

// A tenant's budget for a day is spent, and another process gives some of it back.
func TestDayIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := &ledger.Limit{Key: "day", Unit: ledger.Tokens, Amount: 1000, Window: 24 * time.Hour, Unpaced: true, Own: true}
		a, b := two(t, dispatcher.Config{Plan: fixed{day}, MaxWait: time.Hour})
		var o turns
		must(t, a, spec("t", job.Paid, 1000), func(context.Context) (any, job.Usage, error) {
			time.Sleep(10 * time.Second)
			return nil, job.Used(500, 0), nil
		})
		time.Sleep(time.Second)
		must(t, b, spec("t", job.Paid, 400), o.job("waits", 0))
		time.Sleep(45 * time.Second)
		if _, ok := o.when("waits"); !ok {
			t.Error("it sleeps until tomorrow")
		}
	})
}
