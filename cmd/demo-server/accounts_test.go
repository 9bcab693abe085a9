package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-go/paceline/job"
)

func accountsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "accounts.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A wrong file ends the server at its start, and the error says which account and what
// to do, without the key.
func TestAccountsAreRefused(t *testing.T) {
	const good = `{"name":"a","profile":"openai","api_key":"sk-secret","models":["m"]}`
	with := func(more string) string { return strings.Replace(good, "{", "{"+more+",", 1) }
	for _, tt := range []struct{ file, want string }{
		{``, "JSON array"},
		{`{}`, "JSON array"},
		{`[]`, "no accounts"},
		{`[` + good + `] x`, "after the array"},
		{`[` + with(`"modles":[]`) + `]`, `unknown field "modles"`},
		{`[` + with(`"limits":{"tpm":"many"}`) + `]`, "JSON array"},
		{`[` + strings.Replace(good, `"a"`, `"a b"`, 1) + `]`, "account 1"},
		{`[` + strings.Replace(good, `"a"`, `""`, 1) + `]`, "name: want"},
		{`[` + good + `,` + strings.Replace(good, `"m"`, `"n"`, 1) + `]`, "name: another account"},
		{`[` + strings.Replace(good, "openai", "openal", 1) + `]`, "anthropic, azure_openai"},
		{`[` + strings.Replace(good, "openai", "vertex_gemini", 1) + `]`, "give the URL"},
		{`[` + strings.Replace(good, "openai", "azure_openai", 1) + `]`, "base_url: give the URL"},
		{`[` + strings.Replace(good, "openai", "generic", 1) + `]`, "base_url: give the URL"},
		{`[` + strings.Replace(good, "openai", "gemini", 1) + `]`, "base_url: give the URL"},
		{`[` + strings.Replace(good, "openai", "cohere", 1) + `]`, "base_url: give the URL"},
		{`[` + with(`"base_url":"api.openai.com"`) + `]`, "plain URL"},
		{`[` + with(`"base_url":"https://u:p@host"`) + `]`, "plain URL"},
		{`[` + with(`"api_key_env":"KEY"`) + `]`, "either api_key or api_key_env"},
		{`[` + strings.Replace(good, `"api_key":"sk-secret",`, "", 1) + `]`, "either api_key or api_key_env"},
		{`[` + strings.Replace(good, `"api_key":"sk-secret"`, `"api_key_env":"NO_KEY"`, 1) + `]`, "set NO_KEY"},
		{`[` + strings.Replace(good, "sk-secret", `sk-secret\n`, 1) + `]`, "character"},
		{`[` + strings.Replace(good, `["m"]`, `[]`, 1) + `]`, "models: name at least one"},
		{`[` + strings.Replace(good, `["m"]`, `["a*b"]`, 1) + `]`, "one * after it"},
		{`[` + strings.Replace(good, `["m"]`, `["m**"]`, 1) + `]`, "one * after it"},
		{`[` + strings.Replace(good, `["m"]`, `[""]`, 1) + `]`, "models:"},
		{`[` + strings.Replace(good, `["m"]`, `["m","m"]`, 1) + `]`, "already"},
		{`[` + good + `,` + strings.Replace(good, `"a"`, `"b"`, 1) + `]`, `"m" is served by account "a"`},
		{`[` + with(`"limits":{"itpm":5}`) + `]`, "openai counts rpm, rpd, tpm, tpd, not \"itpm\""},
		{`[` + with(`"limits":{"tpm":0}`) + `]`, "tpm must be from 1"},
		{`[{"name":"a","profile":"anthropic","api_key":"k","models":["claude-3-5-haiku","claude-x"],"limits":{"itpm":9}}]`, "in two accounts"},
	} {
		_, err := readAccounts(accountsFile(t, tt.file), func(string) string { return "" })
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want one that says %q", tt.file, err, tt.want)
		}
	}
	if _, err := readAccounts("/does/not/exist", nil); err == nil {
		t.Error("a file that is not there was read")
	}
	file, keys := accountsFile(t, "["+good+"]"), keyFile(t, testKeys)
	for args, want := range map[string]string{
		"-accounts " + file: "-accounts spends money, so callers need keys",
		"-accounts " + file + " -keys " + keys + " -upstream https://h": "-upstream can not be used with -accounts",
		"-accounts " + file + " -keys " + keys + " -tpm 5":              "-tpm can not be used with -accounts",
		"-accounts " + file + " -keys " + keys + " -faults":             "-faults",
		"-accounts /does/not/exist -keys " + keys:                       "no such file",
	} {
		if _, err := parseConfig(strings.Fields(args), func(string) string { return "" }, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one that says %q", args, err, want)
		}
	}
}

// Where the provider is comes from the profile if it can.
func TestAccountURLs(t *testing.T) {
	for _, tt := range []struct{ profile, url, want string }{
		{"openai", "", "https://api.openai.com/v1"},
		{"anthropic", "", "https://api.anthropic.com/v1"},
		{"deepseek", "", "https://api.deepseek.com/v1"},
		{"groq", "", "https://api.groq.com/openai/v1"},
		{"generic", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"},
		{"openai", "https://proxy/x/", "https://proxy/x"},
		{"azure_openai", "https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1"},
		{"azure_openai", "https://r.openai.azure.com/openai/deployments/d", "https://r.openai.azure.com/openai/deployments/d"},
	} {
		file := accountsFile(t, fmt.Sprintf(`[{"name":"a","profile":%q,"base_url":%q,"api_key":"k","models":["*"]}]`, tt.profile, tt.url))
		accounts, err := readAccounts(file, nil)
		if err != nil {
			t.Errorf("%s %s: %v", tt.profile, tt.url, err)
			continue
		}
		if got := newUpstream(accounts[0], nil, nil, nil, discard).base; got != tt.want {
			t.Errorf("%s %q is at %s, want %s", tt.profile, tt.url, got, tt.want)
		}
	}
}

// fleet is three providers, and a server with an account at each.
type fleet struct {
	*running
	openAI, claude, azure *recording
}

const okCompletion = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`

func startFleet(t *testing.T, args ...string) *fleet {
	t.Helper()
	reply := func(body string) *recording {
		return &recording{answer: func(w http.ResponseWriter, _ int) { writeJSON(w, 200, []byte(body)) }}
	}
	f := &fleet{
		openAI: reply(okCompletion), azure: reply(okCompletion),
		claude: reply(`{"type":"message","content":[],"usage":{"input_tokens":30,"cache_read_input_tokens":1000,"output_tokens":2}}`),
	}
	var urls []any
	for _, p := range []*recording{f.openAI, f.claude, f.azure} {
		s := httptest.NewServer(p)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	file := accountsFile(t, fmt.Sprintf(`[
		{"name":"main","profile":"openai","base_url":"%s","api_key":"sk-main","models":["gpt-4o-mini","o4-*"],"limits":{"tpm":10000000,"rpm":5000}},
		{"name":"claude","profile":"anthropic","base_url":"%s","api_key_env":"CLAUDE_KEY","models":["claude-*"],"limits":{"itpm":4000000,"otpm":800000,"rpm":5000}},
		{"name":"azure","profile":"azure_openai","base_url":"%s","api_key":"az","models":["o4-mini","gpt-4o-*"],"limits":{"rpm":600}}]`, urls...))
	args = append([]string{"-accounts", file, "-keys", keyFile(t, testKeys), "-tenant", "none", "-tenant-default", "0"}, args...)
	f.running = startWith(t, func(*app) {}, map[string]string{"CLAUDE_KEY": "sk-ant"}, args...)
	return f
}

// A call goes to the account that serves its model, with the key in the header that the
// provider wants.
func TestModelsAreRouted(t *testing.T) {
	s := startFleet(t)
	bearer := map[string]string{"Authorization": "Bearer sk-main", "X-Api-Key": "", "Api-Key": "", "Anthropic-Version": ""}
	apiKey := map[string]string{"Authorization": "", "X-Api-Key": "", "Api-Key": "az"}
	for _, tt := range []struct {
		path, model string
		provider    *recording
		at          string
		headers     map[string]string
	}{
		{"/v1/chat/completions", "gpt-4o-mini", s.openAI, "/v1/chat/completions", bearer},
		{"/v1/chat/completions", "o4-large", s.openAI, "/v1/chat/completions", bearer},
		{"/v1/chat/completions", "o4-mini", s.azure, "/openai/v1/chat/completions", apiKey},      // a name counts before a prefix
		{"/v1/chat/completions", "gpt-4o-audio", s.azure, "/openai/v1/chat/completions", apiKey}, // the longest prefix counts
		{"/v1/responses", "gpt-4o-mini", s.openAI, "/v1/responses", bearer},
		{"/v1/embeddings", "o4-embed", s.openAI, "/v1/embeddings", bearer},
		{"/v1/messages", "claude-sonnet-5", s.claude, "/v1/messages", map[string]string{"Authorization": "", "X-Api-Key": "sk-ant", "Api-Key": "", "Anthropic-Version": "2023-06-01"}},
	} {
		before := tt.provider.count()
		body := fmt.Sprintf(`{"model":%q,"input":"x","max_tokens":20,"messages":[{"role":"user","content":"x"}]}`, tt.model)
		a := s.send("POST", tt.path, body, "X-Api-Key", strings.TrimPrefix(paidKey, "Bearer "), "Api-Key", "theirs")
		if a.StatusCode != 200 || tt.provider.count() != before+1 {
			t.Errorf("%s %s: %d %s", tt.path, tt.model, a.StatusCode, a.body)
			continue
		}
		sent, at, h := tt.provider.last()
		if sent != body || at != tt.at {
			t.Errorf("%s got %s", at, sent)
		}
		for name, want := range tt.headers {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", tt.model, name, h.Get(name), want)
			}
		}
	}
	if a := s.send("POST", "/v1/messages", strings.Replace(aMessage, "gpt-4o-mini", "claude-x", 1), "Authorization", paidKey, "Anthropic-Version", "2099-01-01"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if _, _, h := s.claude.last(); h.Get("Anthropic-Version") != "2099-01-01" {
		t.Errorf("the caller's version became %s", h.Get("Anthropic-Version"))
	}
	if a := s.send("POST", "/chat", `{"prompt":"x","max_tokens":5}`, "Authorization", paidKey); a.body != `{"reply":"hi"}` {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.send("GET", "/v1/models", "", "Authorization", paidKey); strings.Count(a.body, `"id":`) != 2 || !strings.Contains(a.body, `"gpt-4o-mini"`) || !strings.Contains(a.body, `"o4-mini"`) {
		t.Errorf("%s", a.body)
	}
	if a := s.send("GET", "/v1/models/claude-x", "", "Authorization", paidKey); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	// What nobody serves, and what its provider does not speak.
	a := s.send("POST", "/v1/chat/completions", strings.Replace(hello, "gpt-4o-mini", "llama", 1), "Authorization", paidKey)
	if e := errorOf(t, a); a.StatusCode != 404 || e.Code != "model_not_found" || e.Param != "model" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	a = s.send("POST", "/v1/chat/completions", strings.Replace(hello, "gpt-4o-mini", "claude-x", 1), "Authorization", paidKey)
	if e := errorOf(t, a); a.StatusCode != 400 || e.Param != "model" || !strings.Contains(e.Message, "/v1/messages") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.send("POST", "/v1/messages", aMessage, "Authorization", paidKey); a.StatusCode != 400 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// Each account has budgets of its own, which its models share, and what counts is what
// its provider counts.
func TestAccountsHaveTheirOwnBudgets(t *testing.T) {
	s := startFleet(t, "-reserve", "10")
	budgets := make(map[string]map[string]bool)
	for _, a := range s.app.accounts {
		budgets[a.name] = make(map[string]bool)
		for _, l := range s.app.plan.Limits(a.name, "acme", job.Free) {
			budgets[a.name][l.Key] = true
		}
	}
	for name, want := range map[string][]string{
		"main":   {`rpm model="main"`, `tpm model="main"`, `tpm reserve=1 model="main"`},
		"claude": {`itpm model="claude"`, `itpm reserve=1 model="claude"`, `otpm model="claude"`, `otpm reserve=1 model="claude"`, `rpm model="claude"`},
		"azure":  {`rpm 10s model="azure"`, `rpm model="azure"`},
	} {
		if got := slices.Sorted(maps.Keys(budgets[name])); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for _, model := range []string{"gpt-4o-mini", "o4-x"} {
		if a := s.send("POST", "/v1/chat/completions", strings.Replace(hello, "gpt-4o-mini", model, 1), "Authorization", paidKey); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	if a := s.send("POST", "/v1/messages", strings.Replace(aMessage, "gpt-4o-mini", "claude-x", 1), "Authorization", paidKey); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	s.idle()
	used := s.usedOf("main")
	if used[`rpm model="main"`] != 2 || used[`tpm model="main"`] < 40 { // the estimates stand at OpenAI
		t.Errorf("%v", used)
	}
	// What was read from the cache is billed, and not counted.
	used = s.usedOf("claude")
	if used[`rpm model="claude"`] != 1 || used[`itpm model="claude"`] != 30 || used[`otpm model="claude"`] != 2 {
		t.Errorf("%v", used)
	}
	if n := s.usedOf("azure")[`rpm model="azure"`]; n != 0 {
		t.Errorf("%d requests", n)
	}
	// The metrics know the accounts from the start.
	for _, name := range []string{"main", "claude", "azure"} {
		if got := s.metric(fmt.Sprintf(`llm_bucket_remaining{limit="rpm model=\"%s\"",tenant=""}`, name)); got == "" {
			t.Errorf("no balance of %s", name)
		}
	}
}

func TestAccountsIndex(t *testing.T) {
	s := startFleet(t)
	if a := s.send("GET", "/", ""); !strings.Contains(a.body, "gpt-4o-mini, o4-*, claude-*, o4-mini, gpt-4o-*") || strings.Contains(a.body, "%!") {
		t.Errorf("%s", a.body)
	}
}
