package sched

import (
	"cmp"
	"slices"
	"time"
)

// oracle is the rules of doc.go again, as plainly as they can be put: one slice
// of jobs, searched for everything. It is what the queue is compared with.
type oracle struct {
	step    time.Duration
	percent int64
	spare   int
	weight  func(string) int64

	jobs           []*oracleJob // waiting or out
	tags           map[flowKey]*oracleTag
	virtual        [Classes]int64
	holders        map[string]oracleHold
	changed        map[laneKey]int // when the number of waiting jobs last changed
	balance, burst int64
	turn, changes  int
}

type flowKey struct {
	class  int
	tenant string
}

type laneKey struct {
	flowKey
	group string
}

type oracleJob struct {
	laneKey
	id      int
	cost    int64
	arrived time.Duration
	shared  []string
	seq     int

	out, aged bool
	turn      int
	share     int64

	limit string // what was last said of it, if it is the head of its lane
	own   bool
	until time.Duration
	said  bool
}

type oracleTag struct {
	finish, entered int64
	competing       bool
}

type oracleHold struct {
	job          *oracleJob
	took, denied int
}

func byAge(a, b *oracleJob) int {
	return cmp.Or(cmp.Compare(a.arrived, b.arrived), cmp.Compare(a.seq, b.seq))
}

// heads are the first jobs of all lanes, from the oldest.
func (o *oracle) heads() []*oracleJob {
	jobs := slices.SortedFunc(slices.Values(o.jobs), byAge)
	seen := map[laneKey]bool{}
	return slices.DeleteFunc(jobs, func(j *oracleJob) bool {
		skip := j.out || seen[j.laneKey]
		seen[j.laneKey] = seen[j.laneKey] || !j.out
		return skip
	})
}

// running are the heads of the lanes that are not parked.
func (o *oracle) running() []*oracleJob {
	return slices.DeleteFunc(o.heads(), func(j *oracleJob) bool { return j.said && j.own })
}

func (o *oracle) start(f flowKey) int64 {
	start := o.tags[f].finish
	for _, j := range o.jobs {
		if j.out && j.flowKey == f {
			start += j.share
		}
	}
	return start
}

func (o *oracle) pending() (credit int64) {
	for _, j := range o.jobs {
		if j.out {
			credit += o.credit(j)
		}
	}
	return credit
}

func (o *oracle) credit(j *oracleJob) int64 {
	if j.aged {
		return j.cost*o.percent - j.cost*100
	}
	return j.cost * o.percent
}

func (o *oracle) forget(j *oracleJob) {
	if h, ok := o.holders[j.limit]; ok && h.job == j && !j.own {
		delete(o.holders, j.limit)
	}
	j.said = false
}

// update follows from any change: what was said of jobs that are not heads is
// void, tenants begin or cease to compete, and tags are forgotten.
func (o *oracle) update() {
	heads := o.heads()
	for _, j := range o.jobs {
		if j.said && !slices.Contains(heads, j) {
			o.forget(j)
		}
	}
	competing, has := map[flowKey]bool{}, map[flowKey]bool{}
	for _, j := range o.running() {
		competing[j.flowKey] = true
	}
	for _, j := range o.jobs {
		has[j.flowKey] = true
		if j.out {
			competing[j.flowKey] = true
		}
	}
	var count [Classes]int
	for f := range competing {
		count[f.class]++
	}
	for f, tag := range o.tags {
		if competing[f] && !tag.competing {
			tag.finish = max(tag.finish, o.virtual[f.class])
			tag.entered = tag.finish
		}
		tag.competing = competing[f]
	}
	for class := range Classes {
		var idle []flowKey
		for f := range o.tags {
			if f.class == class && !has[f] {
				idle = append(idle, f)
			}
		}
		slices.SortFunc(idle, func(a, b flowKey) int { return cmp.Compare(o.tags[a].finish, o.tags[b].finish) })
		for i, f := range idle {
			finish := o.tags[f].finish
			if count[class] > 0 && finish > o.virtual[class] {
				if len(idle)-i <= count[class]+o.spare {
					break
				}
				o.virtual[class] = finish
			}
			delete(o.tags, f)
		}
	}
}

func (o *oracle) push(j *oracleJob) {
	if o.tags[j.flowKey] == nil {
		o.tags[j.flowKey] = &oracleTag{finish: o.virtual[j.class]}
	}
	j.out, j.said = false, false
	o.jobs = append(o.jobs, j)
	o.change(j)
	o.update()
}

func (o *oracle) change(j *oracleJob) {
	o.changes++
	o.changed[j.laneKey] = o.changes
}

func (o *oracle) next(now time.Duration, worst int) *oracleJob {
	for _, j := range o.jobs {
		if j.said && j.until <= now {
			o.forget(j)
		}
	}
	o.update()
	barred := map[string]bool{}
	for {
		j, aged := o.best(now, worst, barred)
		if j == nil {
			return nil
		}
		if j.said {
			barred[j.limit] = true
			continue
		}
		o.turn++
		o.change(j)
		j.out, j.aged, j.turn = true, aged, o.turn
		w := o.weight(j.tenant)
		j.share = max((j.cost*scale+w/2)/w, 1)
		o.update()
		return j
	}
}

func (o *oracle) best(now time.Duration, worst int, barred map[string]bool) (*oracleJob, bool) {
	var classes [Classes][]*oracleJob
	for _, j := range o.running() {
		if j.class <= worst && !slices.ContainsFunc(j.shared, func(l string) bool { return barred[l] }) {
			classes[j.class] = append(classes[j.class], j)
		}
	}
	var first, overdue *oracleJob
	var most time.Duration
	for class, jobs := range classes {
		switch {
		case len(jobs) == 0:
		case first == nil:
			first = slices.MinFunc(jobs, func(a, b *oracleJob) int {
				return cmp.Or(cmp.Compare(o.start(a.flowKey), o.start(b.flowKey)), cmp.Compare(a.seq, b.seq))
			})
		case o.step > 0 && o.balance+o.pending() > 0:
			late := now - jobs[0].arrived - time.Duration(class-first.class)*o.step
			if late >= 0 && (overdue == nil || late > most) {
				overdue, most = jobs[0], late
			}
		}
	}
	if overdue != nil {
		return overdue, true
	}
	return first, false
}

func (o *oracle) granted(j *oracleJob) {
	tag := o.tags[j.flowKey]
	start := tag.finish
	if j.aged {
		for _, h := range o.running() {
			if h.class == j.class {
				start = min(start, o.start(h.flowKey))
			}
		}
	}
	tag.finish += j.share
	o.virtual[j.class] = max(o.virtual[j.class], start)
	o.burst = max(j.cost, o.burst-(o.burst+255)/256)
	o.balance = min(o.balance+o.credit(j), 100*o.burst)
	o.drop(j)
}

func (o *oracle) drop(j *oracleJob) {
	o.jobs = slices.DeleteFunc(o.jobs, func(k *oracleJob) bool { return k == j })
	o.forget(j)
	o.update()
}

func (o *oracle) denied(j *oracleJob, limit string, own bool, until time.Duration) {
	j.out = false
	o.change(j)
	if slices.Contains(o.heads(), j) {
		own = own || !slices.Contains(j.shared, limit)
		for _, k := range o.jobs { // the head before it
			if k.laneKey == j.laneKey && k.said {
				o.forget(k)
			}
		}
		h, held := o.holders[limit]
		o.turn++ // so that no two events are at once
		if own || !held || j.turn < h.took || j.turn > h.denied {
			if !own {
				if held {
					o.forget(h.job)
				}
				o.holders[limit] = oracleHold{j, j.turn, o.turn}
			}
			j.said, j.limit, j.own, j.until = true, limit, own, until
		}
	}
	o.update()
}

func (o *oracle) settled(f flowKey, delta int64) {
	tag := o.tags[f]
	busy := slices.ContainsFunc(o.running(), func(j *oracleJob) bool { return j.class == f.class }) ||
		slices.ContainsFunc(o.jobs, func(j *oracleJob) bool { return j.class == f.class && j.out })
	if tag == nil {
		if delta <= 0 || !busy {
			return
		}
		tag = &oracleTag{finish: o.virtual[f.class]}
		o.tags[f] = tag
	}
	w := o.weight(f.tenant)
	if delta >= 0 {
		tag.finish += (delta*scale + w/2) / w
	} else {
		tag.finish -= (-delta*scale + w/2) / w
	}
	if slices.ContainsFunc(o.jobs, func(j *oracleJob) bool { return j.flowKey == f }) {
		tag.finish = max(tag.finish, tag.entered)
	}
	o.update()
}

func (o *oracle) free(limit string) {
	for _, j := range o.jobs {
		if j.said && j.limit == limit {
			o.forget(j)
		}
	}
	o.update()
}

func (o *oracle) remove(j *oracleJob) bool {
	if j.out || !slices.Contains(o.jobs, j) {
		return false
	}
	o.change(j)
	o.drop(j)
	return true
}

func (o *oracle) wake() (at time.Duration, ok bool) {
	for _, j := range o.jobs {
		if j.said && (!ok || j.until < at) {
			at, ok = j.until, true
		}
	}
	return at, ok
}

func (o *oracle) victim(class int) *oracleJob {
	lanes := map[laneKey][]*oracleJob{}
	for _, j := range o.jobs {
		if !j.out && j.class == class {
			lanes[j.laneKey] = append(lanes[j.laneKey], j)
		}
	}
	var best []*oracleJob
	for k, jobs := range lanes {
		if len(jobs) > len(best) || len(jobs) == len(best) && o.changed[k] > o.changed[best[0].laneKey] {
			best = jobs
		}
	}
	if best == nil {
		return nil
	}
	return slices.MaxFunc(best, byAge)
}
