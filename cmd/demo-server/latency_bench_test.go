package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkLatency shows what the server adds to a call's time, beside
// httputil.ReverseProxy, which only forwards: both before the same provider, which
// answers at once, and in turns of a quarter of a second, so that both meet the same
// machine. Calls come at a rate, at random, whether others are done or not; each op is
// one call to each. The times are until the whole answer, or the first byte of a stream.
//
//	go test ./cmd/demo-server -run '^$' -bench Latency -benchtime 5000x
func BenchmarkLatency(b *testing.B) {
	for _, kind := range []string{"whole", "stream"} {
		for _, rate := range []int{200, 1000} {
			b.Run(fmt.Sprintf("%s/%d_per_s", kind, rate), func(b *testing.B) {
				compareLatency(b, kind == "stream", rate)
			})
		}
	}
}

func compareLatency(b *testing.B, stream bool, rate int) {
	answer, body := []byte(okCompletion), hello
	if stream {
		answer, body = nil, strings.Replace(hello, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)
	}
	upstream := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if !stream {
			writeJSON(w, http.StatusOK, answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{chunk1, chunk2, chunkUsed, chunkDone} {
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}
	}
	direct := httptest.NewServer(http.HandlerFunc(upstream))
	defer direct.Close()
	at, err := url.Parse(direct.URL)
	if err != nil {
		b.Fatal(err)
	}
	forwarding := newClient(512)
	defer forwarding.CloseIdleConnections()
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			// A body that it passes on while reading is closed under it when the answer
			// begins, which now and then cuts the answer.
			body, _ := io.ReadAll(r.In.Body)
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		},
		Transport: forwarding.Transport,
	})
	defer proxy.Close()
	ours := startOver(b, upstream, func(*app) {}, "-tpm", "100000000", "-rpm", "100000000", "-tenant", "none", "-tenant-default", "0", "-workers", "512")

	client := newClient(512)
	defer client.CloseIdleConnections()
	targets := []*target{{name: "direct", url: direct.URL}, {name: "proxy", url: proxy.URL}, {name: "paceline", url: ours.url}}
	for _, t := range targets { // connections are opened, and vocabularies loaded
		t.send(b, client, body, rate, 100)
		t.took = nil
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= rate / 4 {
		for _, t := range targets {
			t.send(b, client, body, rate, min(left, rate/4))
		}
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // it says the rate
	for _, t := range targets {
		slices.Sort(t.took)
		for _, percent := range []int{50, 99} {
			took := t.took[(len(t.took)*percent+99)/100-1]
			b.ReportMetric(float64(took.Microseconds()), fmt.Sprintf("%s-p%d-µs", t.name, percent))
		}
	}
}

// target is a server that is measured.
type target struct {
	name, url string
	mu        sync.Mutex
	took      []time.Duration
}

// send makes n calls, the rate of them in a second on average, and waits for them.
func (t *target) send(b *testing.B, client *http.Client, body string, rate, n int) {
	var all sync.WaitGroup
	defer all.Wait()
	due := time.Now()
	for range n {
		due = due.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) / float64(rate)))
		time.Sleep(time.Until(due))
		all.Go(func() {
			took, err := t.call(client, body)
			if err != nil {
				b.Error(t.name, err)
			}
			t.mu.Lock()
			t.took = append(t.took, took)
			t.mu.Unlock()
		})
	}
}

// call returns the time until the whole answer, or the first byte of a stream.
func (t *target) call(client *http.Client, body string) (time.Duration, error) {
	req, err := http.NewRequest(http.MethodPost, t.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", paidKey)
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	took := time.Since(start)
	rest, err2 := io.ReadAll(resp.Body)
	if err != nil || err2 != nil || len(rest) == 0 {
		return 0, fmt.Errorf("the answer was cut: %w", errors.Join(err, err2))
	}
	if resp.Header.Get("Content-Type") == "application/json" {
		took = time.Since(start)
	}
	return took, nil
}
