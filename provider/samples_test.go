package provider_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/provider"
)

// sample is what a reader must get from an answer. All of it is checked.
type sample struct {
	Provider   string   `json:"provider"`
	API        string   `json:"api"`
	Status     int      `json:"status"`
	Class      string   `json:"class"`
	Retryable  bool     `json:"retryable"`
	Scope      string   `json:"scope"`
	RetryAfter *float64 `json:"retry_after_seconds"`
	Complete   *bool    `json:"stream_complete"`
	Usage      *struct {
		Input, Output, Cached, Reasoning int64
		CacheWrite                       int64 `json:"cache_write"`
		Exact                            bool
	} `json:"usage"`
	Limits map[string]struct {
		Limit     *int64   `json:"limit"`
		Remaining *int64   `json:"remaining"`
		Reset     *float64 `json:"reset_seconds"`
		Window    *float64 `json:"window_seconds"`
		Cost      *int64   `json:"query_cost"`
	} `json:"limits"`
	Quota map[string]int64 `json:"quota_charge"`
	Notes string           `json:"notes"`
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/samples/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			expect, err := os.ReadFile(strings.TrimSuffix(file, ".http") + ".expect.json")
			if err != nil {
				t.Fatal(err)
			}
			var want sample
			if err := json.Unmarshal(expect, &want); err != nil {
				t.Fatal(err)
			}
			checkSample(t, raw, &want)
		})
	}
}

func checkSample(t *testing.T, raw []byte, want *sample) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	p, err := provider.ProfileNamed(want.Provider)
	if errors.Is(err, provider.ErrProfile) {
		p, err = provider.ProfileNamed("generic")
	}
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != want.Status {
		t.Errorf("status %d, want %d", resp.StatusCode, want.Status)
	}

	refusal := p.Refusal(resp.StatusCode, resp.Header, body)
	if resp.StatusCode/100 == 2 {
		a := readInPieces(t, p, provider.API(want.API), resp.Header, body)
		refusal = a.Refusal
		checkAnswer(t, p, a, body, want)
	} else if want.Usage != nil || want.Complete != nil {
		t.Error("the sample expects something of a refusal that it cannot have")
	}
	if string(refusal.Class) != want.Class || refusal.Retryable != want.Retryable || string(refusal.Scope) != want.Scope {
		t.Errorf("class %q, retryable %v, scope %q; want %q, %v, %q",
			refusal.Class, refusal.Retryable, refusal.Scope, want.Class, want.Retryable, want.Scope)
	}
	// A reset is no hint for the call: the samples count it as none.
	hinted := refusal.From == provider.FromHeader || refusal.From == provider.FromBody
	if hinted != (want.RetryAfter != nil) || hinted && !same(refusal.After, *want.RetryAfter) {
		t.Errorf("retry after %v from %q, want %v", refusal.After, refusal.From, deref(want.RetryAfter))
	}
	checkLimits(t, p.Limits(resp.StatusCode, resp.Header), want)
}

func checkAnswer(t *testing.T, p *provider.Profile, a provider.Answer, body []byte, want *sample) {
	t.Helper()
	if a.Streamed != (want.Complete != nil) || a.Streamed && a.Complete != *want.Complete {
		t.Errorf("streamed %v, complete %v; want %v", a.Streamed, a.Complete, deref(want.Complete))
	}
	if a.UsageKnown != (want.Usage != nil) {
		t.Fatalf("usage known: %v, want %+v", a.UsageKnown, want.Usage)
	}
	if w := want.Usage; w != nil {
		u := provider.Usage{Input: w.Input, Cached: w.Cached, CacheWrite: w.CacheWrite, Output: w.Output, Reasoning: w.Reasoning, Exact: w.Exact}
		if a.Usage != u {
			t.Errorf("usage %+v, want %+v", a.Usage, u)
		}
		if !a.Streamed {
			if got, ok := p.Usage(provider.API(want.API), body); !ok || got != u {
				t.Errorf("usage of the body %+v, %v, want %+v", got, ok, u)
			}
		}
	}
	for name, amount := range want.Quota {
		model := "sample"
		unit := name
		if burndown, ok := strings.CutPrefix(name, "tpm_at_burndown_"); ok {
			unit = "tokens"
			if burndown == "5" {
				model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
			}
		}
		found := false
		for _, c := range p.QuotaCharge(model, a.Usage) {
			if c.Unit.String() == unit {
				found = true
				if c.Amount != amount {
					t.Errorf("%s counts %d, want %s %d", c.Dimension, c.Amount, name, amount)
				}
			}
		}
		if !found {
			t.Errorf("nothing counts %s", name)
		}
	}
}

func checkLimits(t *testing.T, got []provider.Reported, want *sample) {
	t.Helper()
	if len(got) != len(want.Limits) {
		t.Errorf("%d limits, want %d: %+v", len(got), len(want.Limits), got)
	}
	for _, r := range got {
		w, ok := want.Limits[r.Name]
		if !ok {
			t.Errorf("limit %q is not expected", r.Name)
		}
		if !sameInt(r.Limit, w.Limit) || !sameInt(r.Remaining, w.Remaining) || !sameInt(r.Cost, w.Cost) {
			t.Errorf("%s: %+v, want limit %v, remaining %v, cost %v", r.Name, r, deref(w.Limit), deref(w.Remaining), deref(w.Cost))
		}
		if (r.Reset == provider.Absent) != (w.Reset == nil) || w.Reset != nil && !same(r.Reset, *w.Reset) {
			t.Errorf("%s: reset %v, want %v", r.Name, r.Reset, deref(w.Reset))
		}
		if w.Window != nil && !same(r.Window, *w.Window) {
			t.Errorf("%s: window %v, want %v s", r.Name, r.Window, *w.Window)
		}
	}
}

func same(d time.Duration, seconds float64) bool { return math.Abs(d.Seconds()-seconds) < 1e-9 }

func sameInt(got int64, want *int64) bool {
	return want == nil && got == provider.Absent || want != nil && got == *want
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func write(t testing.TB, r *provider.Reader, s string) {
	t.Helper()
	if n, err := io.WriteString(r, s); n != len(s) || err != nil {
		t.Fatal(n, err)
	}
}

// readInPieces reads a body in one piece, byte by byte, and in pieces of random
// sizes, and insists that it makes no difference.
func readInPieces(t testing.TB, p *provider.Profile, api provider.API, h http.Header, body []byte) provider.Answer {
	t.Helper()
	whole := p.NewReader(api, h)
	write(t, whole, string(body))
	want := whole.End()
	for round := range 8 {
		seed := rand.Uint64()
		if s, err := strconv.ParseUint(os.Getenv("PACELINE_SEED"), 10, 64); err == nil {
			seed = s
		}
		random := rand.New(rand.NewPCG(seed, 0))
		r := p.NewReader(api, h)
		for rest := body; len(rest) > 0; {
			n := 1
			if round > 0 {
				n = 1 + random.IntN(min(len(rest), 1<<random.IntN(8)))
			}
			piece := bytes.Clone(rest[:n]) // nothing may keep what it was given
			if m, err := r.Write(piece); m != n || err != nil {
				t.Fatal(m, err)
			}
			clear(piece)
			rest = rest[n:]
		}
		if got := r.End(); got != want {
			t.Fatalf("PACELINE_SEED=%d: in pieces %+v, in one %+v\n%q", seed, got, want, body)
		}
	}
	return want
}
