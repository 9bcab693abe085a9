package dispatcher_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// failsafe-go/failsafe-go#134, mailgun/gubernator#221: no test may leave a
// goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wide is a limit that nothing here ever reaches.
var wide = &ledger.Limit{Key: "wide", Unit: ledger.Tokens, Amount: 1 << 49, Window: time.Minute}

// perSecond is a limit that holds a second's tokens, and frees each a second and
// a bit after it was taken. Without a bucket it is simple to reckon with.
func perSecond(key string, tokens int64) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: tokens, Window: time.Second, Unpaced: true}
}

// planFunc is a plan made from a function.
type planFunc func(s *job.Spec, e job.Estimate) ([]ledger.Charge, error)

func (f planFunc) Charges(s *job.Spec, e job.Estimate) ([]ledger.Charge, error) { return f(s, e) }

// spec is a job of the tenant and class that needs tokens.
func spec(tenant string, p job.Priority, tokens int64) job.Spec {
	return job.Spec{Tenant: tenant, Model: "m", Priority: p, Estimate: job.Estimate{Input: tokens}}
}

// open runs a dispatcher until the test ends, and checks then that nothing is
// left in it.
func open(t *testing.T, cfg dispatcher.Config) *dispatcher.Dispatcher {
	t.Helper()
	d := create(t, cfg)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if s := d.Stats(); s != (dispatcher.Stats{}) {
			t.Errorf("after Run: %+v", s)
		}
	})
	return d
}

// create makes a dispatcher that logs nothing unless the test says so.
func create(t *testing.T, cfg dispatcher.Config) *dispatcher.Dispatcher {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Plan == nil {
		cfg.Plan = fixed{wide}
	}
	d, err := dispatcher.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ways runs a test in a bubble against a ledger that never blocks, against the
// same one when it does not say so, and against one that takes its time. What a
// job sees must be the same.
func ways(t *testing.T, test func(t *testing.T, a *audit, l ledger.Ledger)) {
	t.Run("never-blocks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			test(t, a, direct{a})
		})
	})
	t.Run("may-block", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			test(t, a, a)
		})
	})
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAudit(t, ledger.NewMemory())
			a.before(func(context.Context, string) error { time.Sleep(2 * time.Millisecond); return nil })
			test(t, a, a)
		})
	})
}

// must submits a job that has to be accepted.
func must(t *testing.T, d *dispatcher.Dispatcher, s job.Spec, f job.Func) *dispatcher.Ticket {
	t.Helper()
	k, err := d.Submit(context.Background(), s, f)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// used is a job that does nothing and used what was estimated.
func used(tokens int64) job.Func {
	return func(context.Context) (any, job.Usage, error) { return nil, job.Used(tokens, 0), nil }
}

// order notes who ran, in order.
type order struct {
	mu    sync.Mutex
	names []string
}

func (o *order) note(name string, tokens int64) job.Func {
	return func(context.Context) (any, job.Usage, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.names = append(o.names, name)
		return nil, job.Used(tokens, 0), nil
	}
}

func (o *order) get() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.names...)
}

// balance is what the limit's window holds.
func balance(t *testing.T, m *ledger.Memory, l *ledger.Limit) int64 {
	t.Helper()
	b, err := m.Snapshot(t.Context(), []*ledger.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	return b[0].Used
}

// records counts what is logged.
type records struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(context.Context, slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return nil
}

func (r *records) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func logger(h slog.Handler) *slog.Logger { return slog.New(h) }
