package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// A misconfiguration ends the server at its start and says what to do.
func TestConfigIsRefused(t *testing.T) {
	keys := keyFile(t, testKeys)
	for _, tt := range []struct {
		args string
		env  map[string]string
		want string
	}{
		{"-addr :8080", nil, "add -keys FILE"},
		{"-addr 0.0.0.0:8080", nil, "add -keys FILE"},
		{"-addr 8080", nil, "HOST:PORT"},
		{"-upstream https://api.openai.com/v1 -keys " + keys, nil, "set OPENAI_API_KEY"},
		{"-upstream https://api.openai.com/v1", map[string]string{"OPENAI_API_KEY": "k"}, "add -keys FILE"},
		{"-upstream api.openai.com -keys " + keys, map[string]string{"OPENAI_API_KEY": "k"}, "plain URL"},
		{"-upstream https://user:secret@host -keys " + keys, map[string]string{"OPENAI_API_KEY": "k"}, "plain URL"},
		{"-faults -upstream https://api.openai.com -keys " + keys, map[string]string{"OPENAI_API_KEY": "k"}, "-faults"},
		{"-tpm 0", nil, "-tpm"},
		{"-rpm -1", nil, "-rpm"},
		{"-embed-tpm 1000000000", nil, "-embed-tpm"},
		{"-tenant acme", nil, "NAME=TPM"},
		{"-tenant acme=0", nil, "1 to 100000000"},
		{"-tenant-default -1", nil, "-tenant-default"},
		{"-settle sometimes", nil, "actual or final"},
		{"-max-wait 2m", nil, "-max-wait"},
		{"-workers 0", nil, "-workers"},
		{"-max-memory 1", nil, "-max-memory"},
		{"-drain -1s", nil, "-drain"},
		{"-model a -embed-model a", nil, "two names"},
		{"-no-such-flag", nil, "not defined"},
		{"serve", nil, "unexpected argument"},
		{"", map[string]string{"PACELINE_MAX_QUEUE": "many"}, "PACELINE_MAX_QUEUE"},
	} {
		_, err := parseConfig(strings.Fields(tt.args), func(k string) string { return tt.env[k] }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %v: %v, want one that says %q", tt.args, tt.env, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", tt.args, err)
		}
	}
}

func TestConfig(t *testing.T) {
	env := map[string]string{"PACELINE_MAX_WAIT": "20s", "PACELINE_TPM": "7", "PACELINE_TENANT": "a=1,b=2"}
	c, err := parseConfig([]string{"-tpm", "9"}, func(k string) string { return env[k] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.maxWait != 20*time.Second || c.tpm != 9 || !slices.Equal(c.tenants.limits, []tenantLimit{{"a", 1}, {"b", 2}}) {
		t.Errorf("the command line counts before the environment, and that before the defaults: %+v", c)
	}
	if c.settle != "actual" || c.shutdownDelay != 0 {
		t.Errorf("%+v", c)
	}
	for args, want := range map[string]string{
		"":                               "acme=40000,globex=10000",
		"-tenant x=5 -tenant y=6":        "x=5,y=6",
		"-tenant none":                   "",
		"-tenant none -tenant z=1":       "z=1",
		"-tenant none -tenant-default 0": "",
	} {
		c, err := parseConfig(strings.Fields(args), func(string) string { return "" }, io.Discard)
		if err != nil || c.tenants.String() != want {
			t.Errorf("%q: %v %v, want %q", args, c.tenants.limits, err, want)
		}
	}
	c, err = parseConfig([]string{"-addr", ":0", "-upstream", "https://h", "-keys", "f"}, func(k string) string { return map[string]string{"OPENAI_API_KEY": "k"}[k] }, io.Discard)
	if err != nil || c.settle != "final" || c.shutdownDelay != 5*time.Second {
		t.Errorf("%+v %v", c, err)
	}
}

// A ledger that was asked for and is not there ends the server at its start,
// loudly: BerriAI/litellm#13202.
func TestLedgerThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"redis://user:secret@127.0.0.1:1/0", "can not be reached"},
		{"redis-cluster://127.0.0.1:1", "can not be reached"},
		{"http://127.0.0.1", "unknown scheme"},
		{"redis://user:secret@127.0.0.1:port", "-ledger"},
	} {
		err := run(t.Context(), []string{"-addr", "127.0.0.1:0", "-ledger", tt.url}, func(string) string { return "" }, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want one that says %q", tt.url, err, tt.want)
		}
	}
}

func TestRunPrintsWhatToTry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-addr", "127.0.0.1:0"}, func(string) string { return "" }, w, io.Discard)
	}()
	out := make([]byte, 8192)
	n, err := r.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(out[:n]); !strings.Contains(text, "http://127.0.0.1:") || strings.Count(text, "\n  ") != 3 {
		t.Errorf("%s", text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
