package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

func tokens(key string, amount int64) ledger.Limit {
	return ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: amount, Window: time.Minute}
}

func plan(t *testing.T, cfg provider.PlanConfig) *provider.Plan {
	t.Helper()
	p, err := provider.NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestScopes: the limits of the account, the model, the tenant, (tenant, model)
// and (tenant, class) that match are all in one reservation, and each names its
// own budget.
func TestScopes(t *testing.T) {
	p := plan(t, provider.PlanConfig{Rules: []provider.Rule{
		{Limit: tokens("account", 1_000_000)},
		{Limit: tokens("mini", 200_000), Models: []string{"gpt-4o-mini"}},
		{Limit: tokens("tenant", 40_000), Tenants: []string{"acme"}},
		{Limit: tokens("tenant", 5_000), Each: provider.EachTenant},
		{Limit: tokens("tenant-model", 3_000), Each: provider.EachTenant | provider.EachModel},
		{Limit: tokens("tenant-class", 2_000), Each: provider.EachTenant | provider.EachClass},
		{Limit: tokens("background", 9_000), Classes: []job.Priority{job.P8, job.P9}},
	}})
	for _, c := range []struct {
		model, tenant string
		priority      job.Priority
		want          []string
	}{
		{"gpt-4o-mini", "acme", job.Paid, []string{
			`account 1000000 own=false`, `mini model="gpt-4o-mini" 200000 own=false`, `tenant tenant="acme" 40000 own=true`,
			`tenant-model model="gpt-4o-mini" tenant="acme" 3000 own=true`, `tenant-class tenant="acme" class=1 2000 own=true`}},
		{"other", "zoë", job.Background, []string{
			`account 1000000 own=false`, `tenant tenant="zoë" 5000 own=true`, `tenant-model model="other" tenant="zoë" 3000 own=true`,
			`tenant-class tenant="zoë" class=8 2000 own=true`, `background classes=[background p9] 9000 own=false`}},
	} {
		var got []string
		for _, l := range p.Limits(c.model, c.tenant, c.priority) {
			got = append(got, fmt.Sprintf("%s %d own=%v", l.Key, l.Amount, l.Own))
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s of %s:\n got %s\nwant %s", c.model, c.tenant, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

// One tenant's budget must not be another's: envoyproxy/ai-gateway#2551. A name
// made to look like another budget's key does not reach it.
func TestNoNameReachesAnotherBudget(t *testing.T) {
	p := plan(t, provider.PlanConfig{Rules: []provider.Rule{
		{Limit: tokens("t", 100), Each: provider.EachTenant | provider.EachModel},
	}})
	seen := map[string]string{}
	for _, c := range [][2]string{{"m", "a"}, {`m" tenant="a`, ""}, {"m", `a" x="`}, {"", `m" tenant="a`}, {"m", "a "}, {"m ", "a"}, {"m", "}x"}, {"m", "a\x00"}} {
		key := p.Limits(c[0], c[1], job.Free)[0].Key
		who := fmt.Sprintf("%q", c)
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same budget %q", who, other, key)
		}
		seen[key] = who
	}
}

func TestCharges(t *testing.T) {
	inflight := ledger.Limit{Key: "calls", Unit: ledger.InFlight, Amount: 10}
	rpm := ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 500, Window: time.Minute}
	in := ledger.Limit{Key: "itpm", Unit: ledger.InputTokens, Amount: 10_000, Window: time.Minute}
	out := ledger.Limit{Key: "otpm", Unit: ledger.OutputTokens, Amount: 1_000, Window: time.Minute}
	p := plan(t, provider.PlanConfig{MaxJobShare: 100, Rules: []provider.Rule{
		{Limit: tokens("tpm", 2_000)}, {Limit: rpm}, {Limit: inflight}, {Limit: in}, {Limit: out},
	}})
	for _, c := range []struct {
		name string
		e    job.Estimate
		want []int64
	}{
		{"declared", job.Estimate{Input: 10, Output: 500, Declared: true}, []int64{510, 1, 1, 10, 500}},
		{"a declared cap is not lowered", job.Estimate{Input: 10, Output: 4096, Declared: true}, []int64{4106, 1, 1, 10, 4096}},
		{"a default is lowered to fit each limit", job.Estimate{Input: 1_500, Output: 4096}, []int64{2000, 1, 1, 1500, 1000}},
		{"never to 0", job.Estimate{Input: 5_000, Output: 512}, []int64{5001, 1, 1, 5000, 512}},
		{"embeddings have no output", job.Estimate{Input: 70}, []int64{70, 1, 1, 70, 0}},
	} {
		charges, err := p.Charges(&job.Spec{Model: "m"}, c.e)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, ch := range charges {
			got = append(got, ch.Amount)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: charges %v, want %v", c.name, got, c.want)
		}
	}
}

// A limit smaller than the default output must still let a small call in:
// BerriAI/litellm#29191, #29193.
func TestDefaultOutputFitsASmallLimit(t *testing.T) {
	p := plan(t, provider.PlanConfig{MaxJobShare: 100, Rules: []provider.Rule{{Limit: tokens("tpm", 100)}}})
	charges, err := p.Charges(&job.Spec{Model: "m"}, job.Estimate{Input: 10, Output: 512})
	if err != nil || charges[0].Amount != 100 {
		t.Errorf("charges %v, %v; want 100", charges, err)
	}
}

func TestSharedLimitsTakeAQuarterAtMost(t *testing.T) {
	p := plan(t, provider.PlanConfig{Rules: []provider.Rule{
		{Limit: tokens("account", 40_000)},
		{Limit: tokens("tenant", 40_000), Each: provider.EachTenant},
	}})
	l := p.Limits("m", "acme", job.Free)
	if l[0].Largest() != 10_000 || l[1].Largest() != 40_000 {
		t.Errorf("largest charges %d and %d, want 10000 shared and 40000 own", l[0].Largest(), l[1].Largest())
	}
}

// An unknown model is refused, never unlimited.
func TestUnknownModel(t *testing.T) {
	p := plan(t, provider.PlanConfig{Models: []string{"gpt-4o-mini"}, Rules: []provider.Rule{{Limit: tokens("tpm", 100)}}})
	if _, err := p.Charges(&job.Spec{Model: "gpt-4o-mimi"}, job.Estimate{Input: 1}); !errors.Is(err, provider.ErrUnknownModel) {
		t.Errorf("error %v, want ErrUnknownModel", err)
	}
}

func TestBadPlans(t *testing.T) {
	for _, c := range []struct {
		want string
		cfg  provider.PlanConfig
	}{
		{"MaxJobShare", provider.PlanConfig{MaxJobShare: 101}},
		{"Key", provider.PlanConfig{Rules: []provider.Rule{{}}}},
		{"Amount", provider.PlanConfig{Rules: []provider.Rule{{Limit: tokens("x", -1)}}}},
		{"Window", provider.PlanConfig{Rules: []provider.Rule{{Limit: ledger.Limit{Key: "x", Amount: 1}}}}},
		{"Classes", provider.PlanConfig{Rules: []provider.Rule{{Limit: tokens("x", 1), Classes: []job.Priority{99}}}}},
		{"prices", provider.PlanConfig{Rules: []provider.Rule{{Limit: ledger.Limit{Key: "x", Unit: ledger.MicroUSD, Amount: 1, Window: time.Hour}}}}},
	} {
		_, err := provider.NewPlan(c.cfg)
		if !errors.Is(err, provider.ErrPlan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want ErrPlan that names %s", err, c.want)
		}
	}
}

// TestInventedTenantsAreForgotten: memory is bounded however many there are, and
// the same budget is the same pointer while it is known.
func TestInventedTenantsAreForgotten(t *testing.T) {
	p := plan(t, provider.PlanConfig{Rules: []provider.Rule{
		{Limit: tokens("account", 1_000)},
		{Limit: tokens("tenant", 100), Each: provider.EachTenant},
	}})
	if a, b := p.Limits("m", "a", job.Free)[0], p.Limits("m", "b", job.Free)[0]; a != b {
		t.Error("the account's limit is two pointers")
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 10_000 {
				p.Limits("m", fmt.Sprint(g, "-", i), job.Free)
			}
		})
	}
	wg.Wait()
	if n := p.Known(); n > 1<<14 {
		t.Errorf("%d sets of limits are kept", n)
	}
}

// A reserve is a second limit, of the rest of the rate, that all are charged to and
// only those wait for whom it is not kept.
func TestReserves(t *testing.T) {
	tpm := ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute}
	p, err := provider.NewPlan(provider.PlanConfig{Rules: []provider.Rule{
		{Limit: ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 500, Window: time.Minute}, Tenants: []string{"exception"}},
		{Limit: tpm, Reserves: []provider.Reserve{{For: job.Paid, Percent: 2}, {For: job.P3, Percent: 10}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tenant string
		class  job.Priority
		want   string
	}{
		{"t", job.Paid, "tpm:1000 tpm reserve=1:980! tpm reserve=3:900! "},
		{"t", job.P2, "tpm:1000 tpm reserve=1:980 tpm reserve=3:900! "},
		{"t", job.Free, "tpm:1000 tpm reserve=1:980 tpm reserve=3:900 "},
		{"exception", job.Free, `tpm tenant="exception":500 `},
	} {
		charges, err := p.Charges(&job.Spec{Tenant: tc.tenant, Priority: tc.class}, job.Estimate{Input: 10})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range charges {
			got += fmt.Sprintf("%s:%d", c.Limit.Key, c.Limit.Amount)
			if c.Overdraw {
				got += "!"
			}
			got += " "
		}
		if got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.tenant, tc.class, got, tc.want)
		}
	}
	for text, r := range map[string]provider.Rule{
		"1 to 90 percent, not 0":  {Limit: tpm, Reserves: []provider.Reserve{{For: job.Paid}}},
		"1 to 90 percent, not 91": {Limit: tpm, Reserves: []provider.Reserve{{For: job.Paid, Percent: 91}}},
		"no rate of which":        {Limit: ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 5}, Reserves: []provider.Reserve{{For: job.Paid, Percent: 5}}},
	} {
		if _, err := provider.NewPlan(provider.PlanConfig{Rules: []provider.Rule{r}}); !errors.Is(err, provider.ErrPlan) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a limit counts is reserved, and a tenant's own budget goes by what is billed.
func TestCountedTokens(t *testing.T) {
	burns := tokens("tpm", 100_000)
	burns.Counts = ledger.Counts{Input: 100, CacheWrite: 100, Output: 500}
	burns.Settle = ledger.SettleFinal
	p := plan(t, provider.PlanConfig{Rules: []provider.Rule{{Limit: burns, Each: provider.EachTenant}}})
	if own := p.Limits("m", "acme", job.Free)[0]; !own.Own || own.Counts != (ledger.Counts{}) || own.Settle != ledger.SettleActual {
		t.Errorf("%+v", own)
	}
	p = plan(t, provider.PlanConfig{Rules: []provider.Rule{{Limit: burns}}})
	charges, err := p.Charges(&job.Spec{Model: "m"}, job.Estimate{Input: 100, Output: 50, Declared: true})
	if err != nil || charges[0].Amount != 350 {
		t.Errorf("%+v, %v, want 350", charges, err)
	}
}

// Of Claude on Bedrock the cap counts once at admission, and what came five times at the
// end. Where it is known how much comes, it need not be reserved five times.
func TestOutputThatCountsMoreInTheEnd(t *testing.T) {
	profile, err := provider.ProfileNamed("bedrock_runtime")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model    string
		estimate job.Estimate
		want     int64
	}{
		{"claude-sonnet-4", job.Estimate{Input: 100, Output: 4000, Declared: true}, 20_100},
		{"claude-sonnet-4", job.Estimate{Input: 100, Output: 4000, Expected: 300, Declared: true}, 4100},
		{"claude-sonnet-4", job.Estimate{Input: 100, Output: 4000, Expected: 2000, Declared: true}, 10_100},
		{"claude-sonnet-4", job.Estimate{Input: 100, Output: 4000, Expected: 9000, Declared: true}, 20_100},
		{"nova-lite", job.Estimate{Input: 100, Output: 4000, Expected: 300, Declared: true}, 4100},
	} {
		rules, err := profile.Rules(c.model, map[string]int64{"tpm": 1_000_000})
		if err != nil {
			t.Fatal(err)
		}
		charges, err := plan(t, provider.PlanConfig{Rules: rules}).Charges(&job.Spec{Model: c.model}, c.estimate)
		if err != nil || len(charges) != 1 || charges[0].Amount != c.want {
			t.Errorf("%s, %+v: %+v, %v, want %d", c.model, c.estimate, charges, err, c.want)
		}
	}
}

// Bedrock's mantle checks the output cap against the limit of input, and gives it back.
func TestInputLimitWithOutputCap(t *testing.T) {
	profile, err := provider.ProfileNamed("bedrock_mantle")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := profile.Rules("m", map[string]int64{"itpm": 10_000, "otpm": 10_000})
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, provider.PlanConfig{Rules: rules})
	for _, c := range []struct {
		estimate      job.Estimate
		input, output int64
	}{
		{job.Estimate{Input: 100, Output: 500, Declared: true}, 600, 500},
		{job.Estimate{Input: 100, Output: 99_999}, 2500, 2500}, // lowered to a quarter of the limit
	} {
		charges, err := p.Charges(&job.Spec{Model: "m"}, c.estimate)
		if err != nil || len(charges) != 2 || charges[0].Amount != c.input || charges[1].Amount != c.output {
			t.Errorf("%+v: %+v, %v", c.estimate, charges, err)
		}
	}
}
