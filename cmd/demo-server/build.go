package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/telemetry"
)

// app is the server and what it is made of.
type app struct {
	server            *server
	ledger            ledger.Ledger
	plan              *provider.Plan
	estimators        estimators
	factors           *learn.Factors
	accounts          []*account
	upstreams         []*upstream         // one per account
	simulator         *simprovider.Server // nil with -upstream and -accounts
	simulatorListener net.Listener
	closers           []func() error
}

func (a *app) close() {
	for _, c := range a.closers {
		_ = c() // the process ends
	}
}

// build makes the parts, and starts none.
func build(ctx context.Context, cfg *config, log *slog.Logger) (_ *app, err error) {
	a := new(app)
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	var keys keyring
	if cfg.keys != "" {
		if keys, err = readKeys(cfg.keys); err != nil {
			return nil, err
		}
	}
	ping, err := a.openLedger(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err = a.openAccounts(cfg); err != nil {
		return nil, err
	}
	if a.plan, err = newPlan(cfg, a.accounts); err != nil {
		return nil, err
	}
	lengths, err := learn.NewLengths(learn.LengthsConfig{Default: defaultOutput})
	if err != nil {
		return nil, err
	}
	a.factors = learn.NewFactors(0)
	if a.estimators, err = newEstimators(a.accounts, a.factors, lengths, log); err != nil {
		return nil, err
	}
	var budgeted []string
	for _, acc := range a.accounts {
		budgeted = append(budgeted, acc.name)
	}
	metrics := telemetry.New(telemetry.Config{Ledger: a.ledger, Limits: a.plan.Limits, Models: budgeted, Factors: a.factors, Lengths: lengths})
	registry := prometheus.NewRegistry()
	responses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "paceline_http_responses_total", Help: "Answers by path and status; 499 is a client that went away first.",
	}, []string{"path", "status"})
	registry.MustRegister(metrics, responses, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := &health{ping: ping}
	d, err := dispatcher.New(dispatcher.Config{
		Ledger: a.ledger, Plan: a.plan, Estimator: a.estimators,
		Workers: cfg.workers, MaxQueue: cfg.maxQueue, MaxTenantQueue: min(cfg.maxTenantQueue, cfg.maxQueue),
		MaxWait: cfg.maxWait, AgingStep: cfg.maxWait / 6,
		Observer: observer{metrics, h}, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	metrics.Watch(d.Stats)
	client := newClient(cfg.workers)
	a.closers = append(a.closers, func() error { client.CloseIdleConnections(); return nil })
	models := new(catalog)
	for _, acc := range a.accounts {
		feedback, err := acc.feedback(a.plan, a.ledger, log)
		if err != nil {
			return nil, err
		}
		up := newUpstream(acc, client, feedback, metrics.ProviderRefused, log)
		if acc.profile.ReservesOutput() {
			up.lowerCap = func(s job.Spec) (int64, bool) { return a.estimators.lowerCap(s, cfg.lowerMaxTokens) }
		}
		a.closers = append([]func() error{func() error { up.hearing.Wait(); return nil }}, a.closers...)
		a.upstreams = append(a.upstreams, up)
		for _, m := range acc.models {
			models.add(m, offer{up, acc.name})
		}
	}
	snapshots, _ := a.ledger.(ledger.Snapshotter)
	a.server = &server{
		dispatcher: d, models: models, responses: responses,
		budgets:    &budgets{ledger: snapshots, limits: a.plan.Limits, fields: cfg.rateLimitFields},
		exposition: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		health:     h, keys: keys, jobs: newJobStore(), log: log,
		maxBody: cfg.maxBody << 20, maxWait: cfg.maxWait,
		patience: patience, comment: commentEvery,
	}
	a.server.memory.most = cfg.maxMemory << 20
	if cfg.faults {
		a.server.faults = &faults{struck: make(map[string]int)}
	}
	return a, nil
}

// openLedger opens the ledger and returns how to ask whether it is there; nil for
// one in memory. One that was asked for and is not there ends the server: a fleet
// whose members count each for itself has as many limits as members
// (BerriAI/litellm#13202).
func (a *app) openLedger(ctx context.Context, cfg *config) (ping func(context.Context) error, err error) {
	if cfg.ledger == "" {
		a.ledger = ledger.NewMemory()
		return nil, nil
	}
	client, err := redisledger.Open(cfg.ledger)
	if err != nil {
		return nil, fmt.Errorf("-ledger: %w", err)
	}
	a.closers = append(a.closers, client.Close)
	l, err := redisledger.New(client, redisledger.Config{})
	if err != nil {
		return nil, fmt.Errorf("-ledger: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := l.Ping(ctx); err != nil {
		scheme, _, _ := strings.Cut(cfg.ledger, "://") // the rest may have a password
		return nil, fmt.Errorf("-ledger: the shared ledger (%s) can not be reached: %w; start it, or leave -ledger out for a ledger in memory", scheme, err)
	}
	a.ledger = l
	return l.Ping, nil
}

// defaultOutput is what a chat is expected to say that declares no cap, by us and
// by the simulator.
const defaultOutput = 512

// newPlan has the accounts' limits, which all tenants share, and the tenants'.
func newPlan(cfg *config, accounts []*account) (*provider.Plan, error) {
	var rules []provider.Rule
	var budgets []string
	for _, a := range accounts {
		budgets = append(budgets, a.name)
		for _, r := range a.rules {
			r.Models = []string{a.name}
			if l := &r.Limit; cfg.reserve > 0 && !l.Unpaced && l.Unit != ledger.Requests && l.Unit != ledger.InFlight {
				r.Reserves = []provider.Reserve{{For: job.Paid, Percent: cfg.reserve}}
			}
			rules = append(rules, r)
		}
	}
	for _, t := range cfg.tenants.limits {
		rules = append(rules, provider.Rule{Limit: perMinute("tenant-tpm", ledger.Tokens, t.tpm, ledger.SettleActual), Tenants: []string{t.name}})
	}
	if cfg.tenantDefault > 0 {
		rules = append(rules, provider.Rule{Limit: perMinute("tenant-tpm", ledger.Tokens, cfg.tenantDefault, ledger.SettleActual), Each: provider.EachTenant})
	}
	return provider.NewPlan(provider.PlanConfig{Rules: rules, Models: budgets})
}

func perMinute(key string, unit ledger.Unit, amount int64, settle ledger.Rule) ledger.Limit {
	return ledger.Limit{Key: key, Unit: unit, Amount: amount, Window: time.Minute, Settle: settle}
}

// openAccounts returns the accounts that calls go to: those of -accounts, or those that
// the other flags describe, at the simulator if there is no -upstream.
func (a *app) openAccounts(cfg *config) (err error) {
	if a.accounts = cfg.accounts; a.accounts != nil {
		return nil
	}
	base, key := cfg.upstream, cfg.upstreamKey
	if base == "" {
		if base, key, err = a.simulate(cfg); err != nil {
			return err
		}
	}
	a.accounts, err = cfg.flagAccounts(base, key)
	return err
}

// simulate makes the simulator, on a port of its own, with the limits that we are
// to keep: it refuses what we should not have sent.
func (a *app) simulate(cfg *config) (base, key string, err error) {
	key = rand.Text()
	a.simulator, err = simprovider.New(simprovider.Config{
		TPM: cfg.tpm, RPM: cfg.rpm,
		Models:          []simprovider.Model{{ID: cfg.model}, {ID: cfg.embedModel, TPM: cfg.embedTPM, RPM: cfg.embedRPM}},
		Settle:          simprovider.Settle(cfg.settle),
		DefaultOutput:   defaultOutput,
		FirstByte:       300 * time.Millisecond,
		OutputPerMinute: 6_000,
		APIKey:          key,
		Faults:          cfg.faults,
	})
	if err != nil {
		return "", "", err
	}
	if a.simulatorListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return "", "", fmt.Errorf("the simulator: %w", err)
	}
	a.closers = append(a.closers, a.simulatorListener.Close)
	return "http://" + a.simulatorListener.Addr().String(), key, nil
}
