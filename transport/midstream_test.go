package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// closing notes for how long limits are closed.
type closing struct {
	*ledger.Memory
	longest atomic.Int64
}

func (c *closing) Observe(ctx context.Context, batch []ledger.Observation) ([]ledger.Standing, error) {
	for _, o := range batch {
		c.longest.Store(max(c.longest.Load(), int64(o.Close)))
	}
	return c.Memory.Observe(ctx, batch)
}

// A stream that ends with a refusal was admitted, and is what it is; but the limit is
// closed for the calls after it.
func TestRefusedInMidStream(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n"+
			"data: {\"error\":{\"message\":\"Rate limit reached on tokens per min\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n")
	}))
	defer server.Close()
	profile, err := provider.ProfileNamed("openai")
	if err != nil {
		t.Fatal(err)
	}
	l := &closing{Memory: ledger.NewMemory()}
	plan, err := provider.NewPlan(provider.PlanConfig{Rules: []provider.Rule{
		{Limit: ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 100_000, Window: time.Minute}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := estimator.New(estimator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dispatcher.New(dispatcher.Config{Ledger: l, Plan: plan, Estimator: e})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	feedback, err := provider.NewFeedback(provider.FeedbackConfig{Profile: profile, Plan: plan, Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := transport.New(transport.Config{Dispatcher: d, Profile: profile, Feedback: feedback})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: rt}).Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || len(body) < 100 {
		t.Errorf("%d %q, %v", answer.StatusCode, body, err)
	}
	_ = answer.Body.Close()
	if err := d.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(l.longest.Load()); got < time.Second || got > 2*time.Second {
		t.Errorf("closed for %v, want a sixtieth of the minute and a little more", got)
	}
}
