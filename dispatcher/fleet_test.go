package dispatcher_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// load is a stream of jobs that come at random times to some of the dispatchers.
type load struct {
	tenant   string
	priority job.Priority
	share    float64 // of the limit, over all dispatchers
	only     int     // the first so many dispatchers; 0: all
	size     int64   // tokens; 0: log-normal, mean 800, sigma 0.8, 50 to 8,000
	from     float64 // minute in which it begins
}

// fleet is a number of dispatchers on one ledger, in virtual time.
type fleet struct {
	dispatchers int
	minutes     float64
	loads       []load
	weight      func(string) int64
	maxWait     time.Duration
	plan        dispatcher.Plan
	step        time.Duration // 0: 30 s
}

// served is what became of one load: the waits of all jobs that came after the
// first minute, sorted, in minutes. One that was not served counts as having waited
// until the end, or until it was shed.
type served struct {
	waits        []float64
	tokens       int64
	shed, unmade int
}

func (s *served) quantile(q float64) float64 {
	if len(s.waits) == 0 {
		return 0
	}
	return s.waits[min(int(q*float64(len(s.waits))), len(s.waits)-1)]
}

// The provider's minute is 6 s, as in the load test.
const (
	fleetTPM    = 200_000
	fleetMinute = 6 * time.Second
)

type outcome struct {
	loads       []served
	utilisation float64 // of the tokens, from the second minute on
	state       ledger.LineState
	calls       float64 // of the ledger per job served
}

// counting counts the calls of a ledger that keeps the line.
type counting struct {
	*ledger.Memory
	mu    sync.Mutex
	calls int
}

func (c *counting) one() { c.mu.Lock(); c.calls++; c.mu.Unlock() }

func (c *counting) Reserve(ctx context.Context, b []ledger.Request) ([]ledger.Decision, error) {
	c.one()
	return c.Memory.Reserve(ctx, b)
}

func (c *counting) Settle(ctx context.Context, b []ledger.Settlement) error {
	c.one()
	return c.Memory.Settle(ctx, b)
}

func (c *counting) Withdraw(ctx context.Context, b []ledger.Request) error {
	c.one()
	return c.Memory.Withdraw(ctx, b)
}

func (f *fleet) run(t *testing.T) (out outcome) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	out.loads = make([]served, len(f.loads))
	synctest.Test(t, func(t *testing.T) {
		l := &counting{Memory: ledger.NewMemory()}
		plan := f.plan
		if plan == nil {
			plan = fixed{
				{Key: "tpm", Unit: ledger.Tokens, Amount: fleetTPM, Window: fleetMinute},
				{Key: "rpm", Unit: ledger.Requests, Amount: 500, Window: fleetMinute},
			}
		}
		begin := time.Now()
		end := begin.Add(time.Duration(f.minutes * float64(fleetMinute)))
		ctx, cancel := context.WithDeadline(context.Background(), end)
		defer cancel()
		var mu sync.Mutex
		var jobs, dispatchers sync.WaitGroup
		var charged int64
		var all []*dispatcher.Dispatcher
		for range f.dispatchers {
			d, err := dispatcher.New(dispatcher.Config{
				Ledger: l, Plan: plan, Weight: f.weight, MaxQueue: 400,
				AgingStep: cmp.Or(f.step, fleetMinute/2), MaxWait: cmp.Or(f.maxWait, 10*fleetMinute),
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
			dispatchers.Go(func() { _ = d.Run(context.Background()) })
		}
		for i := range f.loads {
			ld, s := f.loads[i], &out.loads[i]
			n := cmp.Or(ld.only, f.dispatchers)
			for k, d := range all[:n] {
				rng := rand.New(rand.NewPCG(seed, uint64(i*10_000+k)))
				mean := float64(cmp.Or(ld.size, 800))
				gap := float64(fleetMinute) * mean * float64(n) / (ld.share * fleetTPM)
				jobs.Go(func() {
					time.Sleep(time.Duration(ld.from * float64(fleetMinute)))
					for {
						time.Sleep(time.Duration(rng.ExpFloat64() * gap))
						if ctx.Err() != nil {
							return
						}
						size := ld.size
						if size == 0 {
							size = min(max(int64(math.Exp(rng.NormFloat64()*0.8-0.32)*800), 50), 8000)
						}
						came := time.Now()
						started := time.Time{}
						spec := job.Spec{Tenant: ld.tenant, Model: "m", Priority: ld.priority, Estimate: job.Estimate{Input: size / 2, Output: size - size/2}}
						ticket, err := d.Submit(ctx, spec, func(ctx context.Context) (any, job.Usage, error) {
							started = time.Now()
							mu.Lock()
							if started.Sub(begin) >= fleetMinute {
								charged += size
								s.tokens += size
							}
							mu.Unlock()
							time.Sleep(fleetMinute/100 + time.Duration(size/2)*fleetMinute/3000)
							return nil, job.Used(size/2, size-size/2), nil
						})
						count := func(shed bool) {
							if came.Sub(begin) < fleetMinute {
								return
							}
							if started.IsZero() {
								started = time.Now()
								s.unmade++
							}
							mu.Lock()
							defer mu.Unlock()
							if shed {
								s.shed++
							}
							s.waits = append(s.waits, float64(started.Sub(came))/float64(fleetMinute))
						}
						if err != nil {
							count(true)
							continue
						}
						jobs.Go(func() {
							r := <-ticket.Result()
							var shed *dispatcher.ShedError
							count(errors.As(r.Err, &shed))
						})
					}
				})
			}
		}
		time.Sleep(time.Until(end))
		mu.Lock()
		out.utilisation = float64(charged) / fleetTPM / (f.minutes - 1)
		mu.Unlock()
		out.state, _ = l.Inspect(ctx)
		l.mu.Lock()
		out.calls = float64(l.calls)
		l.mu.Unlock()
		jobs.Wait()
		for _, d := range all {
			_ = d.Shutdown(context.Background())
		}
		dispatchers.Wait()
	})
	served := 0
	for i := range out.loads {
		s := &out.loads[i]
		slices.Sort(s.waits)
		served += len(s.waits) - s.unmade
		t.Logf("%-8s %5d jobs, %4d shed, %4d not made, p50 %.3f p95 %.3f p99 %.3f max %.3f, %d tokens", fmt.Sprint(f.loads[i].tenant, f.loads[i].priority.Class()),
			len(s.waits), s.shed, s.unmade, s.quantile(.5), s.quantile(.95), s.quantile(.99), s.quantile(1), s.tokens)
	}
	out.calls /= float64(served)
	t.Logf("utilisation %.3f, %+v, %.2f calls per job served", out.utilisation, out.state, out.calls)
	return out
}

func TestFleetFlood(t *testing.T) {
	f := fleet{dispatchers: 4, minutes: 30, loads: []load{
		{tenant: "f", priority: job.Free, share: 3},
		{tenant: "p", priority: job.Paid, share: 0.2, only: 1},
	}}
	f.run(t)
}

func TestFleetHundred(t *testing.T) {
	f := fleet{dispatchers: 100, minutes: 30, loads: []load{
		{tenant: "f", priority: job.Free, share: 3},
		{tenant: "p", priority: job.Paid, share: 0.5},
	}}
	f.run(t)
}
