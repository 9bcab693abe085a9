package transport_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger/redisledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// refusing is a provider that refuses one call of the first process, and notes when
// calls came.
type refusing struct {
	mu      sync.Mutex
	calls   int
	refused time.Time
	after   map[string][]time.Duration // by process: from the refusal
}

const refusedFor = 2 * time.Second

func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	process := req.Header.Get("Process")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	w.Header().Set("Content-Type", "application/json")
	if r.refused.IsZero() && process == "0" && r.calls > 8 {
		r.refused = time.Now()
		w.Header().Set("Retry-After", fmt.Sprint(int(refusedFor.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Rate limit reached on requests per min","type":"requests","code":"rate_limit_exceeded"}}`)
		return
	}
	if !r.refused.IsZero() {
		r.after[process] = append(r.after[process], time.Since(r.refused))
	}
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`)
}

// A refusal that one of four processes is given stops all four until the provider's
// time, and after that they do not come back at once.
func TestRefusalStopsTheFleet(t *testing.T) {
	t.Parallel()
	r := &refusing{after: make(map[string][]time.Duration)}
	server := httptest.NewServer(r)
	defer server.Close()
	profile, err := provider.ProfileNamed("openai")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("closed-%016x", rand.Uint64())
	const processes, jobs = 4, 30
	var clients sync.WaitGroup
	for p := range processes {
		client := &http.Client{Transport: joined(t, name, profile)}
		for range jobs {
			clients.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/chat/completions",
					strings.NewReader(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"really?"}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Process", fmt.Sprint(p))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("status %d, %v", resp.StatusCode, err)
				}
			})
		}
	}
	clients.Wait()

	// What was granted before the refusal was known is on its way for a moment.
	const onTheWay = 100 * time.Millisecond
	var first, last time.Duration
	for p := range processes {
		var began time.Duration
		for _, at := range r.after[fmt.Sprint(p)] {
			if at > onTheWay && at < refusedFor {
				t.Errorf("process %d sent %v after a refusal for %v", p, at, refusedFor)
			}
			if at >= refusedFor && (began == 0 || at < began) {
				began = at
			}
		}
		t.Logf("process %d goes on after %v", p, began)
		if began == 0 {
			t.Errorf("process %d had nothing to send after the refusal", p)
		}
		if first == 0 || began < first {
			first = began
		}
		last = max(last, began)
	}
	if last-first < refusedFor/5 {
		t.Errorf("all processes go on within %v", last-first)
	}
}

// joined is the transport of a process that shares the ledger of that name.
func joined(t *testing.T, name string, profile *provider.Profile) *transport.Transport {
	t.Helper()
	client, err := redisledger.Open(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	l, err := redisledger.New(client, redisledger.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := profile.Rules("m", map[string]int64{"rpm": 1200})
	if err != nil {
		t.Fatal(err)
	}
	rules[0].Limit.Burst = 8 // everybody has something left when the refusal comes
	plan, err := provider.NewPlan(provider.PlanConfig{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	est, err := estimator.New(estimator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	d, err := dispatcher.New(dispatcher.Config{Ledger: l, Plan: plan, Estimator: est, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	f, err := provider.NewFeedback(provider.FeedbackConfig{Profile: profile, Plan: plan, Ledger: l, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transport.New(transport.Config{Dispatcher: d, Profile: profile, Feedback: f})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return tr
}
