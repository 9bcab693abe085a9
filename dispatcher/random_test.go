package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// program is a run of a dispatcher that is told what to do by bytes.
type program struct {
	t     *testing.T
	data  []byte
	d     *dispatcher.Dispatcher
	audit *audit

	calls    sync.WaitGroup
	tickets  []*dispatcher.Ticket
	cancels  []context.CancelFunc
	mu       sync.Mutex
	accepted map[uuid.UUID]bool // by Submit
	running  int
	workers  int
}

// next is the next byte of the program, 0 after its end.
func (p *program) next() int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b)
}

// job makes a job from two bytes.
func (p *program) job() (job.Spec, job.Func) {
	b, how := p.next(), p.next()
	pr, _ := job.PriorityOf([]int{0, 1, 3, 5, 8}[b%5])
	s := spec(fmt.Sprint("tenant", b%3), pr, int64(1+b%50))
	s.ID = uuid.New()
	s.Model = []string{"a", "b"}[how%2]
	if b%16 == 7 {
		s.Deadline = time.Now().Add(time.Duration(b) * 10 * time.Millisecond)
	}
	tries := 0
	return s, func(ctx context.Context) (any, job.Usage, error) {
		p.mu.Lock()
		p.running++
		if p.running > p.workers {
			p.t.Errorf("%d jobs run at once, of %d", p.running, p.workers)
		}
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			p.running--
			p.mu.Unlock()
		}()
		u := job.Used(int64(how%40), int64(how%7))
		tries++
		switch how / 2 % 12 {
		case 0:
			panic("boom")
		case 1:
			runtime.Goexit()
		case 2:
			u.FirstByte = time.Now()
			return nil, u, errProvider
		case 3:
			return nil, job.Usage{Known: job.NotSent}, nil
		case 4:
			return nil, job.Usage{}, &job.RetryError{}
		case 5:
			if tries == 1 {
				return nil, u, &job.RetryError{After: time.Duration(how) * 10 * time.Millisecond}
			}
		case 6:
			<-ctx.Done()
			return nil, u, ctx.Err()
		case 7:
			time.Sleep(3 * time.Second) // does not listen
		case 8:
			return nil, job.Used(-5, 1<<60), nil
		default:
			time.Sleep(time.Duration(how) * time.Millisecond)
		}
		return nil, u, nil
	}
}

func (p *program) step() {
	ctx, cancel := context.Background(), func() {}
	if n := p.next(); n%3 > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+n%20)*time.Second)
		p.cancels = append(p.cancels, cancel)
	}
	switch op := p.next(); op % 10 {
	case 0, 1, 2:
		s, f := p.job()
		if k, err := p.d.Submit(ctx, s, f); err == nil {
			p.tickets = append(p.tickets, k)
			p.accepted[s.ID] = true
		}
	case 3, 4, 5:
		s, f := p.job()
		p.calls.Go(func() {
			_, _ = dispatcher.Do(ctx, p.d, s, f)
		})
	case 6:
		if n := len(p.tickets); n > 0 {
			p.tickets[op%n].Cancel()
		}
	case 7:
		if n := len(p.cancels); n > 0 {
			p.cancels[op%n]()
		}
	case 8:
		time.Sleep(time.Duration(op) * 10 * time.Millisecond)
	case 9:
		p.fault(op / 10)
	}
}

// fault changes how the ledger behaves.
func (p *program) fault(n int) {
	p.audit.before(nil)
	p.audit.after(nil)
	switch n % 6 {
	case 0:
		p.audit.before(func(context.Context, string) error { return errDown })
	case 1:
		p.audit.after(func(string) error { return errDown })
	case 2:
		var mu sync.Mutex
		n := 0
		p.audit.after(func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%3 == 0 {
				return errDown
			}
			return nil
		})
	case 3:
		if _, remote := p.d, p.remote(); remote {
			p.audit.before(down)
		}
	}
}

func (p *program) remote() bool { return p.workers%2 == 0 }

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
		p.check(n)
		for _, limit := range []*ledger.Limit{flight} {
			if held := balance(t, p.audit.inner, limit); held != 0 {
				t.Errorf("%d are held on %s", held, limit.Key)
			}
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
	for i := range 150 {
		data := make([]byte, 50+rnd.IntN(1000))
		for j := range data {
			data[j] = byte(rnd.Uint32())
		}
		if runProgram(t, data); t.Failed() {
			t.Fatalf("program %d: %#v", i, data)
		}
	}
}

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
