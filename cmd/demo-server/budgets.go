package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

const (
	// budgetAge is how old what callers are told of their budgets may be.
	budgetAge = time.Second
	// budgetTimeout bounds the wait for the ledger.
	budgetTimeout = 100 * time.Millisecond
	// maxBudgets is how many limits are remembered that were asked for within
	// budgetAge: callers of others are told nothing.
	maxBudgets = 1000
)

// budgets tells callers what is left of their own budgets. It reads all that were asked
// for lately in one call of the ledger, at most once in budgetAge, and each new one when
// it is first asked for.
type budgets struct {
	ledger ledger.Snapshotter // nil tells nothing
	limits func(model, tenant string, p job.Priority) []*ledger.Limit
	fields bool // tell the IETF's fields too

	mu      sync.Mutex
	known   map[string]*standing // by the key of the limit
	read    time.Time            // when all were read last
	reading bool
	failed  time.Time // when the ledger did not answer last
}

// standing is what is used of a limit.
type standing struct {
	limit *ledger.Limit
	used  int64
	asked bool // since all were read last
}

// header returns the headers about the budgets of a job: the tenant's own, or else
// those of the account. It is empty while the ledger does not answer.
func (b *budgets) header(s *job.Spec) http.Header {
	h := make(http.Header)
	if b.ledger == nil {
		return h
	}
	limits := b.limits(s.Model, s.Tenant, s.Priority)
	requests := pick(limits, ledger.Requests)
	tokens := pick(limits, ledger.Tokens)
	if tokens == nil {
		tokens = pick(limits, ledger.InputTokens)
	}
	var asked []*ledger.Limit
	for _, l := range []*ledger.Limit{requests, tokens} {
		if l != nil {
			asked = append(asked, l)
		}
	}
	for i, used := range b.used(asked) {
		switch l := asked[i]; l {
		case requests:
			openAIFields(h, "Requests", l, used)
			if b.fields {
				ietfFields(h, l, used)
			}
		default:
			openAIFields(h, "Tokens", l, used)
		}
	}
	return h
}

// pick returns the first limit of the unit that is the tenant's own, or else the first;
// nil for none. The ones after it are over other times, or parts of it.
func pick(limits []*ledger.Limit, unit ledger.Unit) (first *ledger.Limit) {
	for _, l := range limits {
		switch {
		case l.Unit != unit:
		case l.Own:
			return l
		case first == nil:
			first = l
		}
	}
	return first
}

// used returns what is used of each limit, or nil when nobody can say.
func (b *budgets) used(limits []*ledger.Limit) []int64 {
	b.mu.Lock()
	now := time.Now()
	missing := false
	for _, l := range limits {
		if s := b.known[l.Key]; s != nil {
			s.limit, s.asked = l, true
		} else {
			missing = true
		}
	}
	all := !b.reading && now.Sub(b.read) >= budgetAge
	if missing || all {
		if len(limits) == 0 || now.Sub(b.failed) < budgetAge || missing && !all && len(b.known) >= maxBudgets {
			b.mu.Unlock()
			return nil
		}
		batch := limits
		if all {
			b.reading = true
			batch = b.batchLocked(limits)
		}
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), budgetTimeout)
		balances, err := b.ledger.Snapshot(ctx, batch)
		cancel()
		b.mu.Lock()
		b.learnLocked(balances, err, all)
	}
	defer b.mu.Unlock()
	out := make([]int64, len(limits))
	for i, l := range limits {
		s := b.known[l.Key]
		if s == nil {
			return nil
		}
		out[i] = s.used
	}
	return out
}

// batchLocked returns the limits to read when all are: those that were asked for lately,
// and the new ones of these. It forgets the others.
func (b *budgets) batchLocked(limits []*ledger.Limit) (batch []*ledger.Limit) {
	for _, l := range limits {
		if b.known[l.Key] == nil {
			batch = append(batch, l)
		}
	}
	for key, s := range b.known {
		if s.asked {
			batch = append(batch, s.limit)
			s.asked = false
		} else {
			delete(b.known, key)
		}
	}
	return batch
}

// learnLocked takes in what was read. What is not known any more is not told.
func (b *budgets) learnLocked(balances []ledger.Balance, err error, all bool) {
	now := time.Now()
	if all {
		b.reading, b.read = false, now
	}
	if err != nil {
		b.failed = now
		clear(b.known)
		return
	}
	if b.known == nil {
		b.known = make(map[string]*standing)
	}
	for _, balance := range balances {
		s := b.known[balance.Limit.Key]
		if s == nil {
			s = &standing{asked: true}
			b.known[balance.Limit.Key] = s
		}
		s.limit, s.used = balance.Limit, balance.Used
	}
}

// openAIFields sets OpenAI's headers of a limit: what it holds, what is left of it, and
// how long until nothing of it is used.
func openAIFields(h http.Header, unit string, l *ledger.Limit, used int64) {
	h["X-Ratelimit-Limit-"+unit] = []string{strconv.FormatInt(l.Amount, 10)}
	h["X-Ratelimit-Remaining-"+unit] = []string{strconv.FormatInt(max(l.Amount-used, 0), 10)}
	h["X-Ratelimit-Reset-"+unit] = []string{roundUp(reset(l, used), time.Millisecond).String()}
}

// ietfFields sets the fields of draft-ietf-httpapi-ratelimit-headers-11 for a limit of
// requests: the draft has no unit for tokens.
func ietfFields(h http.Header, l *ledger.Limit, used int64) {
	if l.Window%time.Second != 0 {
		return // a window has whole seconds there
	}
	h["Ratelimit-Policy"] = []string{fmt.Sprintf(`"requests";q=%d;w=%d`, l.Amount, l.Window/time.Second)}
	h["Ratelimit"] = []string{fmt.Sprintf(`"requests";r=%d;t=%d`, max(l.Amount-used, 0), roundUp(reset(l, used), time.Second)/time.Second)}
}

// reset is how long the limit takes to come back by what is used, at its rate.
func reset(l *ledger.Limit, used int64) time.Duration {
	if l.Amount <= 0 || used >= l.Amount {
		return l.Window
	}
	return time.Duration(float64(l.Window) * float64(max(used, 0)) / float64(l.Amount))
}

func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }
