package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/telemetry"
)

const testKeys = `
# key                 tenant   class
sk-test-paid-000000   acme     paid
sk-test-free-000000   globex
sk-test-batch-00000   initech  background
sk-test-zero-000000   zero     0
`

// running is a server that listens.
type running struct {
	t    testing.TB
	app  *app
	url  string
	stop context.CancelFunc // begins the drain
	done chan error         // what serve returned
}

// start runs a server with the flags, over the simulator.
func start(t testing.TB, args ...string) *running {
	t.Helper()
	return startWith(t, func(*app) {}, nil, args...)
}

// startOver runs a server with keys over a provider that is a handler.
func startOver(t testing.TB, provider http.HandlerFunc, change func(*app), args ...string) *running {
	t.Helper()
	upstream := httptest.NewServer(provider)
	t.Cleanup(upstream.Close)
	args = append([]string{"-upstream", upstream.URL, "-keys", keyFile(t, testKeys)}, args...)
	return startWith(t, change, map[string]string{"OPENAI_API_KEY": "sk-upstream"}, args...)
}

func startWith(t testing.TB, change func(*app), env map[string]string, args ...string) *running {
	t.Helper()
	cfg, err := parseConfig(append([]string{"-addr", "127.0.0.1:0"}, args...), func(k string) string { return env[k] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	a, err := build(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	change(a)
	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: t, app: a, url: "http://" + listener.Addr().String(), stop: stop, done: make(chan error, 1)}
	go func() {
		err := a.serve(ctx, listener, cfg, log, io.Discard)
		a.close()
		r.done <- err
		close(r.done)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-r.done; err != nil {
			t.Errorf("serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// testLog shows the server's log of a test that fails.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func keyFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer is a whole response.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// send makes a request; headers are names and values in turn.
func (r *running) send(method, path, body string, headers ...string) answer {
	r.t.Helper()
	return r.sendContext(r.t.Context(), method, path, body, headers...)
}

func (r *running) sendContext(ctx context.Context, method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp, string(b), err}
}

const (
	paidKey  = "Bearer sk-test-paid-000000"
	freeKey  = "Bearer sk-test-free-000000"
	batchKey = "Bearer sk-test-batch-00000"
	zeroKey  = "Bearer sk-test-zero-000000"
)

// errorOf reads an error in OpenAI's shape, and fails the test on any other.
func errorOf(t *testing.T, a answer) (e struct{ Message, Type, Param, Code string }) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	var v struct {
		Error map[string]*string `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: not OpenAI's shape: %s", a.StatusCode, a.Header.Get("Content-Type"), a.body)
	}
	for key, to := range map[string]*string{"message": &e.Message, "type": &e.Type, "param": &e.Param, "code": &e.Code} {
		p, there := v.Error[key]
		if !there {
			t.Errorf("%s: no %s", a.body, key)
		}
		if p != nil {
			*to = *p
		}
	}
	if e.Message == "" || e.Type == "" {
		t.Errorf("%s: no message or type", a.body)
	}
	return e
}

// eventually waits for something that another goroutine is about to do.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 5 s: %s", what)
}

// idle waits until nothing runs and nothing waits.
func (r *running) idle() {
	r.t.Helper()
	eventually(r.t, "nothing runs or waits", func() bool {
		s := r.app.server.dispatcher.Stats()
		n := s.Running
		for _, w := range s.Waiting {
			n += w
		}
		return n == 0
	})
}

// holdsNothing waits until no body is held. A client has its answer just before.
func (r *running) holdsNothing() {
	r.t.Helper()
	eventually(r.t, "no body is held", func() bool { return r.app.server.memory.used.Load() == 0 })
}

// used is what the tenant's own limit counts in its window.
func (r *running) used(tenant string) int64 {
	r.t.Helper()
	var own []*ledger.Limit
	for _, l := range r.app.plan.Limits("gpt-4o-mini", tenant, job.Free) {
		if l.Own {
			own = append(own, l)
		}
	}
	got, err := r.app.ledger.(ledger.Snapshotter).Snapshot(r.t.Context(), own)
	if err != nil || len(got) != 1 {
		r.t.Fatal(got, err)
	}
	return got[0].Used
}

// usedOf is what each limit of an account counts in its window.
func (r *running) usedOf(account string) map[string]int64 {
	r.t.Helper()
	got, err := r.app.ledger.(ledger.Snapshotter).Snapshot(r.t.Context(), r.app.plan.Limits(account, "", job.Free))
	if err != nil {
		r.t.Fatal(err)
	}
	used := make(map[string]int64)
	for _, b := range got {
		used[b.Limit.Key] = b.Used
	}
	return used
}

// discard is a log that nobody reads.
var discard = slog.New(slog.DiscardHandler)

// metric returns the value of one sample.
func (r *running) metric(name string) (value string) {
	r.t.Helper()
	a := r.send("GET", "/metrics", "")
	for line := range strings.Lines(a.body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// metricOf is the value of a sample as a number; 0 when there is none yet.
func metricOf(t testing.TB, s *running, name string) float64 {
	t.Helper()
	text := s.metric(name)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const hello = `{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hello"}],"max_tokens":20}`

func newTestMetrics() *telemetry.Metrics { return telemetry.New(telemetry.Config{}) }
