package redisledger_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/ledgertest"
)

// TestAgreesWithMemory drives both ledgers with the same random calls at the same
// times. They must agree on every decision, every wait and every balance, to the unit
// and the microsecond.
func TestAgreesWithMemory(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	for range 4 {
		seed := rand.Uint64()
		if s := os.Getenv("SEED"); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seed = n
		}
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pair{
					T:       t,
					rng:     rand.New(rand.NewPCG(seed, 0)),
					memory:  ledger.NewMemory(),
					redis:   newVirtual(t, url, fmt.Sprintf("pair-%016x", rand.Uint64())),
					limits:  pairLimits(),
					charged: make(map[string]time.Time),
				}
				for range 800 {
					p.step()
				}
				if p.granted < 100 || p.denied < 100 {
					t.Errorf("%d granted, %d denied: the test shows little", p.granted, p.denied)
				}
			})
		})
	}
}

// keeps is how long both ledgers know at least that a limit was charged.
const keeps = 9 * time.Second

// pair is the two ledgers, and what was asked of them.
type pair struct {
	*testing.T
	rng             *rand.Rand
	memory, redis   ledgertest.Ledger
	limits          []*ledger.Limit
	last            uint64
	open, closed    []job
	charged         map[string]time.Time // when each limit last was, by key
	granted, denied int
}

// job is a reservation that was asked for.
type job struct {
	ledger.Request
	at time.Time // when it was granted, or closed
}

func pairLimits() []*ledger.Limit {
	return []*ledger.Limit{
		{Key: "tpm", Unit: ledger.Tokens, Amount: 90_001, Window: time.Minute},
		{Key: "large", Unit: ledger.Tokens, Amount: 150_000_000, Window: time.Minute, MaxCharge: 40_000_000},
		{Key: "burst", Unit: ledger.InputTokens, Amount: 5000, Window: time.Minute, Burst: 4000, Guard: 2 * time.Second},
		{Key: "unpaced", Unit: ledger.OutputTokens, Amount: 20_000, Window: time.Minute, Unpaced: true, Settle: ledger.SettleProduced},
		{Key: "rpm", Unit: ledger.Requests, Amount: 67, Window: time.Minute},
		{Key: "hour", Unit: ledger.Requests, Amount: 1000, Window: time.Hour},
		{Key: "day", Unit: ledger.MicroUSD, Amount: 40_000_000, Window: 24 * time.Hour, Unpaced: true, Own: true},
		{Key: "month", Unit: ledger.Tokens, Amount: ledger.MaxAmount, Window: 32 * 24 * time.Hour},
		{Key: "running", Unit: ledger.InFlight, Amount: 12, Window: 20 * time.Second},
		{Key: "tenant}", Unit: ledger.InFlight, Amount: 3},
	}
}

func (p *pair) step() {
	p.Helper()
	switch n := p.rng.IntN(21); {
	case n < 8:
		p.reserve()
	case n < 13:
		p.settle()
	case n < 14:
		p.renew()
	case n < 15:
		p.observe()
	case n < 17:
		p.change()
	default:
		pause := p.pause()
		p.reopen(pause)
		time.Sleep(pause)
	}
	p.same("balances", func(l ledgertest.Ledger) (any, error) { return l.Snapshot(p.Context(), p.limits) })
	p.forget()
}

// same makes a call on both, and compares.
func (p *pair) same(what string, call func(ledgertest.Ledger) (any, error)) any {
	p.Helper()
	want, err := call(p.memory)
	if err != nil {
		p.Fatal(err)
	}
	got, err := call(p.redis)
	if err != nil {
		p.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		p.Fatalf("%s at %v:\nredis  %+v\nmemory %+v", what, time.Now(), got, want)
	}
	return want
}

// pause is from nothing to hours, mostly around the time in which something changes.
func (p *pair) pause() time.Duration {
	most := []time.Duration{2, 40 * time.Microsecond, time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute}[p.rng.IntN(7)]
	if p.rng.IntN(40) == 0 {
		most = 10 * time.Hour
	}
	return time.Duration(p.rng.Int64N(int64(most)/1000+2)) * time.Microsecond
}

func (p *pair) id() ledger.ID {
	p.last++
	id := ledger.ID{Attempt: uint32(p.rng.IntN(3))}
	binary.LittleEndian.PutUint64(id.Job[3:], p.last)
	return id
}

// amount is mostly a small part of the limit, and now and then too much.
func (p *pair) amount(l *ledger.Limit) int64 {
	if l.Unit == ledger.InFlight {
		return 1
	}
	switch p.rng.IntN(12) {
	case 0:
		return 0
	case 1:
		return min(p.rng.Int64N(l.Amount+l.Amount/8+2), ledger.MaxAmount)
	default:
		return p.rng.Int64N(l.Amount/20 + 2)
	}
}

func (p *pair) charges() []ledger.Charge {
	var cs []ledger.Charge
	for _, i := range p.rng.Perm(len(p.limits))[:1+p.rng.IntN(4)] {
		cs = append(cs, ledger.Charge{Limit: p.limits[i], Amount: p.amount(p.limits[i])})
	}
	return cs
}

func (p *pair) reserve() {
	p.Helper()
	batch := make([]ledger.Request, 1+p.rng.IntN(6))
	var guard time.Duration
	if p.rng.IntN(4) == 0 {
		guard = time.Duration(p.rng.IntN(4000)) * time.Millisecond
	}
	for i := range batch {
		switch n := p.rng.IntN(12); {
		case n == 0 && len(p.open) > 0:
			batch[i] = p.open[p.rng.IntN(len(p.open))].Request
		case n == 1 && len(p.closed) > 0:
			batch[i] = p.closed[p.rng.IntN(len(p.closed))].Request
		case n == 2 && i > 0:
			batch[i] = batch[p.rng.IntN(i)]
		default:
			batch[i] = ledger.Request{ID: p.id(), Charges: p.charges()}
		}
		batch[i].Guard = guard
		// In one call a limit has one definition.
		batch[i].Charges = slices.Clone(batch[i].Charges)
		for k, c := range batch[i].Charges {
			batch[i].Charges[k].Limit = p.now(c.Limit)
		}
	}
	ds := p.same(fmt.Sprintf("reserve %+v", batch), func(l ledgertest.Ledger) (any, error) {
		return l.Reserve(p.Context(), batch)
	}).([]ledger.Decision)
	for i, d := range ds {
		switch d.Outcome {
		case ledger.Granted:
			p.granted++
			p.open = append(p.open, job{batch[i], time.Now()})
			for _, c := range batch[i].Charges {
				if c.Amount > 0 {
					p.charged[c.Limit.Key] = time.Now()
				}
			}
		case ledger.Denied:
			p.denied++
		}
	}
}

func (p *pair) settle() {
	p.Helper()
	batch := make([]ledger.Settlement, 1+p.rng.IntN(4))
	for i := range batch {
		var j job
		switch n := p.rng.IntN(12); {
		case n == 0 && len(p.closed) > 0:
			j = p.closed[p.rng.IntN(len(p.closed))]
		case n == 1 && i > 0:
			batch[i] = batch[p.rng.IntN(i)]
			continue
		case n > 2 && len(p.open) > 0:
			j = p.open[p.rng.IntN(len(p.open))]
		default:
			j = job{ledger.Request{ID: p.id(), Charges: p.charges()}, time.Now()}
		}
		s := ledger.Settlement{ID: j.ID, Cancel: p.rng.IntN(4) == 0}
		if p.rng.IntN(2) == 0 {
			s.Counted = time.Duration(p.rng.IntN(3000)) * time.Millisecond
		}
		for _, c := range j.Charges {
			f := ledger.Final{Limit: p.now(c.Limit), Admitted: p.amount(c.Limit)}
			if p.rng.IntN(4) == 0 {
				f.Late = p.amount(c.Limit)
			}
			if p.rng.IntN(20) == 0 {
				f.Limit = p.limits[p.rng.IntN(len(p.limits))]
			}
			s.Final = append(s.Final, f)
		}
		if p.rng.IntN(20) == 0 {
			s.Final = s.Final[:p.rng.IntN(len(s.Final)+1)]
		}
		batch[i] = s
	}
	p.same(fmt.Sprintf("settle %+v", batch), func(l ledgertest.Ledger) (any, error) {
		return nil, l.Settle(p.Context(), batch)
	})
	for _, s := range batch {
		for i := len(p.open) - 1; i >= 0; i-- {
			if p.open[i].ID == s.ID {
				p.closed = append(p.closed, job{p.open[i].Request, time.Now()})
				p.open = append(p.open[:i], p.open[i+1:]...)
			}
		}
		if s.Cancel && !slices.ContainsFunc(p.closed, func(j job) bool { return j.ID == s.ID }) {
			p.closed = append(p.closed, job{ledger.Request{ID: s.ID, Charges: p.charges()}, time.Now()})
		}
	}
}

func (p *pair) renew() {
	p.Helper()
	var ls []ledger.Lease
	for range 1 + p.rng.IntN(4) {
		l := ledger.Lease{ID: p.id(), Limit: p.limits[8+p.rng.IntN(2)]}
		if p.rng.IntN(8) > 0 && len(p.open) > 0 {
			l.ID = p.open[p.rng.IntN(len(p.open))].ID
		}
		ls = append(ls, l)
	}
	p.same(fmt.Sprintf("renew %+v", ls), func(l ledgertest.Ledger) (any, error) {
		return nil, l.Renew(p.Context(), ls)
	})
}

// observe says things about limits that were charged just now, for the same reason as
// in change.
func (p *pair) observe() {
	p.Helper()
	var batch []ledger.Observation
	for _, i := range p.rng.Perm(8)[:1+p.rng.IntN(3)] {
		l := p.limits[i]
		if l.Amount == 0 || time.Since(p.charged[l.Key]) > keeps {
			continue
		}
		o := ledger.Observation{Limit: l, Used: -1, Bucket: p.rng.IntN(2) == 0, Ago: p.pause()}
		if p.rng.IntN(2) == 0 {
			o.Used = p.rng.Int64N(l.Amount/8 + 1)
		}
		switch p.rng.IntN(8) {
		case 0:
			o.Amount = 1 + p.rng.Int64N(l.Amount)
		case 1:
			o.Refused = true
		case 2:
			o.Refused, o.Close = true, p.pause()
		case 3:
			o.Slower = p.rng.IntN(50)
		}
		batch = append(batch, o)
	}
	p.same(fmt.Sprintf("observe %+v", batch), func(l ledgertest.Ledger) (any, error) { return l.Observe(p.Context(), batch) })
}

// now is the limit as it is defined now.
func (p *pair) now(l *ledger.Limit) *ledger.Limit {
	for _, n := range p.limits {
		if n.Key == l.Key {
			return n
		}
	}
	return l
}

// change gives a limit another definition. Each ledger forgets a limit that is as good
// as new in its own time, so it changes one that was charged just now: the definition
// then holds for the same past in both.
func (p *pair) change() {
	i := p.rng.IntN(len(p.limits))
	l, first := *p.limits[i], pairLimits()[i]
	if time.Since(p.charged[l.Key]) > keeps {
		return
	}
	switch p.rng.IntN(7) {
	case 0:
		l.Amount = first.Amount/2 + p.rng.Int64N(first.Amount/2+1)
	case 1:
		l.Amount, l.Unpaced = 0, first.Unpaced
	case 2:
		l.Burst = p.rng.Int64N(first.Amount)
	case 3:
		l.Guard = time.Duration(p.rng.Int64N(int64(max(first.Window, 1)/10 + 1)))
	case 4:
		l.Unpaced = l.Amount > 0 && !l.Unpaced
	case 5:
		l.MaxCharge = p.rng.Int64N(first.Amount)
	default:
		l = *first
	}
	if l.Unit == ledger.InFlight && p.rng.IntN(2) == 0 {
		l.Window = time.Duration(1+p.rng.IntN(60)) * time.Second
	}
	p.limits[i] = &l
}

// reopen ends that limits are at 0, before a pause after which one ledger may have
// forgotten it.
func (p *pair) reopen(pause time.Duration) {
	for i, l := range p.limits {
		if l.Amount == 0 && time.Since(p.charged[l.Key])+pause > keeps {
			p.limits[i] = pairLimits()[i]
		}
	}
}

// forget drops jobs before a ledger may: closed ids are known for a minute, open ones
// for an hour.
func (p *pair) forget() {
	young := func(js []job, age time.Duration) []job {
		kept := js[:0]
		for _, j := range js {
			if time.Since(j.at) < age {
				kept = append(kept, j)
			}
		}
		return kept
	}
	p.open = young(p.open, 50*time.Minute)
	p.closed = young(p.closed, 50*time.Second)
}
