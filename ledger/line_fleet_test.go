package ledger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A fleet of processes works by its hints and by what it is told, of which some is
// lost. Some stop without a word. No limit is exceeded, and every job of those that live
// is granted.
func TestLineServesFleet(t *testing.T) {
	seeded(t, 2, func(t *testing.T, seed uint64) {
		f := newLineFleet(t, seed)
		for start := time.Now(); time.Since(start) < 3*time.Minute; {
			f.step(f.rng.Int64N(150_000))
		}
		f.processes = f.processes[2:]
		backlog := f.waiting()
		for start := time.Now(); f.waiting() > 0; {
			if f.step(0); time.Since(start) > 3*time.Minute {
				t.Fatalf("%d jobs of %d wait for ever", f.waiting(), backlog)
			}
		}
		if f.grants < 800 || backlog < 50 {
			t.Errorf("%d grants, and %d waited when two died: it shows little", f.grants, backlog)
		}
	})
}

type lineFleet struct {
	*testing.T
	rng       *rand.Rand
	memory    *Memory
	limits    []*Limit
	processes []*fleetProcess
	running   []*fleetCall
	charged   map[*Limit]*fleetCharges
	grants    int
	last      uint64
}

// fleetProcess has lanes of jobs, and asks for the first of all of them at once.
type fleetProcess struct {
	name  string
	lanes [6][]fleetJob
	next  time.Time // when it asks
}

type fleetJob struct {
	Request
	arrived time.Time
}

// fleetCall is a call that runs, and will have used so much.
type fleetCall struct {
	Settlement
	ends    time.Time
	charges []*fleetCharge
}

// fleetCharges is what counts in a limit now.
type fleetCharges struct {
	sum     int64
	charges []*fleetCharge
}

type fleetCharge struct {
	began  time.Time
	amount int64
}

func newLineFleet(t *testing.T, seed uint64) *lineFleet {
	f := &lineFleet{
		T: t, rng: rand.New(rand.NewPCG(seed, 0)), memory: NewMemory(), charged: map[*Limit]*fleetCharges{},
		limits: []*Limit{
			{Key: "account", Unit: Tokens, Amount: 200_000, Window: time.Minute},
			{Key: "requests", Unit: Requests, Amount: 500, Window: time.Minute},
			{Key: "model", Unit: Tokens, Amount: 100_000, Window: time.Minute, Burst: 10_000},
			{Key: "running", Unit: InFlight, Amount: 12, Window: 20 * time.Second},
		},
	}
	for _, l := range f.limits {
		f.charged[l] = &fleetCharges{}
	}
	for i := range 6 {
		p := &fleetProcess{name: fmt.Sprint(i)}
		f.processes = append(f.processes, p)
		f.memory.watchers[p.name] = func(in time.Duration) {
			if at := time.Now().Add(in); f.rng.IntN(10) > 0 && at.Before(p.next) {
				p.next = at
			}
		}
	}
	return f
}

func (p *fleetProcess) waiting() (n int) {
	for _, lane := range p.lanes {
		n += len(lane)
	}
	return n
}

func (f *lineFleet) waiting() (n int) {
	for _, p := range f.processes {
		n += p.waiting()
	}
	return n
}

// step is what comes next: a job after so many microseconds, the end of a call, or that
// a process asks.
func (f *lineFleet) step(job int64) {
	at, next := time.Now().Add(time.Hour), func() {}
	if job > 0 {
		at, next = time.Now().Add(time.Duration(job)*time.Microsecond), f.arrives
	}
	for _, c := range f.running {
		if c.ends.Before(at) {
			at, next = c.ends, func() { f.ends(c) }
		}
	}
	for _, p := range f.processes {
		if p.waiting() > 0 && p.next.Before(at) {
			at, next = p.next, func() { f.asks(p) }
		}
	}
	time.Sleep(time.Until(at))
	next()
}

func (f *lineFleet) arrives() {
	p, lane := f.processes[f.rng.IntN(len(f.processes))], f.rng.IntN(6)
	size := min(int64(f.rng.ExpFloat64()*800)+1, 8000)
	j := fleetJob{arrived: time.Now()}
	f.last++
	binary.BigEndian.PutUint64(j.ID.Job[:], f.last)
	j.Charges = []Charge{{Limit: f.limits[0], Amount: size}, {Limit: f.limits[1], Amount: 1}}
	if lane%2 == 0 {
		j.Charges = append(j.Charges, Charge{Limit: f.limits[2], Amount: size}, Charge{Limit: f.limits[3], Amount: 1})
	}
	j.Place = Place{
		Process: p.name, Lane: fmt.Sprint(lane), Tenant: fmt.Sprint(lane % 3), Class: []int{0, 4, 9}[lane/2],
		Weight: int64(1 + lane%3), Cost: size, AgingStep: 2 * time.Second, AgedShare: 20, Ticket: true,
	}
	if p.lanes[lane] = append(p.lanes[lane], j); len(p.lanes[lane]) == 1 {
		p.next = time.Now()
	}
}

func (f *lineFleet) asks(p *fleetProcess) {
	var batch []Request
	for _, lane := range p.lanes {
		if len(lane) > 0 {
			lane[0].Place.Waited = time.Since(lane[0].arrived)
			batch = append(batch, lane[0].Request)
		}
	}
	p.next = time.Now().Add(time.Hour)
	ds, err := f.memory.Reserve(f.Context(), batch)
	if err != nil {
		f.Fatal(err)
	}
	for i, d := range ds {
		if at := time.Now().Add(d.Wait); at.Before(p.next) {
			p.next = at // at once if it is granted: the next of the lane asks
		}
		if d.Outcome == Granted {
			lane := &p.lanes[batch[i].Place.Lane[0]-'0']
			*lane = (*lane)[1:]
			f.begins(batch[i])
		}
	}
}

// begins has a call run for a while, and use no more than it reserved. What was granted
// in a window is within its limit.
func (f *lineFleet) begins(r Request) {
	f.grants++
	c := &fleetCall{ends: time.Now().Add(time.Duration(f.rng.Int64N(3_000_000)) * time.Microsecond)}
	part := f.rng.Int64N(101)
	c.Settlement = Settlement{
		ID: r.ID, Tenant: r.Place.Tenant, Class: r.Place.Class, Weight: r.Place.Weight,
		Extra: r.Place.Cost*part/100 - r.Place.Cost,
	}
	for _, ch := range r.Charges {
		final := Final{Limit: ch.Limit, Admitted: ch.Amount}
		if ch.Limit.Unit == Tokens {
			final.Admitted = ch.Amount * part / 100
		}
		c.Final = append(c.Final, final)
		one, all := &fleetCharge{time.Now(), ch.Amount}, f.charged[ch.Limit]
		c.charges = append(c.charges, one)
		for len(all.charges) > 0 && time.Since(all.charges[0].began) >= ch.Limit.Window {
			all.sum -= all.charges[0].amount
			all.charges = all.charges[1:]
		}
		all.charges = append(all.charges, one)
		if all.sum += ch.Amount; all.sum > ch.Limit.Amount {
			f.Fatalf("%d granted of %q", all.sum, ch.Limit.Key)
		}
	}
	f.running = append(f.running, c)
}

func (f *lineFleet) ends(c *fleetCall) {
	f.running = slices.DeleteFunc(f.running, func(r *fleetCall) bool { return r == c })
	for i, one := range c.charges {
		left := c.Final[i].Admitted
		if c.Final[i].Limit.Unit == InFlight {
			left = 0
		}
		f.charged[c.Final[i].Limit].sum -= one.amount - left
		one.amount = left
	}
	if err := f.memory.Settle(f.Context(), []Settlement{c.Settlement}); err != nil {
		f.Fatal(err)
	}
}
