package provider_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// account is a plan, its ledger, and a Feedback of one process.
type account struct {
	*testing.T
	profile *provider.Profile
	plan    *provider.Plan
	ledger  *ledger.Memory
	f       *provider.Feedback
	spec    job.Spec
}

func newAccount(t *testing.T, profile string, amounts map[string]int64, change func(*provider.FeedbackConfig)) *account {
	t.Helper()
	a := &account{T: t, ledger: ledger.NewMemory(), spec: job.Spec{Model: "m", Tenant: "t", Priority: job.Paid}}
	var err error
	if a.profile, err = provider.ProfileNamed(profile); err != nil {
		t.Fatal(err)
	}
	rules, err := a.profile.Rules("m", amounts)
	if amounts == nil {
		rules, err = a.profile.UnknownRules("m")
	}
	if err != nil {
		t.Fatal(err)
	}
	if a.plan, err = provider.NewPlan(provider.PlanConfig{Rules: rules}); err != nil {
		t.Fatal(err)
	}
	a.f = a.listen(change)
	return a
}

func (a *account) listen(change func(*provider.FeedbackConfig)) *provider.Feedback {
	cfg := provider.FeedbackConfig{Profile: a.profile, Plan: a.plan, Ledger: a.ledger, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	f, err := provider.NewFeedback(cfg)
	if err != nil {
		a.Fatal(err)
	}
	return f
}

// hear is an answer that came a millisecond after the grant; headers are names and
// values.
func (a *account) hear(status int, body string, headers ...string) bool {
	h := make(http.Header)
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return a.f.Hear(a.Context(), provider.Head{
		Job: &a.spec, Granted: time.Now().Add(-time.Millisecond), Status: status, Header: h,
		Refusal: a.profile.Refusal(status, h, []byte(body)),
	})
}

// limits are those a job is charged to now, by key.
func (a *account) limits() map[string]*ledger.Limit {
	all := make(map[string]*ledger.Limit)
	for _, l := range a.plan.Limits("m", "t", job.Paid) {
		all[l.Key] = l
	}
	return all
}

func (a *account) amount(key string, want int64) {
	a.Helper()
	l := a.limits()[key]
	if l == nil || l.Amount != want {
		a.Errorf("%s is %+v, want %d", key, l, want)
	}
}

// ask is whether a job of so many tokens would be let through, and else how long it
// would wait.
func (a *account) ask(tokens int64) (bool, time.Duration) {
	a.Helper()
	charges, err := a.plan.Charges(&a.spec, job.Estimate{Input: tokens})
	if err != nil {
		a.Fatal(err)
	}
	id := ledger.ID{Attempt: 1}
	id.Job[0] = byte(time.Now().UnixMicro())
	id.Job[1] = byte(time.Now().UnixMicro() >> 8)
	id.Job[2] = byte(tokens)
	d, err := a.ledger.Reserve(context.Background(), []ledger.Request{{ID: id, Charges: charges}})
	if err != nil {
		a.Fatal(err)
	}
	return d[0].Outcome == ledger.Granted, d[0].Wait
}

func (a *account) balance(key string) ledger.Balance {
	a.Helper()
	b, err := a.ledger.Snapshot(a.Context(), []*ledger.Limit{a.limits()[key]})
	if err != nil {
		a.Fatal(err)
	}
	return b[0]
}

const (
	limitTokens, leftTokens     = "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens"
	limitRequests, leftRequests = "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests"
)

const refusedTokens = `{"error":{"message":"Rate limit reached for m on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}`

func TestFeedback(t *testing.T) {
	usual := map[string]int64{"rpm": 100, "tpm": 20_000}
	for name, test := range map[string]func(t *testing.T){
		"told amounts are adopted": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			before := a.plan.Version()
			a.hear(200, "", limitTokens, "40000", limitRequests, "100", leftRequests, "99")
			a.amount("tpm", 40_000)
			a.amount("rpm", 100)
			if a.limits()["tpm"].MaxCharge != 10_000 || a.plan.Version() == before {
				t.Errorf("%+v, version %d", a.limits()["tpm"], a.plan.Version())
			}
		},
		"nor are they, when the plan is to keep its own": func(t *testing.T) {
			a := newAccount(t, "openai", usual, func(c *provider.FeedbackConfig) { c.KeepAmounts = true })
			a.hear(200, "", limitTokens, "40000")
			a.amount("tpm", 20_000)
		},
		"a day's limit is not taken for a minute's": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			a.hear(200, "", limitRequests, "10000", leftRequests, "9990", "X-Ratelimit-Reset-Requests", "1m26.4s")
			a.amount("rpm", 100)
			a.hear(200, "", limitRequests, "200", leftRequests, "190", "X-Ratelimit-Reset-Requests", "3s")
			a.amount("rpm", 200)
		},
		"a shorter time of the same rate follows": func(t *testing.T) {
			a := newAccount(t, "azure_openai", map[string]int64{"rpm": 600, "tpm": 20_000}, nil)
			a.hear(200, "", limitRequests, "60", limitTokens, "20000")
			a.amount("rpm", 60)
			a.amount("rpm 10s", 10)
		},
		"what others use is not ours": func(t *testing.T) {
			a := newAccount(t, "azure_openai", usual, nil)
			a.ask(1000)
			for range 4 {
				a.hear(200, "", limitTokens, "20000", leftTokens, "13000")
				time.Sleep(2 * time.Second)
			}
			if ok, _ := a.ask(13_001); ok {
				t.Error("granted what others have")
			}
		},
		"rounded numbers are not taken for more than they may be": func(t *testing.T) {
			a := newAccount(t, "anthropic", map[string]int64{"itpm": 20_000}, nil)
			a.ask(100)
			a.hear(200, "", "Anthropic-Ratelimit-Input-Tokens-Limit", "20000", "Anthropic-Ratelimit-Input-Tokens-Remaining", "19000")
			if used := a.balance("itpm").Used; used != 100 {
				t.Errorf("%d used", used)
			}
		},
		"a refusal closes its limit until the provider's time": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			if !a.hear(429, refusedTokens, "Retry-After", "10") {
				t.Fatal("not closed")
			}
			for range 3 {
				if ok, wait := a.ask(1); ok || wait < 10*time.Second-time.Millisecond || wait > 14*time.Second {
					t.Errorf("granted %v, wait %v", ok, wait)
				}
			}
			time.Sleep(14 * time.Second)
			if ok, _ := a.ask(1); !ok {
				t.Error("still closed")
			}
			if a.balance("tpm").Margin >= ledger.FullMargin || a.balance("rpm").Margin != ledger.FullMargin {
				t.Errorf("margins %+v, %+v", a.balance("tpm"), a.balance("rpm"))
			}
		},
		"refusals without a hint close for longer each time": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			last := time.Duration(0)
			for range 4 {
				a.hear(429, refusedTokens)
				_, wait := a.ask(1)
				if wait < last*3/2 {
					t.Errorf("wait %v after %v", wait, last)
				}
				last = wait
				time.Sleep(2 * wait)
			}
			a.hear(200, "")
			a.hear(429, refusedTokens)
			if _, wait := a.ask(1); wait > 2*time.Second {
				t.Errorf("wait %v after a success", wait)
			}
		},
		"a refusal that names no limit is taken for the fullest one": func(t *testing.T) {
			a := newAccount(t, "bedrock_runtime", map[string]int64{"tpm": 1000}, nil)
			a.ask(250)
			a.hear(429, `{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}`)
			if b := a.balance("tpm"); b.Margin > 500 {
				t.Errorf("%+v", b)
			}
			o := newAccount(t, "openai", usual, nil)
			o.ask(4000) // a fifth of the tokens, a hundredth of the requests
			o.hear(429, `{}`)
			if o.balance("tpm").Margin == ledger.FullMargin || o.balance("rpm").Margin != ledger.FullMargin {
				t.Errorf("%+v, %+v", o.balance("tpm"), o.balance("rpm"))
			}
		},
		"what is no limit of ours closes nothing": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			for _, answer := range []struct {
				status int
				body   string
			}{
				{429, `{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}`},
				{503, `{"error":{"code":"server_is_overloaded"}}`},
				{500, ``}, {400, `{}`},
			} {
				if a.hear(answer.status, answer.body) {
					t.Errorf("%d %s closed a limit", answer.status, answer.body)
				}
			}
			if ok, _ := a.ask(1); !ok {
				t.Error("closed")
			}
		},
		"too quick growth slows down": func(t *testing.T) {
			a := newAccount(t, "openai", map[string]int64{"tpm": 20_000}, nil)
			a.hear(429, `{"error":{"code":"slow_down","type":"rate_limit_error"}}`)
			if b := a.balance("tpm"); b.Margin != 700 {
				t.Errorf("%+v", b)
			}
		},
		"unknown limits are learnt": func(t *testing.T) {
			a := newAccount(t, "openai", nil, nil)
			for i := range 5 {
				if ok, _ := a.ask(int64(100_000 + i)); ok != (i < 4) {
					t.Errorf("call %d: %v", i, ok)
				}
			}
			a.hear(200, "", limitTokens, "40000", limitRequests, "500")
			if len(a.limits()) != 2 {
				t.Errorf("%v", a.limits())
			}
			a.amount("tpm", 40_000)
			a.amount("rpm", 500)
		},
		"another process hears what was told": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			a.hear(200, "", limitTokens, "40000")
			other := newAccount(t, "openai", usual, nil)
			other.ledger = a.ledger
			other.f = other.listen(nil)
			other.hear(200, "")
			other.amount("tpm", 40_000)
		},
		"answers that say nothing new are told less and less": func(t *testing.T) {
			a := newAccount(t, "openai", usual, nil)
			counting := &countingFeedback{Feedback: a.ledger}
			a.f = a.listen(func(c *provider.FeedbackConfig) { c.Ledger = counting })
			for range 600 {
				a.hear(200, "", limitTokens, "20000", leftTokens, "20000")
				time.Sleep(100 * time.Millisecond)
			}
			if counting.n < 4 || counting.n > 10 {
				t.Errorf("told %d times in a minute", counting.n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

type countingFeedback struct {
	ledger.Feedback
	n int
}

func (c *countingFeedback) Observe(ctx context.Context, batch []ledger.Observation) ([]ledger.Standing, error) {
	c.n++
	return c.Feedback.Observe(ctx, batch)
}
