package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
)

// account is one set of credentials at one provider, and the models it serves, which
// share its limits. The plan, the queue and the metrics know these models by the
// account's name.
type account struct {
	name      string
	base, key string
	profile   *provider.Profile
	models    []string // names, or prefixes with a * at their ends
	rules     []provider.Rule
}

// feedback hears what the account's provider says of its limits. Providers tell those of
// a model: an account of several models keeps the amounts that it was given.
func (a *account) feedback(plan *provider.Plan, l ledger.Ledger, log *slog.Logger) (*provider.Feedback, error) {
	hears, ok := l.(ledger.Feedback)
	if !ok {
		return nil, nil
	}
	return provider.NewFeedback(provider.FeedbackConfig{
		Profile: a.profile, Plan: plan, Ledger: hears, KeepAmounts: !single(a.models), Logger: log.With("account", a.name),
	})
}

// single says that the models are one, and not all that begin alike.
func single(models []string) bool { return len(models) == 1 && !strings.HasSuffix(models[0], "*") }

// accountEntry is an account in the file of -accounts, a JSON array of these:
//
//	[{"name": "openai", "profile": "openai", "api_key_env": "OPENAI_API_KEY",
//	  "models": ["gpt-4o-mini", "o4-*"], "limits": {"tpm": 200000, "rpm": 500}},
//	 {"name": "anthropic", "profile": "anthropic", "api_key_env": "ANTHROPIC_API_KEY",
//	  "models": ["claude-*"], "limits": {"rpm": 50, "itpm": 40000, "otpm": 8000}}]
type accountEntry struct {
	Name    string `json:"name"`
	Profile string `json:"profile"` // a name that provider.ProfileNamed knows
	// BaseURL may be left out where the provider has one for everybody.
	BaseURL string `json:"base_url"`
	// One of these: the key, or the environment variable that has it.
	APIKey    string `json:"api_key"`
	APIKeyEnv string `json:"api_key_env"`
	// Models are names, or beginnings of names with a * after them.
	Models []string `json:"models"`
	// Limits are amounts by the profile's names of them. All models of the account
	// share them; what is not limited here is not limited.
	Limits map[string]int64 `json:"limits"`
}

// readAccounts reads the file of -accounts. Errors name the account and the field,
// never a key.
func readAccounts(path string, getenv func(string) string) ([]*account, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("-accounts: %w", err)
	}
	defer file.Close()
	var entries []accountEntry
	in := json.NewDecoder(file)
	in.DisallowUnknownFields()
	if err := in.Decode(&entries); err != nil {
		return nil, fmt.Errorf("-accounts: %s: want a JSON array of accounts: %w", path, err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("-accounts: %s: there is something after the array", path)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("-accounts: %s has no accounts", path)
	}
	var accounts []*account
	names, models := make(map[string]bool), make(map[string]string)
	for i, e := range entries {
		a, err := e.account(getenv)
		switch {
		case err != nil:
		case names[e.Name]:
			err = errors.New("name: another account has it")
		default:
			names[e.Name] = true
			for _, m := range e.Models {
				if other, twice := models[m]; twice {
					err = fmt.Errorf("models: %q is served by account %q already", m, other)
				}
				models[m] = e.Name
			}
		}
		if err != nil {
			return nil, fmt.Errorf("-accounts: %s: account %d (%.64q): %w", path, i+1, e.Name, err)
		}
		accounts = append(accounts, a)
	}
	return accounts, nil
}

// accountName keeps names readable in logs and in the keys of limits.
var accountName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (e *accountEntry) account(getenv func(string) string) (*account, error) {
	if !accountName.MatchString(e.Name) {
		return nil, errors.New("name: want 1 to 64 letters, digits, dots, dashes and underscores")
	}
	p, err := provider.ProfileNamed(e.Profile)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	a := &account{name: e.Name, profile: p, models: e.Models}
	if a.base, err = e.base(p); err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	switch {
	case (e.APIKey == "") == (e.APIKeyEnv == ""):
		return nil, errors.New("give either api_key or api_key_env")
	case e.APIKey != "":
		a.key = e.APIKey
	default:
		if a.key = getenv(e.APIKeyEnv); a.key == "" {
			return nil, fmt.Errorf("api_key_env: set %s in the environment", e.APIKeyEnv)
		}
	}
	if strings.ContainsFunc(a.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key has a character that no header may have")
	}
	if len(e.Models) == 0 {
		return nil, errors.New("models: name at least one")
	}
	for _, m := range e.Models {
		if m == "" || strings.Contains(strings.TrimSuffix(m, "*"), "*") {
			return nil, fmt.Errorf("models: %q must be a name, or the beginning of names with one * after it", m)
		}
	}
	if a.rules, err = e.rules(p); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return a, nil
}

// base is the URL to which paths are added.
func (e *accountEntry) base(p *provider.Profile) (string, error) {
	text := e.BaseURL
	if text == "" {
		// Gemini and Cohere have OpenAI's API elsewhere than their own.
		elsewhere := paths[p.APIs[0]] == "" || p.Name == "cohere"
		if elsewhere || len(p.BaseURLs) != 1 || strings.Contains(p.BaseURLs[0], "{") {
			return "", fmt.Errorf("give the URL to which paths like %s are added", paths[provider.Chat])
		}
		text = p.BaseURLs[0]
	}
	u, ok := plainURL(text)
	if !ok {
		return "", errors.New("want a plain URL such as https://api.openai.com/v1")
	}
	if p.Name == azure && strings.Trim(u.Path, "/") == "" {
		text = strings.TrimRight(text, "/") + "/openai/v1"
	}
	return text, nil
}

// plainURL says that the text is a URL with nothing but a host and a path.
func plainURL(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, true
}

// rules are the account's limits: budgets of its own, which all its models share.
func (e *accountEntry) rules(p *provider.Profile) ([]provider.Rule, error) {
	var known []string
	for _, d := range p.Dimensions {
		known = append(known, d.Name)
	}
	for name, amount := range e.Limits {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("%s counts %s, not %.64q", p.Name, strings.Join(known, ", "), name)
		case amount < 1 || amount > ledger.MaxAmount:
			return nil, fmt.Errorf("%s must be from 1 to %d, not %d", name, ledger.MaxAmount, amount)
		}
	}
	if len(e.Limits) == 0 && single(e.Models) {
		if rules, err := p.UnknownRules(e.Models[0]); err == nil {
			return rules, nil // it tells them
		}
	}
	var rules []provider.Rule
	for i, m := range e.Models {
		of, err := p.Rules(strings.TrimSuffix(m, "*"), e.Limits)
		switch {
		case err != nil:
			return nil, err
		case i > 0 && !reflect.DeepEqual(rules, of):
			return nil, fmt.Errorf("%s counts %q and %q in different ways: list them in two accounts", p.Name, e.Models[0], m)
		}
		rules = of
	}
	return rules, nil
}

// flagAccounts are the accounts when flags describe them: one provider, which counts
// each model by itself, so each is an account of its own. It may be any that speaks one
// of the APIs.
func (c *config) flagAccounts(base, key string) ([]*account, error) {
	generic, err := provider.ProfileNamed("generic")
	if err != nil {
		return nil, err
	}
	settle := ledger.SettleActual
	if c.settle == "final" {
		settle = ledger.SettleFinal
	}
	of := func(model string, tpm, rpm int64) *account {
		return &account{
			name: model, base: base, key: key, profile: generic, models: []string{model},
			rules: []provider.Rule{
				{Limit: perMinute("tpm", ledger.Tokens, tpm, settle)},
				{Limit: perMinute("rpm", ledger.Requests, rpm, settle)},
			},
		}
	}
	return []*account{of(c.model, c.tpm, c.rpm), of(c.embedModel, c.embedTPM, c.embedRPM)}, nil
}

// modelNames are the models of all accounts, those with a * too.
func modelNames(accounts []*account) (names []string) {
	for _, a := range accounts {
		names = append(names, a.models...)
	}
	return names
}
