package ledgertest

import (
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// fleet is the processes whose jobs wait in the line of a test's ledger.
type fleet struct {
	*harness
	processes map[string]Ledger
	poll      time.Duration // is how often serve has all of them ask
	served    func(*waiter) // is called with each that serve has served
}

func newFleet(h *harness) *fleet {
	return &fleet{harness: h, processes: make(map[string]Ledger), poll: 100 * time.Millisecond}
}

func (f *fleet) process(name string) Ledger {
	if f.processes[name] == nil {
		f.processes[name] = f.harness.process()
	}
	return f.processes[name]
}

// waiter is the first job of a lane.
type waiter struct {
	f *fleet
	ledger.Request
}

// job is the first job of the lane of a class and a tenant in a process. Its cost is
// its first charge.
func (f *fleet) job(process string, class int, tenant string, charges ...ledger.Charge) *waiter {
	return &waiter{f, ledger.Request{ID: f.id(), Charges: charges, Place: ledger.Place{
		Process: process, Lane: string(rune('0'+class)) + tenant, Tenant: tenant, Class: class,
		Weight: 1, Cost: charges[0].Amount, Ticket: true,
	}}}
}

func (w *waiter) ask() ledger.Decision {
	h := w.f.harness
	h.Helper()
	h.mu.Lock()
	h.made[w.ID] = w.Charges
	h.mu.Unlock()
	ds, err := w.f.process(w.Place.Process).Reserve(h.Context(), []ledger.Request{w.Request})
	if err != nil {
		h.Fatal(err)
	}
	h.sound(w.Request, ds[0])
	return ds[0]
}

// granted and denied ask, and fail the test unless that is the answer.
func (w *waiter) granted() {
	w.f.Helper()
	w.f.want(w.ask(), ledger.Granted)
}

func (w *waiter) denied() ledger.Decision {
	w.f.Helper()
	d := w.ask()
	w.f.want(d, ledger.Denied)
	return d
}

// next makes it the next job of its lane.
func (w *waiter) next() { w.ID = w.f.id() }

// glance is the same job, but it does not stay in line.
func (w *waiter) glance() *waiter {
	g := *w
	g.next()
	g.Place.Ticket = false
	return &g
}

func (f *fleet) withdraw(jobs ...*waiter) {
	f.Helper()
	for _, w := range jobs {
		if err := f.process(w.Place.Process).Withdraw(f.Context(), []ledger.Request{w.Request}); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fleet) state() ledger.LineState {
	f.Helper()
	s, err := f.Inspect(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *fleet) tickets(want int64) {
	f.Helper()
	if n := f.state().Tickets; n != want {
		f.Fatalf("%d tickets in line, want %d", n, want)
	}
}

// pace is a limit that gains about 98 tokens a second, up to 100.
func pace(h *harness) *ledger.Limit {
	l := with(paced("tpm", 6000), func(l *ledger.Limit) { l.Burst = 100 })
	h.grant(of(l, 100))
	return l
}

// serve has the jobs ask in random order, again and again, until n are granted, each
// of which the next job of its lane follows. It returns what was granted, in order.
func (f *fleet) serve(rng source, n int, jobs ...*waiter) (served []ledger.Request) {
	f.Helper()
	for start := time.Now(); time.Since(start) < time.Hour; f.sleep(f.poll) {
		rng.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		for _, w := range jobs {
			for w.ask().Outcome == ledger.Granted {
				served = append(served, w.Request)
				if f.served != nil {
					f.served(w)
				}
				w.next()
				if len(served) == n {
					return served
				}
			}
		}
	}
	f.Fatalf("%d served in an hour, want %d", len(served), n)
	return nil
}

// tokensOf is what was granted to a tenant.
func tokensOf(served []ledger.Request, tenant string) (sum int64) {
	for _, w := range served {
		if w.Place.Tenant == tenant {
			sum += w.Place.Cost
		}
	}
	return sum
}

// between fails the test unless n is within the bounds.
func (h *harness) between(what string, n, low, high int64) {
	h.Helper()
	if n < low || n > high {
		h.Errorf("%s: %d, want %d to %d", what, n, low, high)
	}
}
