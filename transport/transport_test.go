package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-go/paceline/internal/transporttest"
	"github.com/paceline-go/paceline/transport"
)

const chatBody = `{"model":"gpt-4o-mini","max_tokens":40,"stream":true,"unknown":{"kept":[1]},"messages":[{"role":"user","content":"words please"}]}`

// post sends a chat completion through the rig's Transport.
func post(ctx context.Context, r *transporttest.Rig, rt http.RoundTripper, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	return (&http.Client{Transport: rt}).Do(req)
}

// refused posts what must not be answered, and returns why.
func refused(r *transporttest.Rig, body string) error {
	resp, err := post(r.Context(), r, r.Transport, body)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// A caller that goes away in mid-stream has used what was reserved.
func TestAbortGainsNothing(t *testing.T) {
	t.Parallel()
	sim := transporttest.OpenAI()
	sim.OutputPerMinute = 20
	r := transporttest.New(t, "openai", sim, transport.Config{})
	for n, leave := range []func(resp *http.Response, cancel func()){
		func(resp *http.Response, _ func()) { _ = resp.Body.Close() },
		func(resp *http.Response, cancel func()) { cancel(); _ = resp.Body.Close() },
	} {
		ctx, cancel := context.WithCancel(r.Context())
		before := r.Tokens()
		resp, err := post(ctx, r, r.Transport, chatBody) //nolint:bodyclose // leave does
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		reserved := r.Tokens()
		leave(resp, cancel)
		r.Used(int64(n+1), reserved)
		if reserved-before < 40 {
			t.Errorf("%d tokens reserved", reserved-before)
		}
		cancel()
	}
}

// What is sent and what comes back is as it was, byte by byte.
func TestNothingIsChanged(t *testing.T) {
	t.Parallel()
	var sent []byte
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		sent, _ = io.ReadAll(req.Body)
		return http.DefaultTransport.RoundTrip(withBody(req, sent))
	})
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{Base: base})
	body := strings.Replace(chatBody, "words please", "echo: one two", 1)
	var answers [2]string
	for i, rt := range []http.RoundTripper{r.Transport, http.DefaultTransport} {
		resp, err := post(r.Context(), r, rt, body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		answers[i] = noIDs(string(text))
	}
	if string(sent) != body {
		t.Errorf("sent %s", sent)
	}
	if answers[0] != answers[1] || !strings.Contains(answers[0], "[DONE]") {
		t.Errorf("%s\n\nwithout: %s", answers[0], answers[1])
	}
}

// noIDs cuts what differs between two answers to one question.
func noIDs(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		_, after, _ := strings.Cut(line, `"choices"`)
		if after == "" {
			after = line
		}
		kept = append(kept, after)
	}
	return strings.Join(kept, "")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func withBody(req *http.Request, body []byte) *http.Request {
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

// A call that could not be sent is tried again and costs nothing; one that may have
// been counted stays charged, and is not sent twice.
func TestBroken(t *testing.T) {
	t.Parallel()
	fails := 1
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		if fails > 0 {
			fails--
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		return http.DefaultTransport.RoundTrip(req)
	})
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{Base: base})
	resp, err := post(r.Context(), r, r.Transport, chatBody)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if n := r.Calls(); n != 1 {
		t.Errorf("%d calls", n)
	}

	calls := 0
	r = transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		calls++
		return nil, &net.OpError{Op: "read", Err: errors.New("reset")}
	})})
	if err := refused(r, chatBody); err == nil || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if r.Tokens() < 40 {
		t.Errorf("%d tokens charged", r.Tokens())
	}
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{MaxBody: 200})
	if err := refused(r, strings.Repeat("x", 201)); !errors.Is(err, transport.ErrBodyTooLong) {
		t.Errorf("%v, want ErrBodyTooLong", err)
	}
	resp, err := post(r.Context(), r, r.Transport, `{"model":`)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || r.Calls() != 0 {
		t.Errorf("%s after %d calls", resp.Status, r.Calls())
	}
	for _, cfg := range []transport.Config{{}, {Priority: 99}, {MaxBody: -1}} {
		if _, err := transport.New(cfg); !errors.Is(err, transport.ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", cfg, err)
		}
	}
}

// Fifty at once, some of which go away.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			resp, err := post(r.Context(), r, r.Transport, chatBody)
			if err != nil {
				t.Error(err)
				return
			}
			if i%5 > 0 {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			_ = resp.Body.Close()
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.Calls(); n != 50 {
		t.Errorf("%d calls", n)
	}
}
