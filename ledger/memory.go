package ledger

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory is the ledger of one process. It never blocks on anything but its own
// mutex. Make it with NewMemory.
type Memory struct {
	start time.Time

	mu      sync.Mutex
	budgets map[budgetKey]*budget
	idle    list.List // of *budget, least recently used first
	batch   uint64
	guard   time.Duration // of the last batch
	open    map[ID]*record
	spare   []*record
	closed  recent // ids that were settled or cancelled
	looked  int64

	line     line
	touched  []*budget // by this call
	waiting  []Charge  // of a request: those that wait for their limits
	views    []view    // of those
	walked   []*ticket // by tell
	next     []*ticket // of those
	told     []turn    // by this call, to be told when mu is given back
	watchers map[string]func(time.Duration)
}

// record is what one reservation took.
type record struct {
	at    int64 // time of the grant
	parts []part
}

// part is one charge of a reservation, and the slot it was filed under.
type part struct {
	budget *budget
	amount int64
	slot   int64
}

const (
	// A reservation whose owner never settles is forgotten; its charges left
	// their windows, or stand. They are looked through this often.
	openFor  = int64(time.Hour / time.Microsecond)
	openLook = int64(2 * time.Minute / time.Microsecond)
	// A budget that was not asked for this long is looked at, and dropped if it
	// is as good as new.
	idleTime = int64(10 * time.Second / time.Microsecond)
)

// NewMemory returns an empty ledger.
func NewMemory() *Memory {
	return &Memory{
		start:   time.Now(),
		budgets: make(map[budgetKey]*budget),
		open:    make(map[ID]*record),

		line:     newLine(),
		watchers: make(map[string]func(time.Duration)),
	}
}

// NeverBlocks marks Memory as a NonBlocking ledger.
func (m *Memory) NeverBlocks() {}

// now is the time in microseconds. It starts from the wall clock, so that slots
// begin when those of a shared ledger do, and goes on by the monotonic one.
func (m *Memory) now() int64 {
	return m.start.UnixMicro() + time.Since(m.start).Microseconds()
}

// Reserve implements Ledger. It fails only for a bad request or a ctx that has
// already ended.
func (m *Memory) Reserve(ctx context.Context, batch []Request) ([]Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := CheckBatch(batch); err != nil {
		return nil, err
	}
	out := make([]Decision, len(batch))
	m.mu.Lock()
	now := m.begin()
	m.guard = 0
	for i := range batch {
		m.guard = max(m.guard, batch[i].Guard)
		if p := &batch[i].Place; p.Process != "" {
			m.line.saw(p, now)
		}
	}
	for i := range batch {
		out[i] = m.reserve(&batch[i], now)
	}
	if len(m.line.order) > 0 {
		for i := range batch {
			for _, c := range batch[i].Charges {
				m.budget(c.Limit, now)
			}
		}
	}
	m.end(now)
	return out, nil
}

// begin begins a call with mu held.
func (m *Memory) begin() (now int64) {
	now = m.now()
	m.clean(now)
	m.line.absent(now)
	m.batch++
	m.touched = m.touched[:0]
	return now
}

// end gives mu back, and tells those whose turn a call has brought nearer.
func (m *Memory) end(now int64) {
	m.tell(now)
	if len(m.told) == 0 {
		m.mu.Unlock()
		return
	}
	told := m.told
	m.told = nil
	var turns []func(time.Duration)
	for _, t := range told {
		turns = append(turns, m.watchers[t.process])
	}
	m.mu.Unlock()
	for i, turn := range turns {
		if turn != nil {
			turn(told[i].in)
		}
	}
}

func (m *Memory) reserve(r *Request, now int64) Decision {
	if m.open[r.ID] != nil {
		return Decision{Outcome: Granted}
	}
	if m.closed.has(&r.ID) {
		return Decision{Outcome: Refused}
	}
	for _, c := range r.Charges {
		if !c.Overdraw && !c.Limit.CanHold(c.Amount) {
			return Decision{Outcome: TooLarge, Limit: c.Limit}
		}
	}
	var budgets [MaxCharges]*budget
	fits := true
	for i, c := range r.Charges {
		b := m.budget(c.Limit, now)
		b.opens = b.notes.opening(r.Place.Process, true, now)
		budgets[i] = b
		fits = fits && (c.Overdraw || budgets[i].fits(c.Amount))
	}
	if r.Place.Process != "" && (!fits || len(m.line.order) > 0) {
		return m.queue(r, &budgets, now)
	}
	if !fits {
		return deny(r, &budgets, now)
	}
	return m.take(r, &budgets, now)
}

func (m *Memory) take(r *Request, budgets *[MaxCharges]*budget, now int64) Decision {
	rec := m.newRecord()
	rec.at = now
	for i, c := range r.Charges {
		slot := budgets[i].take(r.ID, c.Amount, now)
		rec.parts = append(rec.parts, part{budgets[i], c.Amount, slot})
	}
	m.open[r.ID] = rec
	return Decision{Outcome: Granted}
}

// deny says what binds, and holds the demand on each limit that is short.
func deny(r *Request, budgets *[MaxCharges]*budget, now int64) Decision {
	var (
		binding *Limit
		longest int64
		closed  bool
	)
	for i, c := range r.Charges {
		if c.Overdraw {
			continue
		}
		wait := budgets[i].wait(c.Amount, now)
		if wait > 0 {
			budgets[i].hold(c.Amount)
		}
		if wait > longest {
			binding, longest, closed = c.Limit, wait, budgets[i].opens > 0
		}
	}
	return Decision{Outcome: Denied, Limit: binding, Wait: micros(longest), Closed: closed}
}

// Settle implements Ledger. It fails only for a bad settlement. The context is
// not asked: a caller that went away must not leak budget.
func (m *Memory) Settle(_ context.Context, batch []Settlement) error {
	if err := CheckSettlements(batch); err != nil {
		return err
	}
	m.mu.Lock()
	now := m.begin()
	for i := range batch {
		m.settle(&batch[i], now)
	}
	if len(m.line.order) > 0 {
		for i := range batch {
			for _, f := range batch[i].Final {
				m.budget(f.Limit, now)
			}
		}
	}
	m.end(now)
	return nil
}

func (m *Memory) settle(s *Settlement, now int64) {
	rec := m.open[s.ID]
	if rec == nil {
		if s.Cancel && !m.closed.has(&s.ID) {
			m.closed.add(&s.ID)
		}
		return
	}
	for i, p := range rec.parts {
		p.budget.open--
		if i >= len(s.Final) || keyOf(s.Final[i].Limit) != p.budget.key {
			continue // the limit became another one: the charge stands
		}
		f := s.Final[i]
		if s.Cancel {
			f.Admitted, f.Late = 0, 0
		}
		m.visit(p.budget, f.Limit, now)
		p.budget.settle(s.ID, p, f, rec.at, s.Counted.Microseconds(), now)
	}
	m.line.settled(s)
	delete(m.open, s.ID)
	m.closed.add(&s.ID)
	m.recycle(rec)
}

// Withdraw implements Line.
func (m *Memory) Withdraw(_ context.Context, batch []Request) error {
	if err := CheckBatch(batch); err != nil {
		return err
	}
	m.mu.Lock()
	now := m.begin()
	for i := range batch {
		r := &batch[i]
		if t := m.line.tickets[r.Place.key()]; t != nil {
			m.line.drop(t, false)
		}
		for _, c := range r.Charges {
			m.budget(c.Limit, now)
		}
	}
	m.line.rest()
	m.end(now)
	return nil
}

// Watch implements Line.
func (m *Memory) Watch(ctx context.Context, process string, turn func(in time.Duration)) error {
	m.mu.Lock()
	m.watchers[process] = turn
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	delete(m.watchers, process)
	m.mu.Unlock()
	return ctx.Err()
}

// Inspect implements Line.
func (m *Memory) Inspect(context.Context) (LineState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.line.state
	s.Tickets = int64(len(m.line.order))
	return s, nil
}

// Renew implements Renewer.
func (m *Memory) Renew(_ context.Context, leases []Lease) error {
	if err := CheckLeases(leases); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, l := range leases {
		rec := m.open[l.ID]
		if rec == nil {
			continue
		}
		for _, p := range rec.parts {
			if p.budget.leases != nil && p.budget.key == keyOf(l.Limit) {
				m.touch(p.budget, now)
				p.budget.adopt(l.Limit, m.guard)
				p.budget.lease(l.ID, now)
			}
		}
	}
	return nil
}

// Snapshot implements Snapshotter.
func (m *Memory) Snapshot(_ context.Context, limits []*Limit) ([]Balance, error) {
	if err := CheckLimits(limits); err != nil {
		return nil, err
	}
	out := make([]Balance, len(limits))
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i, l := range limits {
		b := m.budgets[keyOf(l)]
		if b == nil {
			b = newBudget(l)
		}
		b.known(now)
		out[i] = b.balance(l, m.guard, now)
	}
	return out, nil
}

// budget finds or makes the state of a limit, as it is now and as this batch has
// left it.
func (m *Memory) budget(l *Limit, now int64) *budget {
	b := m.budgets[keyOf(l)]
	if b == nil {
		b = newBudget(l)
		m.budgets[b.key] = b
		b.place = m.idle.PushBack(b)
	}
	if b.batch != m.batch {
		m.visit(b, l, now)
	}
	return b
}

// visit brings a budget to now, for this call.
func (m *Memory) visit(b *budget, l *Limit, now int64) {
	if b.batch != m.batch {
		b.batch = m.batch
		m.touched = append(m.touched, b)
	}
	m.touch(b, now)
	b.known(now)
	b.adopt(l, m.guard)
	b.opens = 0
	b.advance(now)
}

func (m *Memory) touch(b *budget, now int64) {
	b.touched = now
	m.idle.MoveToBack(b.place)
}

func (m *Memory) newRecord() *record {
	n := len(m.spare)
	if n == 0 {
		return new(record)
	}
	rec := m.spare[n-1]
	m.spare = m.spare[:n-1]
	return rec
}

func (m *Memory) recycle(rec *record) {
	if len(m.spare) < 1024 {
		clear(rec.parts)
		rec.parts = rec.parts[:0]
		m.spare = append(m.spare, rec)
	}
}

// clean drops what no longer matters: idle budgets a few at a time, more than a
// call adds.
func (m *Memory) clean(now int64) {
	if now-m.looked >= openLook {
		m.looked = now
		m.forget(now)
	}
	for range 2 {
		e := m.idle.Front()
		if e == nil || now-e.Value.(*budget).touched < idleTime {
			break
		}
		if b := e.Value.(*budget); b.forgettable(now) {
			m.idle.Remove(e)
			delete(m.budgets, b.key)
		} else {
			m.touch(b, now) // it gets its next look after the others
		}
	}
}

// forget drops the reservations that nobody settled.
func (m *Memory) forget(now int64) {
	for id, rec := range m.open {
		if now-rec.at <= openFor {
			continue
		}
		for _, p := range rec.parts {
			p.budget.open--
		}
		delete(m.open, id)
		m.recycle(rec)
	}
}
