package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

func TestBudgetHeaders(t *testing.T) {
	limit := func(unit ledger.Unit, amount int64, window time.Duration) *ledger.Limit {
		return &ledger.Limit{Key: "k", Unit: unit, Amount: amount, Window: window}
	}
	for _, tt := range []struct {
		limit            *ledger.Limit
		used             int64
		left, reset      string
		policy, standing string
	}{
		{limit(ledger.Requests, 500, time.Minute), 0, "500", "0s", `"requests";q=500;w=60`, `"requests";r=500;t=0`},
		{limit(ledger.Requests, 500, time.Minute), 1, "499", "120ms", `"requests";q=500;w=60`, `"requests";r=499;t=1`},
		{limit(ledger.Requests, 500, time.Minute), 500, "0", "1m0s", `"requests";q=500;w=60`, `"requests";r=0;t=60`},
		{limit(ledger.Requests, 500, time.Minute), 700, "0", "1m0s", `"requests";q=500;w=60`, `"requests";r=0;t=60`},
		{limit(ledger.Requests, 240, 24*time.Hour), 1, "239", "6m0s", `"requests";q=240;w=86400`, `"requests";r=239;t=360`},
		{limit(ledger.Requests, 7, time.Minute), 1, "6", "8.572s", `"requests";q=7;w=60`, `"requests";r=6;t=9`},
		{limit(ledger.Requests, 10, 1500*time.Millisecond), 5, "5", "750ms", "", ""},
		{limit(ledger.Requests, 0, time.Minute), 0, "0", "1m0s", `"requests";q=0;w=60`, `"requests";r=0;t=60`},
		{limit(ledger.Requests, ledger.MaxAmount, 32*24*time.Hour), ledger.MaxAmount - 1, "1", "768h0m0s", `"requests";q=1125899906842624;w=2764800`, `"requests";r=1;t=2764800`},
	} {
		h := make(http.Header)
		openAIFields(h, "Requests", tt.limit, tt.used)
		ietfFields(h, tt.limit, tt.used)
		for name, want := range map[string]string{
			"x-ratelimit-limit-requests": fmt.Sprint(tt.limit.Amount), "x-ratelimit-remaining-requests": tt.left, "x-ratelimit-reset-requests": tt.reset,
			"RateLimit-Policy": tt.policy, "RateLimit": tt.standing,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%d of %d in %v: %s is %s, want %s", tt.used, tt.limit.Amount, tt.limit.Window, name, got, want)
			}
		}
		if _, err := time.ParseDuration(h.Get("x-ratelimit-reset-requests")); err != nil {
			t.Error(err) // go-openai reads it so
		}
	}
}

// The tenant's own budget is told, or else the account's; the parts of one and those
// over other times are not.
func TestWhoseBudgetIsTold(t *testing.T) {
	requests := &ledger.Limit{Key: "rpm", Unit: ledger.Requests}
	day := &ledger.Limit{Key: "rpd", Unit: ledger.Requests}
	input := &ledger.Limit{Key: "itpm", Unit: ledger.InputTokens}
	tokens := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens}
	own := &ledger.Limit{Key: "tenant", Unit: ledger.Tokens, Own: true}
	for _, tt := range []struct {
		limits []*ledger.Limit
		unit   ledger.Unit
		want   *ledger.Limit
	}{
		{nil, ledger.Tokens, nil},
		{[]*ledger.Limit{requests, day, input}, ledger.Requests, requests},
		{[]*ledger.Limit{requests, day, input}, ledger.Tokens, nil},
		{[]*ledger.Limit{requests, tokens, day}, ledger.Tokens, tokens},
		{[]*ledger.Limit{tokens, requests, own}, ledger.Tokens, own},
	} {
		if got := pick(tt.limits, tt.unit); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.unit, got, tt.want)
		}
	}
}

// countingLedger counts how often it is asked, and for how much.
type countingLedger struct {
	mu    sync.Mutex
	calls int
	asked int // in the last call
	err   error
}

func (l *countingLedger) Snapshot(ctx context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		panic("the ledger may take for ever")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.asked = len(limits)
	if l.err != nil {
		return nil, l.err
	}
	out := make([]ledger.Balance, len(limits))
	for i, limit := range limits {
		out[i] = ledger.Balance{Limit: limit, Used: int64(l.calls)}
	}
	return out, nil
}

// However many ask, the ledger is asked once in a second, for those that asked lately.
func TestBudgetsAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(countingLedger)
		b := &budgets{ledger: l, limits: func(_, tenant string, _ job.Priority) []*ledger.Limit {
			return []*ledger.Limit{
				{Key: "rpm", Unit: ledger.Requests, Amount: 100, Window: time.Minute},
				{Key: "tenant " + tenant, Unit: ledger.Tokens, Amount: 100, Window: time.Minute, Own: true},
			}
		}}
		ask := func(tenant string) string {
			return b.header(&job.Spec{Tenant: tenant}).Get("X-Ratelimit-Remaining-Tokens")
		}
		for range 50 {
			for i := range 10 {
				if ask(fmt.Sprint(i)) == "" {
					t.Error("nothing is told")
				}
			}
		}
		if l.calls != 10 { // one for each new tenant
			t.Errorf("%d calls", l.calls)
		}
		time.Sleep(budgetAge)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { ask("3") })
		}
		all.Wait()
		if l.calls != 11 || l.asked != 11 {
			t.Errorf("%d calls, %d limits in the last", l.calls, l.asked)
		}
		time.Sleep(budgetAge)
		if got := ask("3"); l.calls != 12 || l.asked != 2 || got != "88" {
			t.Errorf("%d calls, %d limits in the last, %s are left", l.calls, l.asked, got)
		}
		// A ledger that does not answer is left alone for a second, and nothing is told.
		l.err = errors.New("away")
		time.Sleep(budgetAge)
		for range 10 {
			if got := ask("3") + ask("new"); got != "" {
				t.Errorf("%s are left, as nobody can know", got)
			}
		}
		if l.calls != 13 {
			t.Errorf("%d calls", l.calls)
		}
		l.err = nil
		time.Sleep(budgetAge)
		if got := ask("3"); got == "" {
			t.Error("nothing is told after the ledger came back")
		}
		// Callers that are invented cost no memory.
		for i := range 3 * maxBudgets {
			ask(fmt.Sprint("invented ", i))
		}
		if len(b.known) > maxBudgets+1 {
			t.Errorf("%d limits are remembered", len(b.known))
		}
		for i := range 2 {
			time.Sleep(budgetAge)
			if ask(fmt.Sprint("later ", i)) == "" {
				t.Error("nothing is told to those who come after")
			}
		}
		if len(b.known) > 4 {
			t.Errorf("%d limits are remembered of callers that are gone", len(b.known))
		}
	})
}

func TestBudgetsWithoutASnapshot(t *testing.T) {
	if h := new(budgets).header(&job.Spec{}); len(h) != 0 {
		t.Errorf("%v", h)
	}
}

// Callers are told of their own budgets, whatever becomes of their requests.
func TestCallersAreToldTheirBudgets(t *testing.T) {
	t.Parallel()
	s := start(t, "-tenant", "a=10000,c=60", "-tenant-default", "0", "-ratelimit-fields")
	for _, tt := range []struct {
		name, path, body, tenant string
		status                   int
		tokens, requests         string // the limits
	}{
		{"whole", "/v1/chat/completions", hello, "a", 200, "10000", "500"},
		{"streamed", "/v1/chat/completions", strings.Replace(hello, "{", `{"stream":true,`, 1), "a", 200, "10000", "500"},
		{"a message", "/v1/messages", aMessage, "a", 200, "10000", "500"},
		{"a response", "/v1/responses", strings.Replace(aResponse, "{", `{"stream":true,`, 1), "a", 200, "10000", "500"},
		{"without a limit of its own", "/v1/chat/completions", hello, "b", 200, "200000", "500"},
		{"embeddings", "/v1/embeddings", `{"model":"text-embedding-3-small","input":"x"}`, "b", 200, "1000000", "3000"},
		{"too large", "/v1/chat/completions", strings.Replace(hello, "20}", "20000}", 1), "a", 413, "10000", "500"},
		{"refused by the provider", "/v1/messages", strings.Replace(aMessage, "20", "0", 1), "a", 400, "10000", "500"},
		{"the same, streamed", "/v1/messages", strings.Replace(strings.Replace(aMessage, "20", "0", 1), "{", `{"stream":true,`, 1), "a", 400, "10000", "500"},
		{"/chat", "/chat", `{"prompt":"x","max_tokens":5}`, "a", 200, "10000", "500"},
		{"a job", "/v1/jobs", hello, "a", 202, "10000", "500"},
		{"not a request", "/v1/chat/completions", `{`, "a", 400, "", ""},
	} {
		a := s.send("POST", tt.path, tt.body, "X-Tenant", tt.tenant)
		if a.err != nil || a.StatusCode != tt.status {
			t.Errorf("%s: %d %v %s", tt.name, a.StatusCode, a.err, a.body)
			continue
		}
		if got := a.Header.Get("x-ratelimit-limit-tokens"); got != tt.tokens {
			t.Errorf("%s: a limit of %q tokens, want %q", tt.name, got, tt.tokens)
		}
		if got := a.Header.Get("x-ratelimit-limit-requests"); got != tt.requests {
			t.Errorf("%s: a limit of %q requests, want %q", tt.name, got, tt.requests)
		}
		told := tt.tokens != ""
		for _, name := range []string{"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", "RateLimit", "RateLimit-Policy"} {
			if (a.Header.Get(name) != "") != told {
				t.Errorf("%s: %s is %q", tt.name, name, a.Header.Get(name))
			}
		}
	}
	// A tenant that is shed by its own limit.
	for _, status := range []int{200, 429} {
		a := s.send("POST", "/v1/chat/completions", hello, "X-Tenant", "c", "X-Stainless-Timeout", "0.2")
		if a.StatusCode != status || a.Header.Get("x-ratelimit-limit-tokens") != "60" || a.Header.Get("x-ratelimit-reset-tokens") == "" {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
	}
}

// Without the flag the draft's fields are not sent.
func TestRateLimitFieldsAreOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.send("POST", "/v1/chat/completions", hello)
	if a.StatusCode != 200 || a.Header.Get("RateLimit")+a.Header.Get("RateLimit-Policy") != "" || a.Header.Get("x-ratelimit-remaining-requests") == "" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}
