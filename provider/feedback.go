package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// FeedbackConfig is what a Feedback is made of.
type FeedbackConfig struct {
	// Profile reads the answers of the account's provider.
	Profile *Profile
	// Plan has the limits that the account's jobs are charged to.
	Plan *Plan
	// Ledger keeps those limits, and tells the other processes.
	Ledger ledger.Feedback
	// KeepAmounts leaves the amounts of the plan as they are, whatever the provider
	// tells, for a plan that is to use only a part of an account.
	KeepAmounts bool
	// Logger gets refusals and changed limits. nil is slog.Default().
	Logger *slog.Logger
	// Timeout is for one call of the ledger; 0 means 250 ms.
	Timeout time.Duration
	// Minute is how long the provider's minute lasts, for a test that has no time to
	// wait; 0 means a minute.
	Minute time.Duration
}

// Feedback hears the answers of one account's provider. It adopts the limits that
// they tell, lets the ledger know of the traffic of others on the account, and closes
// for the whole fleet what the provider refused. It is safe for concurrent use.
type Feedback struct {
	cfg FeedbackConfig

	mu    sync.Mutex
	kinds map[planKey]*hearing
}

// hearing is what a Feedback remembers of one kind of job.
type hearing struct {
	next     time.Time     // when an answer is worth telling the ledger again
	interval time.Duration // from one to the next
	refused  int           // in a row
}

// ErrFeedback is wrapped by every complaint about a FeedbackConfig.
var ErrFeedback = errors.New("provider: bad feedback")

// NewFeedback returns a Feedback for an account.
func NewFeedback(cfg FeedbackConfig) (*Feedback, error) {
	switch {
	case cfg.Profile == nil || cfg.Plan == nil || cfg.Ledger == nil:
		return nil, fmt.Errorf("%w: it needs a Profile, a Plan and a Ledger", ErrFeedback)
	case cfg.Timeout < 0 || cfg.Minute < 0:
		return nil, fmt.Errorf("%w: Timeout and Minute must not be negative", ErrFeedback)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 250 * time.Millisecond
	}
	if cfg.Minute == 0 {
		cfg.Minute = minute
	}
	return &Feedback{cfg: cfg, kinds: make(map[planKey]*hearing)}, nil
}

// Head is the head of the answer to a call, as far as it is about limits.
type Head struct {
	Job     *job.Spec
	Granted time.Time // no later than the call was sent
	Status  int
	Header  http.Header
	// Refusal is what the answer says about trying again, for one that was not a
	// success.
	Refusal Refusal
}

// The intervals in which a process tells the ledger what remains, in parts of the
// provider's minute: short while that is news, and longer each time that it is none.
const (
	soonest, latest = 64, 4
	// firstClose is for how long a refusal without a hint closes a limit; each
	// further one in a row doubles it.
	firstClose, longestClose = 60, 2
	// slowDown is by how many percent a refusal of quick growth slows the traffic.
	slowDown = 30
)

// Hear takes notice of an answer. It takes at most the time of a call of the ledger,
// mostly none. It reports whether the answer was a refusal by a limit that is closed
// now: the job then waits in its place until that opens.
func (f *Feedback) Hear(ctx context.Context, a Head) (closed bool) {
	limits := f.cfg.Plan.observed(a.Job)
	if len(limits) == 0 {
		return false
	}
	k := planKey{a.Job.Model, a.Job.Tenant, a.Job.Priority.Class()}
	batch, changed := f.read(a, limits)
	refused := a.Refusal.Class == RateLimited || a.Refusal.Class == Acceleration
	if refused {
		f.close(a, limits, batch, f.refusals(k))
	}
	if !f.due(k, refused || changed) {
		return false
	}
	// A caller that is gone is no reason for others to send.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.cfg.Timeout)
	defer cancel()
	standings, err := f.cfg.Ledger.Observe(ctx, batch)
	if err != nil {
		f.cfg.Logger.Warn("the ledger did not hear what the provider said", "error", err)
		return false
	}
	if refused {
		f.blame(ctx, a, batch, standings)
	}
	f.heard(k, a, batch, standings)
	for _, o := range batch {
		closed = closed || o.Close > 0
	}
	return closed
}

// read turns the headers into observations, one per limit, and adopts changed
// amounts.
func (f *Feedback) read(a Head, limits []observed) (batch []ledger.Observation, changed bool) {
	batch = make([]ledger.Observation, len(limits))
	ago := max(time.Since(a.Granted), 0)
	for i, l := range limits {
		batch[i] = ledger.Observation{Limit: l.limit, Used: ledger.Untold, Bucket: f.bucket(l), Ago: ago}
	}
	for _, r := range f.cfg.Profile.Limits(a.Status, a.Header) {
		unit, ok := units[r.Name]
		if !ok {
			continue
		}
		window := f.window(r)
		for i, l := range limits {
			if l.limit.Unit != unit {
				continue
			}
			o := &batch[i]
			switch {
			case l.limit.Window == window:
				if r.Limit != Absent {
					o.Amount = r.Limit
				}
			case r.Limit != Absent && l.limit.Window < window && l.rule.part:
				o.Amount = int64(float64(r.Limit) * float64(l.limit.Window) / float64(window))
			}
			of := window
			if r.RemainingWindow > 0 {
				of = f.scaled(r.RemainingWindow)
			}
			amount := o.Amount
			if amount == 0 {
				amount = l.limit.Amount
			}
			if l.limit.Window == of && r.Remaining != Absent && amount > 0 {
				o.Used = max(amount-r.Remaining-r.Rounding, 0)
			}
		}
	}
	for i := range batch {
		if o := &batch[i]; o.Amount > 0 && f.adopt(a, o) {
			changed = true
		}
	}
	return batch, changed
}

// units are what the names in Reported limit.
var units = map[string]ledger.Unit{
	"requests": ledger.Requests, "tokens": ledger.Tokens, "input_tokens": ledger.InputTokens, "output_tokens": ledger.OutputTokens,
	"requests_day": ledger.Requests, "tokens_day": ledger.Tokens,
}

// window is what a reported limit is for. A provider that does not say it reports the
// tighter of a minute and a day, which shows in the time that a unit takes.
func (f *Feedback) window(r Reported) time.Duration {
	w := r.Window
	if w == 0 {
		w = minute
		if used := r.Limit - r.Remaining; r.Limit > 0 && r.Remaining != Absent && used > 0 && r.Reset > 0 &&
			float64(r.Reset)*float64(r.Limit)/float64(used) > float64(time.Hour) {
			w = day
		}
	}
	return f.scaled(w)
}

func (f *Feedback) scaled(w time.Duration) time.Duration {
	return time.Duration(float64(w) / float64(minute) * float64(f.cfg.Minute))
}

// bucket says whether the provider is known to refill a bucket.
func (f *Feedback) bucket(l observed) bool {
	for _, d := range f.cfg.Profile.Dimensions {
		if d.Unit == l.limit.Unit && f.scaled(d.Window) == l.limit.Window {
			return d.Algorithm == Continuous
		}
	}
	return false
}

// adopt makes what was told the amount of the plan's limit, and of the observation.
func (f *Feedback) adopt(a Head, o *ledger.Observation) bool {
	before := o.Limit.Amount
	if f.cfg.KeepAmounts && before > 0 || before == o.Amount || !f.cfg.Plan.Adopt(o.Limit.Key, o.Amount) {
		return false
	}
	f.cfg.Logger.Info("the provider told a limit", "model", a.Job.Model, "limit", o.Limit.Key, "unit", o.Limit.Unit.String(), "was", before, "is", o.Amount)
	l := *o.Limit
	l.Amount = o.Amount
	o.Limit = &l
	return true
}

// refusals counts a refusal, and returns how many there were in a row.
func (f *Feedback) refusals(k planKey) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hearing(k)
	h.refused++
	return h.refused
}

func (f *Feedback) hearing(k planKey) *hearing {
	h := f.kinds[k]
	if h == nil {
		if len(f.kinds) >= maxKnown {
			clear(f.kinds)
		}
		h = &hearing{interval: f.cfg.Minute / soonest}
		f.kinds[k] = h
	}
	return h
}

// close has the observations close what the refusal was for.
func (f *Feedback) close(a Head, limits []observed, batch []ledger.Observation, row int) {
	wait := a.Refusal.After
	if a.Refusal.From == FromNowhere {
		wait = min(f.cfg.Minute/firstClose<<min(row-1, 10), f.cfg.Minute/longestClose)
	}
	// The provider's clock may be a little behind, and others come back too.
	wait = min(wait+rand.N(wait/10+1), maxClose)
	for i, l := range limits {
		o := &batch[i]
		switch {
		case a.Refusal.Class == Acceleration:
			o.Slower, o.Close = slowDown, wait
		case f.within(a.Refusal.Scope, l.limit):
			o.Close = wait
		}
	}
}

// maxClose is the longest time that the ledger closes a limit.
const maxClose = 32 * day

// blame lowers the margin of the limit that refused: the fullest of those that it may
// have been.
func (f *Feedback) blame(ctx context.Context, a Head, batch []ledger.Observation, standings []ledger.Standing) {
	fullest, most := -1, -1.0
	for i, o := range batch {
		if o.Slower > 0 {
			continue
		}
		if used := float64(standings[i].Used+standings[i].Others) / float64(max(o.Limit.Amount, 1)); o.Close > 0 && used > most {
			fullest, most = i, used
		}
	}
	if fullest < 0 {
		return
	}
	o := ledger.Observation{Limit: batch[fullest].Limit, Used: ledger.Untold, Ago: time.Since(a.Granted), Refused: true}
	if s, err := f.cfg.Ledger.Observe(ctx, []ledger.Observation{o}); err == nil {
		standings[fullest] = s[0]
	}
}

// within says whether a limit is one that a refusal of that scope may be for.
func (f *Feedback) within(s Scope, l *ledger.Limit) bool {
	short := l.Window <= f.scaled(10*minute)
	switch s {
	case ScopeRequests:
		return l.Unit == ledger.Requests && short
	case ScopeTokens:
		return short && (l.Unit == ledger.Tokens || l.Unit == ledger.InputTokens || l.Unit == ledger.OutputTokens)
	case ScopeInputTokens:
		return short && (l.Unit == ledger.InputTokens || l.Unit == ledger.Tokens)
	case ScopeOutputTokens:
		return short && (l.Unit == ledger.OutputTokens || l.Unit == ledger.Tokens)
	case ScopeDay:
		return l.Window == f.scaled(day)
	case ScopeMonth:
		return l.Window > f.scaled(day)
	case ScopeUnknown:
		return short
	}
	return false
}

// due says whether the ledger should hear of an answer.
func (f *Feedback) due(k planKey, news bool) bool {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hearing(k)
	if !news && now.Before(h.next) {
		return false
	}
	h.next = now.Add(h.interval)
	return true
}

// heard takes what the ledger made of it.
func (f *Feedback) heard(k planKey, a Head, batch []ledger.Observation, standings []ledger.Standing) {
	news := false
	for i, s := range standings {
		o := &batch[i]
		margin := float64(s.Margin) / ledger.FullMargin
		if s.Amount > 0 && o.Amount == 0 && !f.cfg.KeepAmounts && f.cfg.Plan.Adopt(o.Limit.Key, s.Amount) {
			f.cfg.Logger.Info("another process was told a limit", "model", a.Job.Model, "limit", o.Limit.Key, "was", o.Limit.Amount, "is", s.Amount)
		}
		news = news || s.Others > 0 || s.Unsure || s.Margin < ledger.FullMargin
		if o.Close > 0 {
			f.cfg.Logger.Warn("the provider refused a call that the ledger had granted",
				"model", a.Job.Model, "limit", o.Limit.Key, "amount", o.Limit.Amount, "used", s.Used, "margin", margin,
				"class", string(a.Refusal.Class), "scope", string(a.Refusal.Scope), "closed_for", o.Close)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hearing(k)
	if a.Status/100 == 2 {
		h.refused = 0
	}
	if news {
		h.interval = f.cfg.Minute / soonest
	} else {
		h.interval = min(2*h.interval, f.cfg.Minute/latest)
	}
}
