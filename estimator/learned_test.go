package estimator

import (
	"fmt"
	"log/slog"
	"math"
	"testing"

	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
)

func spec(t testing.TB, model, tenant, body string) job.Spec {
	return job.Spec{Model: model, Tenant: tenant, Request: parseChat(t, body)}
}

func estimate(t testing.TB, e *Estimator, s job.Spec) job.Estimate {
	t.Helper()
	got, err := e.Estimate(s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A model of which nothing is known has 1.6 times the tokens of o200k_base: after 100
// calls the estimates are right.
func TestUnknownModelIsLearnt(t *testing.T) {
	e := newEstimator(t, Config{Factors: learn.NewFactors(0), Provider: "p", Logger: slog.New(slog.DiscardHandler)})
	margin := newEstimator(t, Config{Factors: e.cfg.Factors, Provider: "p", Margin: true, Logger: slog.New(slog.DiscardHandler)})
	text := englishOf(100_000)
	at := func(i int) job.Spec {
		return spec(t, "grok-4", "tenant", fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text[i*300:i*300+500+i]))
	}
	for i := range 100 {
		s := at(i)
		res := measure(t, e, s.Model, s.Request.(*Request))
		actual := int64(1.6*float64(res.Input) + .5)
		e.Learn(s, job.Used(actual, 10))
	}
	for i := range 100 {
		s := at(100 + i)
		raw := measure(t, e, s.Model, s.Request.(*Request)).Input
		want := 1.6 * float64(raw)
		got := estimate(t, e, s)
		if math.Abs(float64(got.Input)-want) > .05*want || got.Method != Fallback || got.Upper < got.Input {
			t.Errorf("got %+v, want %.0f", got, want)
		}
		if safe := estimate(t, margin, s); safe.Input < got.Input || float64(safe.Input) > 1.1*want {
			t.Errorf("with margin %d, want a little more than %.0f", safe.Input, want)
		}
	}
}

// What is exact stays, and images are not learnt from.
func TestLearnSkips(t *testing.T) {
	f := learn.NewFactors(0)
	e := newEstimator(t, Config{Factors: f, Logger: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		model, body string
		usage       job.Usage
	}{
		{"gpt-4o", `{"messages":[{"content":"hello world"}]}`, job.Used(500, 5)},
		{"claude", `{"messages":[{"content":[{"type":"image_url"},{"type":"text","text":"hello"}]}]}`, job.Used(5000, 5)},
		{"claude", `{"messages":[{"content":"hello world"}]}`, job.Usage{Input: 500}},
		{"claude", `{"messages":[{"content":"hello world"}]}`, job.Usage{}},
	} {
		e.Learn(spec(t, c.model, "", c.body), c.usage)
		if got := f.Scale(learn.Key{Model: c.model}); got.Seen != 0 {
			t.Errorf("%s %+v: learnt %+v", c.body, c.usage, got)
		}
	}
	e.Learn(job.Spec{Request: 5}, job.Used(1, 1))
	newEstimator(t, Config{}).Learn(job.Spec{}, job.Used(1, 1))
	// An image keeps its price, whatever the factor.
	for range 30 {
		f.Observe(learn.Key{Model: "claude"}, 100, 200)
	}
	s := spec(t, "claude", "", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`)
	if got := estimate(t, e, s).Input; got != 2*7+4784 {
		t.Errorf("got %d, want %d", got, 2*7+4784)
	}
}

func TestOutputIsLearnt(t *testing.T) {
	l, err := learn.NewLengths(learn.LengthsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Lengths: l, Outputs: map[string]int64{"gpt-4o": 700}, Route: func(s *job.Spec) string { return "route of " + s.Tenant }}
	e := newEstimator(t, cfg)
	cfg.Predict = func(s *job.Spec) bool { return s.Tenant == "a" }
	predicting := newEstimator(t, cfg)
	s := spec(t, "gpt-4o", "a", `{"messages":[],"max_tokens":4096,"n":2}`)
	between := func(got job.Estimate, declared bool, low, high int64) {
		t.Helper()
		if got.Output < low || got.Output > high || got.Declared != declared {
			t.Errorf("got %+v, want %d to %d", got, low, high)
		}
	}
	between(estimate(t, predicting, s), false, 2*700, 2*700) // nothing is learnt yet
	between(estimate(t, predicting, spec(t, "gpt-4o", "a", `{"messages":[],"max_tokens":9}`)), false, 9, 9)
	between(estimate(t, e, spec(t, "gpt-4o", "a", `{"messages":[]}`)), false, 700, 700)
	for range 50 {
		e.Learn(s, job.Used(3, 2*200))
	}
	between(estimate(t, e, s), true, 2*4096, 2*4096)
	if got := estimate(t, e, s).Expected; got < 2*200 || got > 2*210 {
		t.Errorf("expected %d, want a little more than 400", got)
	}
	if got := estimate(t, e, spec(t, "gpt-4o", "a", `{"messages":[],"max_tokens":150}`)); got.Expected != 0 {
		t.Errorf("%+v, where the cap is less than what is usual", got)
	}
	between(estimate(t, predicting, s), false, 2*200, 2*210)
	undeclared := spec(t, "gpt-4o", "a", `{"messages":[]}`)
	between(estimate(t, predicting, undeclared), false, 200, 210)
	between(estimate(t, e, undeclared), false, 700, 700)
	between(estimate(t, predicting, spec(t, "gpt-4o", "b", `{"messages":[],"max_tokens":4096}`)), true, 4096, 4096)
	between(estimate(t, predicting, spec(t, "gpt-4o", "a", `{"messages":[],"max_tokens":0}`)), true, 0, 0)
	// Outputs that were cut may be of any length.
	for range 30 {
		e.Learn(s, job.Usage{Known: job.Metered, Input: 3, Output: 2 * 4096, Cut: true})
	}
	between(estimate(t, predicting, s), false, 2*4096, 2*4096)

	r, err := ParseEmbeddings([]byte(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	between(estimate(t, e, job.Spec{Model: "text-embedding-3-small", Request: r}), false, 0, 0)
}

func TestLowerCap(t *testing.T) {
	l, err := learn.NewLengths(learn.LengthsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEstimator(t, Config{Lengths: l})
	s := spec(t, "gpt-4o", "a", `{"messages":[],"max_tokens":4096,"n":2}`)
	if n, ok := e.LowerCap(s, 2); ok {
		t.Errorf("%d, with nothing learnt", n)
	}
	for range 50 {
		e.Learn(s, job.Used(3, 2*300))
	}
	for _, c := range []struct {
		body      string
		low, high int64 // 0: as declared
	}{
		{`{"messages":[],"max_tokens":4096,"n":2}`, 600, 630},
		{`{"messages":[],"max_tokens":600}`, 0, 0},
		{`{"messages":[]}`, 0, 0},
		{`{"messages":[],"max_tokens":0}`, 0, 0},
	} {
		s := spec(t, "gpt-4o", "a", c.body)
		if n, ok := e.LowerCap(s, 2); ok != (c.low > 0) || ok && (n < c.low || n > c.high) {
			t.Errorf("%s: %d, %v", c.body, n, ok)
		}
	}
}

func TestSetOutputCap(t *testing.T) {
	for _, c := range [][2]string{
		{`{"max_tokens":4096}`, `{"max_tokens":300}`},
		{` { "a" : {"max_tokens": 4096} , "max_completion_tokens" : 4.096e3 ,"b":"\u00e9\"max_tokens\":9999" } `,
			` { "a" : {"max_tokens": 4096} , "max_completion_tokens" : 300 ,"b":"\u00e9\"max_tokens\":9999" } `},
		{`{"max_tokens":301,"x":[1,2],"max_output_tokens":299,"max_tokens":1e99}`, `{"max_tokens":300,"x":[1,2],"max_output_tokens":299,"max_tokens":300}`},
		{`{"max_tokens":null,"max_completion_tokens":"9999"}`, `{"max_tokens":null,"max_completion_tokens":"9999"}`},
		{`{}`, `{}`}, {``, ``}, {`[{"max_tokens":4096}]`, `[{"max_tokens":4096}]`}, {`{"max_tokens":4096,`, `{"max_tokens":4096,`},
	} {
		if got := string(SetOutputCap([]byte(c[0]), 300)); got != c[1] {
			t.Errorf("%s became %s, want %s", c[0], got, c[1])
		}
	}
}
