package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Place is where a request stands in the line, the order in which the waiting jobs
// of all processes are served. A request with no Process stands in none: it is
// decided by the balances alone.
type Place struct {
	// Process names the dispatcher: who is told when its turn has come.
	Process string
	// Lane names the lane of the job within its process. A lane has one ticket.
	Lane string
	// Tenant and Class (0 to 9, lower first) say whose turn it is, and Weight
	// (at least 1) how large the tenant's share of its class is.
	Tenant string
	Class  int
	Weight int64
	// Cost is what fairness counts, in tokens.
	Cost int64
	// Waited is the job's age by the clock of its process.
	Waited time.Duration
	// AgingStep is how long a job waits, for each class from the most urgent one
	// in line to its own, until it is overdue; 0 or less: it never is. AgedShare
	// is the part of what is granted, in percent, that overdue work may take
	// before more urgent work.
	AgingStep time.Duration
	AgedShare int64
	// Ticket says that the request is the first of its lane, and stays in line
	// when it is denied.
	Ticket bool
}

// Line is a ledger that keeps the line.
type Line interface {
	Ledger
	// Withdraw takes the tickets of the requests' lanes out of the line. The
	// charges say on which limits somebody else may go now.
	Withdraw(ctx context.Context, batch []Request) error
	// Watch calls turn whenever a ticket of the process may go sooner than it was
	// told: so long from then. It returns when ctx ends. turn must not block.
	Watch(ctx context.Context, process string, turn func(in time.Duration)) error
	// Inspect counts what is in line and what has happened there.
	Inspect(ctx context.Context) (LineState, error)
}

// LineState is what a line has come to.
type LineState struct {
	Tickets int64
	// Grants are those made while somebody was in line. Inversions are those of
	// them that went to a request behind a ticket that fitted all its limits and
	// had done so for over 100 ms.
	Grants, Inversions int64
	// Messages told a process that a ticket may go sooner.
	Messages int64
}

const (
	classes = 10
	// tagUnit is the unit of tags: 1/256 of a token per unit of weight.
	tagUnit = 1 << 8
	// MaxWeight and maxCost keep tags whole in a double.
	MaxWeight = 1 << 20
	maxCost   = 1 << 40
	// maxWaited keeps the times of arrival positive.
	maxWaited = 10 * 365 * 24 * time.Hour

	// A ticket that was told to come and has not come for this long is passed
	// over, and dropped a little later.
	lateAfter   = int64(250 * time.Millisecond / time.Microsecond)
	expireAfter = int64(2 * time.Second / time.Microsecond)
	// farWait is when a ticket asks again that has more in front of it than can be
	// reckoned: it will be told before. But those who would be told may be gone, and who
	// would notice that, too. So each of several processes asks again after lookEach
	// for every one that is in line, and at least lookLeast.
	farWait   = int64(20 * time.Second / time.Microsecond)
	lookLeast = int64(2 * time.Second / time.Microsecond)
	lookEach  = int64(500 * time.Millisecond / time.Microsecond)
	// slowAfter is how long a ticket may go and does not before being passed counts.
	slowAfter = int64(100 * time.Millisecond / time.Microsecond)
	// tellSooner is by how much a turn must be sooner than was told to be worth
	// a message.
	tellSooner = int64(time.Millisecond / time.Microsecond)
	// tellWalk is how many tickets are looked at for one to tell, more than one
	// dispatcher has, among five times as many that may not need what came back.
	tellWalk = 10
	// lateMost is how many of those are looked at in one call.
	lateMost = 64
	// A request that a limit alone holds up for longer than this is in no line: until
	// then others will be.
	awayAfter = int64(2 * time.Minute / time.Microsecond)
	// watchFor is how long after a ticket's turn somebody else looks whether it came.
	watchFor = lateAfter + int64(10*time.Millisecond/time.Microsecond)
)

// line is the order of the waiting jobs of all processes: a value without lock or
// clock. Times are microseconds of the ledger's clock.
//
// A ticket is stamped when it joins the line, as in start-time fair queueing, with
// the start tag of its tenant in its class; the tag moves on by the ticket's cost
// over the weight. So the line needs no sorting when something is granted, and a
// decision looks no further than at those who are in front.
type line struct {
	tickets   map[ticketKey]*ticket
	order     []*ticket // byRank
	age       [classes][]*ticket
	due       []*ticket
	processes map[string]*process
	finish    map[tag]int64  // a tenant's next start
	virtual   [classes]int64 // the largest start granted
	seq       int64
	// less says for each class by how much it has had less than AgedShare of what was
	// granted, and rule by how much overdue work was put before more urgent work for
	// less than that, in hundredths of a token. A class that gets its share by its own
	// rank never makes more urgent work wait, and all that do take no more than one
	// share. burst, the largest cost lately, bounds both.
	less        [classes]int64
	rule, burst int64
	step        int64 // AgingStep of the last call
	state       LineState
}

type ticketKey struct{ process, lane string }

type tag struct {
	class  int
	tenant string
}

// ticket is the place of a lane in the line.
type ticket struct {
	key     ticketKey
	process *process
	tag     tag
	start   int64
	seq     int64
	share   int64 // what it added to its tenant's tag
	cost    int64
	arrived int64 // of its job
	due     int64 // when its process was told to come
	demand  []demand
}

// demand is what a ticket needs of a limit.
type demand struct {
	key    budgetKey
	amount int64
	ready  int64 // when the limit alone would allow for it, when it was last asked
}

// process is who holds tickets.
type process struct {
	tickets int
	seen    int64 // its last call
	stalled bool  // since then it did not come when it was told to
}

func newLine() line {
	return line{
		tickets:   make(map[ticketKey]*ticket),
		processes: make(map[string]*process),
		finish:    make(map[tag]int64),
	}
}

// validate returns an error that names the field, or nil.
func (p *Place) validate() error {
	switch {
	case p.Process == "":
	case len(p.Process) > 128 || len(p.Lane) > 4*maxKey || len(p.Tenant) > maxKey:
		return fmt.Errorf("place: Process, Lane and Tenant must have at most 128, %d and %d bytes", 4*maxKey, maxKey)
	case p.Class < 0 || p.Class >= classes:
		return fmt.Errorf("place: Class must be from 0 to %d, not %d", classes-1, p.Class)
	case p.Waited < 0 || p.Waited > maxWaited:
		return fmt.Errorf("place: Waited must be from 0 to %v, not %v", maxWaited, p.Waited)
	case p.AgedShare < 0 || p.AgedShare > 100:
		return fmt.Errorf("place: AgedShare must be from 0 to 100, not %d", p.AgedShare)
	}
	return nil
}

// hint is when a ticket of a process asks again whose limits may allow for it after so
// long. far says that this may be too soon, and closed that it can not be sooner.
func (x *line) hint(process string, longest int64, far, closed bool) int64 {
	if far {
		longest = max(longest, farWait)
	}
	n := int64(len(x.processes))
	if x.processes[process] == nil {
		n++
	}
	if n > 1 && !closed {
		longest = min(longest, min(max(n*lookEach, lookLeast), farWait))
	}
	return longest
}

func (p *Place) key() ticketKey { return ticketKey{p.Process, p.Lane} }

// shareOf is what a cost moves a tag by.
func shareOf(cost, weight int64) int64 {
	return max(min(max(cost, 1), maxCost)*tagUnit/min(max(weight, 1), MaxWeight), 1)
}

// before is the order of the line, except for overdue work.
func (t *ticket) before(class int, start, seq int64) bool {
	return cmp.Or(cmp.Compare(t.tag.class, class), cmp.Compare(t.start, start), cmp.Compare(t.seq, seq)) < 0
}

func byRank(a, b *ticket) int {
	return cmp.Or(cmp.Compare(a.tag.class, b.tag.class), cmp.Compare(a.start, b.start), cmp.Compare(a.seq, b.seq))
}

func byAge(a, b *ticket) int {
	return cmp.Or(cmp.Compare(a.arrived, b.arrived), cmp.Compare(a.seq, b.seq))
}

func byDue(a, b *ticket) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq))
}

func insert(row []*ticket, t *ticket, by func(a, b *ticket) int) []*ticket {
	i, _ := slices.BinarySearchFunc(row, t, by)
	return slices.Insert(row, i, t)
}

func remove(row []*ticket, t *ticket, by func(a, b *ticket) int) []*ticket {
	i, _ := slices.BinarySearchFunc(row, t, by)
	return slices.Delete(row, i, i+1)
}

// saw notes that a process has called.
func (x *line) saw(p *Place, now int64) {
	x.step = p.AgingStep.Microseconds()
	if p := x.processes[p.Process]; p != nil {
		p.seen, p.stalled = now, false
	}
}

// startOf is the tag at which the next job of a tenant starts.
func (x *line) startOf(g tag) int64 { return max(x.virtual[g.class], x.finish[g]) }

// put gives the request's lane a ticket, or its ticket the request's demand.
func (x *line) put(p *Place, demand []demand, due, now int64) {
	key := p.key()
	share := shareOf(p.Cost, p.Weight)
	t := x.tickets[key]
	if t == nil {
		g := tag{p.Class, p.Tenant}
		x.seq++
		t = &ticket{key: key, tag: g, start: x.startOf(g), seq: x.seq}
		if t.process = x.processes[p.Process]; t.process == nil {
			t.process = &process{seen: now}
			x.processes[p.Process] = t.process
		}
		t.process.tickets++
		x.finish[g] = t.start
		x.tickets[key] = t
		x.order = insert(x.order, t, byRank)
	} else {
		x.age[t.tag.class] = remove(x.age[t.tag.class], t, byAge)
		x.due = remove(x.due, t, byDue)
	}
	x.finish[t.tag] += share - t.share
	t.share, t.cost, t.demand, t.due = share, p.Cost, demand, due
	t.arrived = now - p.Waited.Microseconds()
	x.age[t.tag.class] = insert(x.age[t.tag.class], t, byAge)
	x.due = insert(x.due, t, byDue)
}

// drop takes a ticket out of the line. Unless it was granted its tenant's tag goes
// back. When nobody is left nothing is remembered: nobody wanted what was used.
func (x *line) drop(t *ticket, granted bool) {
	if !granted {
		x.finish[t.tag] -= t.share
	}
	delete(x.tickets, t.key)
	x.order = remove(x.order, t, byRank)
	x.age[t.tag.class] = remove(x.age[t.tag.class], t, byAge)
	x.due = remove(x.due, t, byDue)
	if t.process.tickets--; t.process.tickets == 0 {
		delete(x.processes, t.key.process)
	}
}

// settled corrects a tenant's tag by what a job used more than it cost.
func (x *line) settled(s *Settlement) {
	g := tag{s.Class, s.Tenant}
	f, ok := x.finish[g]
	switch {
	case !ok || s.Extra == 0:
	case s.Extra > 0:
		x.finish[g] = f + shareOf(s.Extra, s.Weight)
	default:
		x.finish[g] = max(f-shareOf(-s.Extra, s.Weight), 0)
	}
}

// absent finds out which processes did not come when they were told to, and drops the
// tickets of those that are gone: what a call decides does not depend on how far it
// looks.
func (x *line) absent(now int64) {
	late := x.due[:min(len(x.due), lateMost)]
	gone := 0
	for _, t := range late {
		switch {
		case now > t.due+expireAfter:
			gone++
		case now > t.due+lateAfter && t.process.seen <= t.due:
			t.process.stalled = true
		}
	}
	for range gone {
		x.drop(x.due[0], false)
	}
	if gone > 0 {
		x.rest()
	}
}

// rest forgets the tags when the line is empty, and those that say nothing when
// there are many.
func (x *line) rest() {
	if len(x.order) == 0 {
		clear(x.finish)
		x.virtual = [classes]int64{}
		return
	}
	if len(x.finish) > 2*len(x.order)+1024 {
		for g, f := range x.finish {
			if f <= x.virtual[g.class] {
				delete(x.finish, g)
			}
		}
	}
}

// passed says whether a ticket is passed over: its process was told to come for it
// and did not.
func (t *ticket) passed(now int64) bool { return t.process.stalled || now > t.due+lateAfter }

// overdue is the ticket, or the place p itself (own), that goes before all others
// because its class has waited longest beyond its time. p may be nil.
func (x *line) overdue(p *Place, now int64) (first *ticket, own bool) {
	if x.step <= 0 || x.rule <= 0 {
		return nil, false
	}
	urgent := classes
	if len(x.order) > 0 {
		urgent = x.order[0].tag.class
	}
	if p != nil {
		urgent = min(urgent, p.Class)
	}
	worst := int64(-1)
	for c := urgent + 1; c < classes; c++ {
		if x.less[c] <= 0 {
			continue
		}
		oldest := x.oldest(c, p, now)
		arrived, mine := now+1, false
		if oldest != nil {
			arrived = oldest.arrived
		}
		if p != nil && c == p.Class && p.Ticket && now-p.Waited.Microseconds() <= arrived {
			arrived, mine = now-p.Waited.Microseconds(), true
		}
		if late := now - arrived - int64(c-urgent)*x.step; late > worst {
			worst, first, own = late, oldest, mine
		}
	}
	if own {
		first = nil
	}
	return first, own
}

// oldest is the ticket of a class whose job came first, but for p's own: p speaks
// for itself.
func (x *line) oldest(class int, p *Place, now int64) *ticket {
	for _, t := range x.age[class] {
		if !t.passed(now) && (p == nil || !p.Ticket || t.key != p.key()) {
			return t
		}
	}
	return nil
}

// granted counts a grant made while somebody is in line.
func (x *line) granted(p *Place, start int64, aged bool) {
	cost := min(max(p.Cost, 1), maxCost)
	x.burst = max(cost, x.burst-(x.burst+255)/256)
	earned := cost * p.AgedShare
	for c := range x.less {
		taken := int64(0)
		if c == p.Class {
			taken = cost * 100
		}
		x.less[c] = x.within(x.less[c] + earned - taken)
	}
	x.rule += earned
	if aged {
		x.rule -= cost * 100
	}
	x.rule = x.within(x.rule)
	if aged {
		// Its class was not served up to its own tag, but to the smallest left.
		for _, t := range x.order {
			if t.tag.class == p.Class {
				start = min(start, t.start)
				break
			}
		}
	}
	x.virtual[p.Class] = max(x.virtual[p.Class], start)
	x.state.Grants++
}

// within bounds a credit by one burst, and a debt by three: a class that has had more
// than its share waits through a crowd of urgent work before it asks for that again.
func (x *line) within(credit int64) int64 { return max(min(credit, x.burst*100), -3*x.burst*100) }
