package dispatcher_test

import (
	"cmp"
	"context"
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
	"github.com/paceline-go/paceline/provider"
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

func (c *counting) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.calls }

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

// arrival is a job that came.
type arrival struct {
	load        int
	size        int64
	at, started time.Time
	ticket      *dispatcher.Ticket
	shed        bool // at once
}

// draw returns the size of the next job.
func (ld *load) draw(rng *rand.Rand) int64 {
	if ld.size > 0 {
		return ld.size
	}
	return min(max(int64(math.Exp(rng.NormFloat64()*0.8-0.32)*800), 50), 8000)
}

func (ld *load) spec(size int64) job.Spec {
	return job.Spec{Tenant: ld.tenant, Model: "m", Priority: ld.priority, Estimate: job.Estimate{Input: size / 2, Output: size - size/2}}
}

// count adds what became of a job until the end.
func (s *served) count(a *arrival, begin, end time.Time) {
	first := begin.Add(fleetMinute)
	if !a.started.IsZero() && !a.started.Before(first) {
		s.tokens += a.size
	}
	if a.at.Before(first) {
		return
	}
	until := a.started
	if until.IsZero() {
		s.unmade++
		until = end
		if a.shed {
			s.shed++
		} else {
			select {
			case <-a.ticket.Result(): // evicted, or its time was over
				s.shed++
			default:
			}
		}
	}
	s.waits = append(s.waits, float64(until.Sub(a.at))/float64(fleetMinute))
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
		var mu sync.Mutex // guards what jobs write
		var feeding, dispatchers sync.WaitGroup
		var all []*dispatcher.Dispatcher
		for range f.dispatchers {
			d, err := dispatcher.New(dispatcher.Config{
				Ledger: l, Plan: plan, Weight: f.weight, MaxQueue: 200,
				AgingStep: cmp.Or(f.step, fleetMinute/2), MaxWait: cmp.Or(f.maxWait, 10*fleetMinute),
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
			dispatchers.Go(func() { _ = d.Run(context.Background()) })
		}
		var came []*arrival
		for i, ld := range f.loads {
			n := cmp.Or(ld.only, f.dispatchers)
			for k, d := range all[:n] {
				rng := rand.New(rand.NewPCG(seed, uint64(i*10_000+k)))
				gap := float64(fleetMinute) * float64(cmp.Or(ld.size, 800)) * float64(n) / (ld.share * fleetTPM)
				feeding.Go(func() {
					time.Sleep(time.Duration(ld.from * float64(fleetMinute)))
					for {
						time.Sleep(min(time.Duration(rng.ExpFloat64()*gap), time.Until(end)))
						if !time.Now().Before(end) {
							return
						}
						a := &arrival{load: i, size: ld.draw(rng), at: time.Now()}
						var err error
						a.ticket, err = d.Submit(context.Background(), ld.spec(a.size), func(ctx context.Context) (any, job.Usage, error) {
							mu.Lock()
							a.started = time.Now()
							mu.Unlock()
							select {
							case <-time.After(fleetMinute/100 + time.Duration(a.size/2)*fleetMinute/3000):
							case <-ctx.Done():
							}
							return nil, job.Used(a.size/2, a.size-a.size/2), nil
						})
						a.shed = err != nil
						mu.Lock()
						came = append(came, a)
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(fleetMinute)
		before := l.count()
		time.Sleep(time.Until(end))
		feeding.Wait()
		out.state, _ = l.Inspect(context.Background())
		out.calls = float64(l.count() - before)
		mu.Lock()
		for _, a := range came {
			out.loads[a.load].count(a, begin, end)
		}
		mu.Unlock()
		for i := range out.loads {
			out.utilisation += float64(out.loads[i].tokens) / fleetTPM / (f.minutes - 1)
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for _, d := range all {
			_ = d.Shutdown(over)
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

// bars checks what every fleet keeps: it uses the budget, in order.
func (o *outcome) bars(t *testing.T, calls float64) {
	t.Helper()
	if o.utilisation < 0.95 {
		t.Errorf("utilisation %.3f", o.utilisation)
	}
	if o.state.Inversions > 0 {
		t.Errorf("%d grants out of order", o.state.Inversions)
	}
	if o.calls > calls {
		t.Errorf("%.1f calls of the ledger per job", o.calls)
	}
	for i := range o.loads {
		if o.loads[i].tokens == 0 {
			t.Errorf("load %d was not served at all", i)
		}
	}
}

// A free flood in every process, paid work in one only. A shared bucket that every
// process polls lets the paid calls wait for a minute here.
func TestFleetFlood(t *testing.T) {
	f := fleet{dispatchers: 4, minutes: 15, loads: []load{
		{tenant: "f", priority: job.Free, share: 3},
		{tenant: "p", priority: job.Paid, share: 0.2, only: 1},
	}}
	o := f.run(t)
	o.bars(t, 6)
	if p := o.loads[1]; p.quantile(.95) > 0.05 || p.shed > 0 {
		t.Errorf("paid p95 %.3f minutes, %d shed", p.quantile(.95), p.shed)
	}
}

// With a reserve urgent work finds room at once.
func TestFleetReserve(t *testing.T) {
	plan, err := provider.NewPlan(provider.PlanConfig{Rules: []provider.Rule{
		{
			Limit:    ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: fleetTPM, Window: fleetMinute},
			Reserves: []provider.Reserve{{For: job.Paid, Percent: 2}},
		},
		{Limit: ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 500, Window: fleetMinute}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := fleet{dispatchers: 4, minutes: 15, plan: plan, loads: []load{
		{tenant: "f", priority: job.Free, share: 3},
		{tenant: "p", priority: job.Paid, share: 0.2, only: 1},
	}}
	o := f.run(t)
	if p := o.loads[1]; p.quantile(.95) > 0.01 || o.utilisation < 0.93 {
		t.Errorf("paid p95 %.3f minutes, utilisation %.3f", p.quantile(.95), o.utilisation)
	}
}

// Many dispatchers, each with little of each kind.
func TestFleetOfMany(t *testing.T) {
	for _, n := range []int{100, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := fleet{dispatchers: n, minutes: 8, loads: []load{
				{tenant: "f", priority: job.Free, share: 3},
				{tenant: "p", priority: job.Paid, share: 0.5},
			}}
			o := f.run(t)
			o.bars(t, 6)
			if p := o.loads[1]; p.quantile(.95) > 0.05 || p.shed > 0 {
				t.Errorf("paid p95 %.3f minutes, %d shed", p.quantile(.95), p.shed)
			}
		})
	}
}

// Too much paid work does not starve the free: it waits for its ageing bound, two
// minutes here, and takes no more than its share.
func TestFleetStarve(t *testing.T) {
	f := fleet{dispatchers: 4, minutes: 40, loads: []load{
		{tenant: "p", priority: job.Paid, share: 1.5},
		{tenant: "f", priority: job.Free, share: 0.1},
	}}
	o := f.run(t)
	o.bars(t, 6)
	free, paid := o.loads[1], o.loads[0]
	if free.quantile(.99) > 2*1.1 || free.quantile(1) > 2*1.25 {
		t.Errorf("free p99 %.3f, max %.3f minutes", free.quantile(.99), free.quantile(1))
	}
	if share := float64(paid.tokens) / float64(paid.tokens+free.tokens); share < 0.8 {
		t.Errorf("paid got %.3f", share)
	}
}

// A free backlog that is overdue makes paid work wait no longer than a fresh one,
// because it gets more than its share anyway.
func TestFleetAged(t *testing.T) {
	p95 := func(wait time.Duration) float64 {
		f := fleet{dispatchers: 4, minutes: 20, maxWait: wait, loads: []load{
			{tenant: "f", priority: job.Free, share: 3},
			{tenant: "p", priority: job.Paid, share: 0.5, from: 5},
		}}
		o := f.run(t)
		if o.loads[0].tokens < fleetTPM*19*4/10 {
			t.Errorf("free work got %d tokens of what paid work left", o.loads[0].tokens)
		}
		return o.loads[1].quantile(.95)
	}
	aged, fresh := p95(20*fleetMinute), p95(2*fleetMinute+1)
	if aged > 1.5*fresh+0.005 {
		t.Errorf("paid p95 %.3f minutes before an old backlog, %.3f before a fresh one", aged, fresh)
	}
}

// Tenants share by tokens and weights, however large their jobs are and in however
// many processes they wait. One that stays below its share hardly waits at all.
func TestFleetTenants(t *testing.T) {
	for _, c := range []struct {
		dispatchers int
		weights     [3]int64
		offered     float64
	}{
		{4, [3]int64{1, 1, 1}, 1.5},
		{4, [3]int64{4, 2, 1}, 1.5},
		{4, [3]int64{1, 2, 4}, 1.5},
		{100, [3]int64{4, 2, 1}, 1.5},
		{4, [3]int64{1, 1, 1}, 0.5},
		{100, [3]int64{1, 1, 1}, 0.5},
	} {
		t.Run(fmt.Sprintf("%d dispatchers,%v,%v", c.dispatchers, c.weights, c.offered), func(t *testing.T) {
			w, offered := c.weights, c.offered
			sum := float64(w[0] + w[1] + w[2])
			f := fleet{
				dispatchers: c.dispatchers, minutes: 12,
				weight: func(tenant string) int64 { return w[tenant[0]-'a'] },
				loads: []load{
					{tenant: "a", priority: job.Free, share: 1.5 * float64(w[0]) / sum, size: 3000},
					{tenant: "b", priority: job.Free, share: offered * float64(w[1]) / sum, size: 300, only: 1},
					{tenant: "c", priority: job.Free, share: offered * float64(w[2]) / sum, size: 1000, only: 2},
				},
			}
			if offered < 1 {
				f.loads[0].share = 3
			}
			o := f.run(t)
			if offered < 1 {
				if b, c := o.loads[1].quantile(.95), o.loads[2].quantile(.95); b > 0.05 || c > 0.05 {
					t.Errorf("the neighbours' p95 is %.3f and %.3f minutes", b, c)
				}
				return
			}
			o.bars(t, 6)
			sum, squares := 0.0, 0.0
			for i := range o.loads {
				x := float64(o.loads[i].tokens) / float64(w[i])
				sum, squares = sum+x, squares+x*x
			}
			if jain := sum * sum / squares / 3; jain < 0.98 {
				t.Errorf("Jain %.4f", jain)
			}
		})
	}
}
