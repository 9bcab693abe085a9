package dispatcher_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
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
	ctx := context.Background()
	if n := p.next(); n%3 > 0 {
		var cancel context.CancelFunc
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
		if p.remote() {
			p.audit.before(down)
		}
	}
}

// remote says whether the ledger may block.
func (p *program) remote() bool { return p.workers%2 == 0 }
