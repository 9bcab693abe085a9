package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// seeded runs a test in a bubble for each of n seeds, or for SEED.
func seeded(t *testing.T, n int, test func(t *testing.T, seed uint64)) {
	for range n {
		seed := rand.Uint64()
		if s := os.Getenv("SEED"); s != "" {
			seed, _ = strconv.ParseUint(s, 10, 64)
		}
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, seed) })
		})
	}
}

// lineCall is one call of a ledger, or none for so long.
type lineCall struct {
	reserve  []Request
	settle   []Settlement
	withdraw []Request
	pause    time.Duration
}

func (k *lineCall) on(ctx context.Context, m *Memory) (ds []Decision, err error) {
	switch {
	case k.reserve != nil:
		return m.Reserve(ctx, k.reserve)
	case k.settle != nil:
		return nil, m.Settle(ctx, k.settle)
	case k.withdraw != nil:
		return nil, m.Withdraw(ctx, k.withdraw)
	}
	return nil, nil
}

// lineCalls makes up calls of a few processes.
type lineCalls struct {
	rng       *rand.Rand
	processes []string
	limits    []*Limit
	waiting   map[ticketKey]Request
	since     map[ticketKey]time.Time
	granted   []Request
	last      uint64
}

func newLineCalls(seed uint64) *lineCalls {
	return &lineCalls{
		rng:       rand.New(rand.NewPCG(seed, 0)),
		processes: []string{"p", "q", "r", "s"},
		limits: []*Limit{
			{Key: "account", Unit: Tokens, Amount: 60_000, Window: time.Minute},
			{Key: "requests", Unit: Requests, Amount: 600, Window: time.Minute},
			{Key: "model", Unit: Tokens, Amount: 20_000, Window: time.Minute, Burst: 3000},
			{Key: "unpaced", Unit: Tokens, Amount: 30_000, Window: 2 * time.Minute, Unpaced: true},
			{Key: "running", Unit: InFlight, Amount: 8, Window: 20 * time.Second},
			{Key: "own", Unit: Tokens, Amount: 15_000, Window: time.Minute, Own: true},
			{Key: "rest", Unit: Tokens, Amount: 54_000, Window: time.Minute},
		},
		waiting: map[ticketKey]Request{},
		since:   map[ticketKey]time.Time{},
	}
}

// next makes up a call. Whoever makes it says what was decided.
func (c *lineCalls) next() (k lineCall) {
	if c.rng.IntN(50) == 0 {
		l := *c.limits[0]
		l.Amount = 60_000 + 20_000*c.rng.Int64N(2)
		c.limits[0] = &l
	}
	switch n := c.rng.IntN(20); {
	case n < 10:
		k.reserve = c.batch()
	case n < 13 && len(c.granted) > 0:
		k.settle = []Settlement{c.settlement()}
	case n < 14:
		k.withdraw = []Request{c.request(c.processes[c.rng.IntN(len(c.processes))])}
	default:
		most := []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, time.Second, 6 * time.Second}[c.rng.IntN(5)]
		if c.rng.IntN(60) == 0 {
			most = 3 * time.Minute
		}
		k.pause = time.Duration(c.rng.Int64N(most.Microseconds())) * time.Microsecond
	}
	return k
}

// batch is of one process. Requests out of line come alone: a denied one would hold its
// demand against the rest of the batch.
func (c *lineCalls) batch() (batch []Request) {
	process := c.processes[c.rng.IntN(len(c.processes))]
	if c.rng.IntN(12) == 0 {
		r := c.request(process)
		r.Place = Place{}
		return []Request{r}
	}
	for range 1 + c.rng.IntN(4) {
		r := c.request(process)
		if !slices.ContainsFunc(batch, func(b Request) bool { return b.Place.Lane == r.Place.Lane }) {
			batch = append(batch, r)
		}
	}
	return batch
}

// request is of a random lane: what waits there, or something new, which came when the
// one did whose ticket it takes.
func (c *lineCalls) request(process string) Request {
	tenant, class, kind := c.rng.IntN(3), []int{0, 1, 5, 9}[c.rng.IntN(4)], c.rng.IntN(4)
	p := Place{
		Process: process, Lane: fmt.Sprint(class, tenant, kind), Tenant: fmt.Sprint(tenant), Class: class,
		Weight: int64(1 + tenant), AgingStep: 2 * time.Second, AgedShare: 40, Ticket: c.rng.IntN(8) > 0,
	}
	r, ok := c.waiting[p.key()]
	if !ok {
		c.since[p.key()] = time.Now().Add(-time.Duration(c.rng.IntN(3_000_000)) * time.Microsecond)
	}
	if !ok || c.rng.IntN(12) == 0 {
		r = c.job(tenant, class, kind)
	}
	p.Cost, p.Waited = r.Charges[0].Amount, time.Since(c.since[p.key()])
	r.Place, r.Charges = p, slices.Clone(r.Charges)
	for i := range r.Charges {
		r.Charges[i].Limit = c.limits[slices.IndexFunc(c.limits, func(l *Limit) bool { return l.Key == r.Charges[i].Limit.Key })]
	}
	c.waiting[p.key()] = r
	return r
}

func (c *lineCalls) job(tenant, class, kind int) (r Request) {
	c.last++
	binary.LittleEndian.PutUint64(r.ID.Job[3:], c.last)
	size := 1 + c.rng.Int64N(800)
	if c.rng.IntN(12) == 0 {
		size = 1 + c.rng.Int64N(12_000)
	}
	add := func(limit int, amount int64, overdraw bool) {
		r.Charges = append(r.Charges, Charge{Limit: c.limits[limit], Amount: amount, Overdraw: overdraw})
	}
	add(0, size, false)
	add(1, 1, false)
	if kind < 3 {
		add(2+kind, []int64{size, size, 1}[kind], false)
	}
	if tenant == 2 {
		add(5, size, false)
	}
	add(6, size, class < 5)
	return r
}

// decided notes which requests were granted.
func (c *lineCalls) decided(batch []Request, ds []Decision) {
	for i, r := range batch {
		if ds[i].Outcome == Granted {
			c.granted = append(c.granted, r)
			for k, w := range c.waiting {
				if w.ID == r.ID {
					delete(c.waiting, k)
				}
			}
		}
	}
}

func (c *lineCalls) settlement() Settlement {
	i := c.rng.IntN(len(c.granted))
	r := c.granted[i]
	c.granted = slices.Delete(c.granted, i, i+1)
	used := c.rng.Int64N(r.Charges[0].Amount*5/4 + 1)
	s := Settlement{
		ID: r.ID, Cancel: c.rng.IntN(6) == 0,
		Tenant: r.Place.Tenant, Class: r.Place.Class, Weight: r.Place.Weight, Extra: used - r.Charges[0].Amount,
	}
	for _, ch := range r.Charges {
		f := Final{Limit: ch.Limit, Admitted: ch.Amount}
		if ch.Limit.Unit == Tokens {
			f.Admitted = used
		}
		s.Final = append(s.Final, f)
	}
	return s
}
