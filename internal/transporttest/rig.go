// Package transporttest has what tests of package transport share.
package transporttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// Rig is a strict provider, and a Transport in front of it.
type Rig struct {
	*testing.T
	Transport  *transport.Transport
	Estimator  *estimator.Estimator
	URL        string // of the provider
	limits     []*ledger.Limit
	ledger     *ledger.Memory
	dispatcher *dispatcher.Dispatcher
	calls      atomic.Int64
	seen       atomic.Pointer[http.Header]
}

// Calls is how many calls have reached the provider.
func (r *Rig) Calls() int64 { return r.calls.Load() }

// Seen is the headers of the last call that reached the provider.
func (r *Rig) Seen() http.Header { return *r.seen.Load() }

// New returns a running Rig. The profile is the Transport's, sim the provider and cfg
// the rest of the Transport's.
func New(t *testing.T, profile string, sim simprovider.Config, cfg transport.Config) *Rig {
	t.Helper()
	sim.Minute, sim.Seed = time.Second, 1
	server, err := simprovider.New(sim)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{T: t, ledger: ledger.NewMemory()}
	count := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.calls.Add(1)
		h := req.Header.Clone()
		r.seen.Store(&h)
		server.ServeHTTP(w, req)
	})
	srv := httptest.NewServer(count)
	t.Cleanup(srv.Close)
	r.URL = srv.URL
	plan, err := provider.NewPlan(provider.PlanConfig{Rules: []provider.Rule{
		{Limit: ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 10_000, Window: time.Minute, Settle: ledger.SettleActual}},
		{Limit: ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1_000_000, Window: time.Minute, Settle: ledger.SettleActual}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.limits = plan.Limits("any", "", job.Free)
	lengths, err := learn.NewLengths(learn.LengthsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Estimator, err = estimator.New(estimator.Config{Lengths: lengths}); err != nil {
		t.Fatal(err)
	}
	d, err := dispatcher.New(dispatcher.Config{Ledger: r.ledger, Plan: plan, Estimator: r.Estimator})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	cfg.Dispatcher, r.dispatcher = d, d
	if cfg.Profile, err = provider.ProfileNamed(profile); err != nil {
		t.Fatal(err)
	}
	if r.Transport, err = transport.New(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// OpenAI is a provider without limits.
func OpenAI() simprovider.Config {
	return simprovider.Config{RPM: simprovider.Unlimited, TPM: simprovider.Unlimited}
}

// Used waits until the ledger holds so many requests and tokens, and fails the test if
// it does not.
func (r *Rig) Used(requests, tokens int64) {
	r.Helper()
	var got []ledger.Balance
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var err error
		if got, err = r.ledger.Snapshot(r.Context(), r.limits); err != nil {
			r.Fatal(err)
		}
		if got[0].Used == requests && got[1].Used == tokens {
			return
		}
	}
	r.Errorf("%d requests and %d tokens used, want %d and %d", got[0].Used, got[1].Used, requests, tokens)
}

// Idle waits until no call is running.
func (r *Rig) Idle() {
	r.Helper()
	for end := time.Now().Add(5 * time.Second); r.dispatcher.Stats().Running > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatal("a call runs on")
		}
	}
}

// Tokens is how many tokens the ledger holds now.
func (r *Rig) Tokens() int64 {
	r.Helper()
	b, err := r.ledger.Snapshot(r.Context(), r.limits)
	if err != nil {
		r.Fatal(err)
	}
	return b[1].Used
}
