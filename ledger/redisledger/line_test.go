package redisledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// TestLineAgreesWithMemory drives the lines of both ledgers with the same random
// calls of a few processes at the same times. They must agree on every decision and
// every wait, and on what the line has come to.
func TestLineAgreesWithMemory(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	for range 4 {
		seed := rand.Uint64()
		if s := os.Getenv("SEED"); s != "" {
			seed, _ = strconv.ParseUint(s, 10, 64)
		}
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &linePair{
					T: t, rng: rand.New(rand.NewPCG(seed, 0)),
					memory:  ledger.NewMemory(),
					redis:   newVirtual(t, url, fmt.Sprintf("line-%016x", rand.Uint64())),
					waiting: make(map[ledger.Place]ledger.Request),
				}
				for range 1000 {
					p.step()
				}
				if s := p.state(); s.Grants < 100 || s.Messages < 20 || p.denied < 100 {
					t.Errorf("%+v, %d denied: the test shows little", s, p.denied)
				}
			})
		})
	}
}

type lineLedger interface {
	ledger.Line
	ledger.Snapshotter
}

// linePair is the two ledgers, and what was asked of them.
type linePair struct {
	*testing.T
	rng           *rand.Rand
	memory, redis lineLedger
	waiting       map[ledger.Place]ledger.Request // by process, lane, tenant and class
	open          []ledger.Request
	last          uint64
	denied        int
}

var lineLimits = struct{ account, rpm, model, running, own, rest *ledger.Limit }{
	&ledger.Limit{Key: "account", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute},
	&ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 600, Window: time.Minute},
	&ledger.Limit{Key: "model", Unit: ledger.Tokens, Amount: 20_000, Window: time.Minute, Burst: 3000},
	&ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 8, Window: 20 * time.Second},
	&ledger.Limit{Key: "own", Unit: ledger.Tokens, Amount: 15_000, Window: time.Minute, Own: true},
	&ledger.Limit{Key: "rest", Unit: ledger.Tokens, Amount: 54_000, Window: time.Minute},
}

func (p *linePair) both(what string, call func(l lineLedger) (any, error)) any {
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

func (p *linePair) state() ledger.LineState {
	return p.both("state", func(l lineLedger) (any, error) {
		return l.Inspect(p.Context())
	}).(ledger.LineState)
}

func (p *linePair) step() {
	switch n := p.rng.IntN(20); {
	case n < 9:
		p.reserve()
	case n < 13:
		p.settle()
	case n < 14:
		p.withdraw()
	default:
		most := []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, time.Second, 6 * time.Second}[p.rng.IntN(5)]
		if p.rng.IntN(60) == 0 {
			most = 3 * time.Minute
		}
		time.Sleep(time.Duration(p.rng.Int64N(int64(most)/1000)) * time.Microsecond)
	}
	p.state()
	p.both("balances", func(l lineLedger) (any, error) {
		return l.Snapshot(p.Context(), []*ledger.Limit{lineLimits.account, lineLimits.rpm, lineLimits.model, lineLimits.running, lineLimits.rest})
	})
}

// request is of a random lane of a process: what it asked for last and has not got,
// or something new.
func (p *linePair) request(process string) ledger.Request {
	tenant := p.rng.IntN(3)
	class := []int{0, 1, 5, 9}[p.rng.IntN(4)]
	model := p.rng.IntN(2)
	key := ledger.Place{Process: process, Lane: fmt.Sprint(tenant, class, model), Tenant: fmt.Sprint("t", tenant), Class: class}
	r, ok := p.waiting[key]
	if !ok || p.rng.IntN(12) == 0 {
		p.last++
		r = ledger.Request{Place: key}
		binary.LittleEndian.PutUint64(r.ID.Job[3:], p.last)
		size := 1 + p.rng.Int64N(800)
		if p.rng.IntN(12) == 0 {
			size = p.rng.Int64N(12_000)
		}
		r.Charges = []ledger.Charge{{Limit: lineLimits.account, Amount: size}, {Limit: lineLimits.rpm, Amount: 1}}
		if model == 1 {
			r.Charges = append(r.Charges, ledger.Charge{Limit: lineLimits.model, Amount: size})
		}
		if class == 5 {
			r.Charges = append(r.Charges, ledger.Charge{Limit: lineLimits.running, Amount: 1})
		}
		if tenant == 2 {
			r.Charges = append(r.Charges, ledger.Charge{Limit: lineLimits.own, Amount: size})
		}
		// Urgent work is paced at all of the rate, and counts in what the rest is paced at.
		r.Charges = append(r.Charges, ledger.Charge{Limit: lineLimits.rest, Amount: size, Overdraw: class < 5})
		r.Place.Cost, r.Place.Weight = size, int64(tenant+1)
		p.waiting[key] = r
	}
	r.Place.Waited = time.Duration(p.rng.IntN(20_000)) * time.Millisecond
	r.Place.AgingStep, r.Place.AgedShare, r.Place.Ticket = 2*time.Second, 20, p.rng.IntN(8) > 0
	if p.rng.IntN(20) == 0 {
		r.Place = ledger.Place{} // in no line
	}
	return r
}

func (p *linePair) reserve() {
	process := fmt.Sprint("process", p.rng.IntN(5))
	batch := make([]ledger.Request, 1+p.rng.IntN(6))
	for i := range batch {
		batch[i] = p.request(process)
	}
	ds := p.both(fmt.Sprintf("reserve %+v", batch), func(l lineLedger) (any, error) {
		return l.Reserve(p.Context(), batch)
	}).([]ledger.Decision)
	for i, d := range ds {
		r := batch[i]
		if d.Outcome == ledger.Granted {
			p.open = append(p.open, r)
		} else {
			p.denied++
		}
		if d.Outcome != ledger.Denied {
			maps.DeleteFunc(p.waiting, func(_ ledger.Place, w ledger.Request) bool { return w.ID == r.ID })
		}
	}
}

func (p *linePair) settle() {
	if len(p.open) == 0 {
		return
	}
	i := p.rng.IntN(len(p.open))
	r := p.open[i]
	s := ledger.Settlement{ID: r.ID, Cancel: p.rng.IntN(6) == 0, Tenant: r.Place.Tenant, Class: r.Place.Class, Weight: r.Place.Weight}
	used := p.rng.Int64N(r.Charges[0].Amount + r.Charges[0].Amount/4 + 1)
	s.Extra = used - r.Charges[0].Amount
	for _, c := range r.Charges {
		f := ledger.Final{Limit: c.Limit, Admitted: c.Amount}
		if c.Limit.Unit == ledger.Tokens {
			f.Admitted = used
		}
		s.Final = append(s.Final, f)
	}
	p.both(fmt.Sprintf("settle %+v", s), func(l lineLedger) (any, error) {
		return nil, l.Settle(p.Context(), []ledger.Settlement{s})
	})
	p.open = append(p.open[:i], p.open[i+1:]...)
}

func (p *linePair) withdraw() {
	r := p.request(fmt.Sprint("process", p.rng.IntN(5)))
	p.both(fmt.Sprintf("withdraw %+v", r), func(l lineLedger) (any, error) {
		return nil, l.Withdraw(p.Context(), []ledger.Request{r})
	})
}

// A ticket that may go sooner than it was told is told so, on the process's channel.
func TestTurnIsTold(t *testing.T) {
	t.Parallel()
	for _, url := range []string{redistest.URL(t), redistest.ClusterURL(t)} {
		testTurn(t, newLedger(t, open(t, url), fmt.Sprintf("turn-%x", rand.Uint64())))
	}
}

func testTurn(t *testing.T, l *redisledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turns, ended := make(chan time.Duration, 8), make(chan error)
	go func() { ended <- l.Watch(ctx, "p", func(in time.Duration) { turns <- in }) }()
	if in := <-turns; in != 0 { // it listens
		t.Fatalf("%v at first", in)
	}
	tpm := &ledger.Limit{Key: "turns", Unit: ledger.Tokens, Amount: 100, Window: time.Minute, Unpaced: true}
	ask := func(n byte, amount int64) (ledger.Request, ledger.Decision) {
		r := ledger.Request{ID: ledger.ID{Job: [16]byte{n}}, Charges: []ledger.Charge{{Limit: tpm, Amount: amount}}}
		r.Place = ledger.Place{Process: "p", Lane: fmt.Sprint(n), Tenant: "t", Class: 1, Weight: 1, Cost: amount, Ticket: true}
		ds, err := l.Reserve(ctx, []ledger.Request{r})
		if err != nil {
			t.Fatal(err)
		}
		return r, ds[0]
	}
	first, d := ask(1, 100)
	if d.Outcome != ledger.Granted {
		t.Fatal(d)
	}
	if _, d = ask(2, 60); d.Outcome != ledger.Denied || d.Wait < 50*time.Second {
		t.Fatal(d)
	}
	if err := l.Settle(ctx, []ledger.Settlement{{ID: first.ID, Final: []ledger.Final{{Limit: tpm, Admitted: 40}}}}); err != nil {
		t.Fatal(err)
	}
	select {
	case in := <-turns:
		if in != 0 {
			t.Fatalf("told to come in %v", in)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("told nothing")
	}
	if _, d = ask(2, 60); d.Outcome != ledger.Granted {
		t.Fatal(d)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A Redis that is short of memory may evict any of the line's keys. Whoever is in line
// then loses his place, but nobody's call fails.
func TestLineOutlivesEviction(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.URL(t))
	for _, key := range []string{"order", "age", "due", "tickets", "tags", "rest"} {
		name := fmt.Sprintf("evicted-%x", rand.Uint64())
		l := newLedger(t, client, name)
		tpm := &ledger.Limit{Key: "k", Unit: ledger.Tokens, Amount: 100, Window: time.Minute, Unpaced: true}
		ask := func(n byte, amount int64) ledger.Outcome {
			r := ledger.Request{ID: ledger.ID{Job: [16]byte{n}}, Charges: []ledger.Charge{{Limit: tpm, Amount: amount}}}
			r.Place = ledger.Place{Process: "p", Lane: fmt.Sprint(n), Tenant: "t", Class: int(n), Weight: 1, Cost: amount, Ticket: true, AgingStep: time.Second, AgedShare: 20}
			ds, err := l.Reserve(t.Context(), []ledger.Request{r})
			if err != nil {
				t.Fatalf("without %s: %v", key, err)
			}
			return ds[0].Outcome
		}
		ask(1, 50)
		ask(2, 60)
		ask(3, 60)
		if err := client.Del(t.Context(), "{"+name+"}:line:"+key).Err(); err != nil {
			t.Fatal(err)
		}
		if granted := ask(4, 10) == ledger.Granted; granted == (key == "tags") {
			t.Errorf("without %s: granted %v", key, granted) // nobody is in front any more
		}
		if ask(2, 60); ask(5, 1) == ledger.Granted {
			t.Errorf("without %s, one passes a ticket", key)
		}
	}
}
