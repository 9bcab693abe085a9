package dispatcher_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// runProgram runs the program and checks that everything ended once, and nothing
// is left.
func runProgram(t *testing.T, data []byte) {
	synctest.Test(t, func(t *testing.T) {
		p := &program{t: t, data: data, audit: newAudit(t, ledger.NewMemory()), accepted: make(map[uuid.UUID]bool)}
		first := p.next()
		p.workers = 1 + first%4
		flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: int64(1 + first/4%4), Window: time.Second}
		tokens := &ledger.Limit{Key: "tokens", Unit: ledger.Tokens, Amount: 3000, Window: time.Minute, MaxCharge: 750, Settle: ledger.Rule(first / 16 % 3)}
		requests := &ledger.Limit{Key: "requests", Unit: ledger.Requests, Amount: 300, Window: time.Minute}
		own := &ledger.Limit{Key: "own", Unit: ledger.Tokens, Amount: 600, Window: time.Minute, Own: true}
		plan := planFunc(func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
			c := []ledger.Charge{{Limit: tokens, Amount: e.Tokens()}, {Limit: requests, Amount: 1}}
			if s.Model == "a" {
				c = append(c, ledger.Charge{Limit: flight, Amount: 1})
			}
			if s.Tenant == "tenant0" {
				c = append(c, ledger.Charge{Limit: own, Amount: e.Tokens()})
			}
			return c, nil
		})
		n := new(notes)
		var l ledger.Ledger = direct{p.audit}
		if p.remote() {
			l = p.audit
		}
		p.d = create(t, dispatcher.Config{Ledger: l, Plan: plan, Workers: p.workers, UrgentWorkers: first % 2 * (p.workers / 2),
			MaxQueue: 20, MaxTenantQueue: 12, MaxWait: 50 * time.Second, Observer: n})
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- p.d.Run(ctx) }()
		for len(p.data) > 0 {
			p.step()
			s := p.d.Stats()
			waiting := 0
			for _, w := range s.Waiting {
				waiting += w
			}
			// Who comes back for another attempt keeps the place it had.
			if waiting > 20+p.workers || s.Running > p.workers {
				t.Errorf("%+v", s)
			}
		}
		p.audit.before(nil)
		p.audit.after(nil)
		switch first / 64 {
		case 0:
			stop()
		case 1:
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = p.d.Shutdown(short)
			cancel()
		default:
			go func() { _ = p.d.Shutdown(context.Background()) }()
			time.Sleep(30 * time.Second)
			for _, cancel := range p.cancels {
				cancel() // some jobs wait for just that
			}
			time.Sleep(60 * time.Second)
			stop()
		}
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, cancel := range p.cancels {
			cancel()
		}
		p.calls.Wait()
		synctest.Wait() // who was cancelled last may be told just after
		p.check(n)
		if n := balance(t, p.audit.inner, flight); n != 0 {
			t.Errorf("%d calls are in flight", n)
		}
	})
}

// check is made when all has ended.
func (p *program) check(n *notes) {
	t := p.t
	if s := p.d.Stats(); s != (dispatcher.Stats{}) {
		t.Errorf("%+v", s)
	}
	attempts := 0
	for _, k := range p.tickets {
		select {
		case r := <-k.Result():
			seen := n.result(t, k.ID())
			if seen.Err != r.Err || seen.Attempts != r.Attempts || seen.Usage != r.Usage {
				t.Errorf("observed %+v, delivered %+v", seen, r)
			}
		default:
			t.Errorf("job %v has no result", k.ID())
		}
		select {
		case r := <-k.Result():
			t.Errorf("a second result: %+v", r)
		default:
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	sheds := 0
	for id, all := range n.results {
		if len(all) != 1 {
			t.Errorf("job %v finished %d times", id, len(all))
		}
		attempts += all[0].Attempts
		if errors.Is(all[0].Err, dispatcher.ErrShed) {
			sheds++
		}
	}
	if n.started != attempts {
		t.Errorf("%d attempts started, %d in results", n.started, attempts)
	}
	if n.shed < sheds {
		t.Errorf("%d jobs were shed, %d told so", sheds, n.shed)
	}
}

// TestRandomPrograms runs random programs of submitting, cancelling, failing and
// waiting, with ledgers that fail too.
func TestRandomPrograms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		data := make([]byte, 50+rnd.IntN(1000))
		for j := range data {
			data[j] = byte(rnd.Uint32())
		}
		if runProgram(t, data); t.Failed() {
			t.Fatalf("program %d: %#v", i, data)
		}
	}
}

// FuzzSchedule wants -fuzzminimizetime=10x: a program does not cover the same code
// each time, which the fuzzer takes a minute to find out about each input.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x03\x01\x0c\x00\x08"))
	f.Add([]byte("a dispatcher is told what to do by bytes"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		runProgram(t, data)
	})
}
