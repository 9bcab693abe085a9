package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model drives a queue and the oracle with the same operations.
type model struct {
	t     testing.TB
	q     *Queue
	o     *oracle
	now   time.Duration
	seq   int
	known []*pair // every job ever made
	out   []*pair
	log   []string
}

type pair struct {
	Job
	twin *oracleJob
}

var (
	modelTenants = []string{"a", "b", "c", "d", "e", "f"}
	modelClasses = []int{1, 1, 5, 5, 5, 8}
	modelGroups  = []string{"x", "x", "y", "z"}
	modelShared  = map[string][]string{"x": {"account", "x"}, "y": {"account"}, "z": {"z", "x"}}
	modelLimits  = []string{"account", "x", "z", "own-a", "own-b", ""}
)

func modelWeight(tenant string) int64 { return int64(tenant[0]-'a')*3 + 1 }

func newModel(t testing.TB, step time.Duration) *model {
	q := New(Config{AgingStep: step, Weight: modelWeight})
	q.slack = 1
	return &model{t: t, q: q, o: &oracle{
		step: step, percent: defaultAgedShare, spare: 1, weight: modelWeight,
		tags: map[flowKey]*oracleTag{}, holders: map[string]oracleHold{}, changed: map[laneKey]int{},
	}}
}

// play reads operations from ops until it is used up, comparing after each.
func (m *model) play(ops []byte) {
	for len(ops) > 0 {
		n := min(len(ops), 3)
		var b [3]byte
		copy(b[:], ops[:n])
		ops = ops[n:]
		m.step(b[0], int(b[1]), int(b[2]))
		m.compare()
	}
}

func (m *model) step(op byte, x, y int) {
	switch op % 16 {
	case 0, 1, 2, 3, 4:
		m.push(x, y)
	case 5, 6, 7:
		for range x%4 + 1 {
			m.next(y % 12)
		}
	case 8, 9:
		if len(m.out) > 0 {
			p := m.answer(x)
			m.logf("granted %d", p.twin.id)
			m.q.Granted(&p.Job)
			m.o.granted(p.twin)
		}
	case 10, 11:
		if len(m.out) > 0 {
			p := m.answer(x)
			limit, own := modelLimits[y%len(modelLimits)], y/8%3 == 0
			until := m.now + time.Duration(y/32-1)*time.Second
			m.logf("denied %d %q own=%v until %v", p.twin.id, limit, own, until)
			m.q.Denied(&p.Job, limit, own, until)
			m.o.denied(p.twin, limit, own, until)
		}
	case 12:
		m.now += time.Duration(x%8) * 500 * time.Millisecond
		m.logf("now %v", m.now)
	case 13:
		limit := modelLimits[x%len(modelLimits)]
		m.logf("free %q", limit)
		m.q.Free(limit)
		m.o.free(limit)
	case 14:
		f := flowKey{modelClasses[x%len(modelClasses)], modelTenants[y%len(modelTenants)]}
		delta := int64(x-128) * 10
		m.logf("settled %v %d", f, delta)
		m.q.Settled(f.tenant, f.class, delta)
		m.o.settled(f, delta)
	case 15:
		if len(m.known) > 0 {
			p := m.known[len(m.known)-1-(x+256*y)%min(len(m.known), 40)]
			m.logf("remove %d", p.twin.id)
			if got, want := m.q.Remove(&p.Job), m.o.remove(p.twin); got != want {
				m.fail("Remove: %v, want %v", got, want)
			}
		}
	}
}

// push adds a new job, or sends back one that has left.
func (m *model) push(x, y int) {
	if old := m.known; y%5 == 0 && len(old) > 0 {
		if p := old[x%len(old)]; p.lane == nil {
			m.logf("push %d again", p.twin.id)
			m.q.Push(&p.Job)
			m.o.push(p.twin)
			return
		}
	}
	group := modelGroups[y%len(modelGroups)]
	p := &pair{
		Job: Job{
			Tenant: modelTenants[x%len(modelTenants)], Class: modelClasses[y%len(modelClasses)], Group: group,
			Cost: int64(x*y%9)*100 + 1, Arrived: max(m.now-time.Duration(x%3)*time.Second, 0), Shared: modelShared[group],
		},
		twin: &oracleJob{id: len(m.known)},
	}
	p.Value = p
	m.seq++
	*p.twin = oracleJob{
		laneKey: laneKey{flowKey{p.Class, p.Tenant}, group}, id: len(m.known), cost: p.Cost,
		arrived: p.Arrived, shared: p.Shared, seq: m.seq,
	}
	m.known = append(m.known, p)
	m.logf("push %d %v cost %d arrived %v", p.twin.id, p.twin.laneKey, p.Cost, p.Arrived)
	m.q.Push(&p.Job)
	m.o.push(p.twin)
}

func (m *model) next(worst int) {
	got, want := -1, -1
	j := m.q.Next(m.now, worst)
	if j != nil {
		got = j.Value.(*pair).twin.id
	}
	if twin := m.o.next(m.now, min(worst, Classes-1)); twin != nil {
		want = twin.id
	}
	m.logf("next worst=%d: %d", worst, want)
	if got != want {
		m.fail("Next: %d, want %d", got, want)
	}
	if j != nil {
		m.out = append(m.out, j.Value.(*pair))
	}
	m.compare()
}

func (m *model) answer(x int) *pair {
	i := x % len(m.out)
	p := m.out[i]
	m.out = slices.Delete(m.out, i, i+1)
	return p
}

func (m *model) compare() {
	q, o := m.q, m.o
	m.equal("Len", q.Len(), len(o.jobs))
	at, ok := q.Wake()
	wantAt, wantOK := o.wake()
	m.equal("Wake", fmt.Sprint(at, ok), fmt.Sprint(wantAt, wantOK))
	m.equal("credit", q.credit.balance+q.credit.pending, o.balance+o.pending())
	var classes [Classes]int
	tenants := map[string]int{}
	for _, j := range o.jobs {
		classes[j.class]++
		tenants[j.tenant]++
	}
	for _, tenant := range modelTenants {
		m.equal("LenTenant", q.LenTenant(tenant), tenants[tenant])
	}
	flows := 0
	for i := range q.classes {
		c := &q.classes[i]
		m.equal("LenClass", q.LenClass(i), classes[i])
		m.equal("virtual time", c.virtual, o.virtual[i])
		got, want := -1, -1
		if j := q.Victim(i); j != nil {
			got = j.Value.(*pair).twin.id
		}
		if j := o.victim(i); j != nil {
			want = j.id
		}
		m.equal("Victim", got, want)
		for tenant, f := range c.flows {
			flows++
			if tag := o.tags[flowKey{i, tenant}]; tag == nil || tag.finish != f.finish {
				m.fail("class %d, tenant %s: finish %d, want %v", i, tenant, f.finish, tag)
			}
		}
	}
	m.equal("flows", flows, len(o.tags))
	for _, p := range m.known[max(0, len(m.known)-50):] {
		limit, own, ok := q.Blocked(&p.Job)
		if head := p.lane != nil && p.lane.head == &p.Job; head {
			m.equal("Blocked", fmt.Sprint(limit, own, ok), fmt.Sprint(wantBlocked(p.twin)))
		} else if p.twin.said {
			m.fail("job %d is blocked", p.twin.id)
		}
	}
	if err := q.check(); err != nil {
		m.fail("%v", err)
	}
}

func wantBlocked(j *oracleJob) (string, bool, bool) {
	if !j.said {
		return "", false, false
	}
	return j.limit, j.own, true
}

func (m *model) logf(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) equal(what string, got, want any) {
	if got != want {
		m.fail("%s: %v, want %v", what, got, want)
	}
}

func (m *model) fail(format string, args ...any) {
	for _, line := range m.log[max(0, len(m.log)-60):] {
		m.t.Log(line)
	}
	m.t.Fatalf(format, args...)
}

// temporalio/temporal#9370: a heap with the wrong indexes gives wrong results.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, i))
		ops := make([]byte, 3*300)
		for k := range ops {
			ops[k] = byte(rnd.Uint32())
		}
		step := time.Duration(rnd.IntN(3)) * time.Second
		if !t.Run(fmt.Sprintf("seed=%d,%d,step=%v", seed, i, step), func(t *testing.T) { newModel(t, step).play(ops) }) {
			return
		}
	}
}

// FuzzQueue does the same with operations that the fuzzer makes up. Its inputs are
// long: it is of more use with -fuzzminimizetime=1x.
func FuzzQueue(f *testing.F) {
	for i := range uint64(8) {
		rnd := rand.New(rand.NewPCG(i, 1))
		ops := make([]byte, 300)
		for k := range ops {
			ops[k] = byte(rnd.Uint32())
		}
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		newModel(t, time.Second).play(ops[:min(len(ops), 600)])
	})
}
