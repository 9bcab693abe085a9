package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

// Transport sends the calls of an HTTP client through a dispatcher: each waits for
// its turn and its budget, and is settled when its answer has been read to the end,
// or closed. It is an [http.RoundTripper]; [Transport.Middleware] is the same for
// openai-go. Make it with [New].
type Transport struct{ cfg Config }

// RoundTrip implements http.RoundTripper. A call that the dispatcher refuses gets
// an answer of its own, as [Refusal] says it, which the SDKs turn into their errors.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.send(req, t.cfg.Base.RoundTrip)
}

// Middleware is RoundTrip with another next, for option.WithMiddleware of
// openai-go and of SDKs made like it.
func (t *Transport) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return t.send(req, next)
}

// metered maps the last part of a URL's path to the shape of the call. Other calls,
// such as a list of models, pass as they are.
var metered = map[string]provider.API{
	"completions": provider.Completions, "chat/completions": provider.Chat, "responses": provider.Responses,
	"embeddings": provider.Embeddings, "messages": provider.Messages, "converse": provider.Converse,
}

func apiOf(req *http.Request) provider.API {
	if req.Method != http.MethodPost {
		return ""
	}
	p := path.Clean(req.URL.Path)
	if strings.HasSuffix(p, "/chat/completions") {
		return provider.Chat
	}
	return metered[path.Base(p)]
}

type next func(*http.Request) (*http.Response, error)

func (t *Transport) send(req *http.Request, next next) (*http.Response, error) {
	api := apiOf(req)
	if api == "" || req.Body == nil {
		return next(req)
	}
	req = req.Clone(req.Context()) // a RoundTripper must not change its request
	body, err := t.readBody(req)
	if err != nil {
		return nil, err
	}
	c := &call{t: t, req: req, next: next, api: api, body: body, answers: make(chan *http.Response, 1)}
	c.spec, err = t.spec(req, api, body)
	if err == nil {
		t.lower(c)
		var ticket ticket
		if ticket, err = t.cfg.Dispatcher.Submit(req.Context(), c.spec, c.attempt); err == nil {
			return c.wait(ticket)
		}
	}
	return refused(req, err)
}

func (t *Transport) readBody(req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	if req.ContentLength > t.cfg.MaxBody {
		return nil, fmt.Errorf("%w: %d bytes, of %d", ErrBodyTooLong, req.ContentLength, t.cfg.MaxBody)
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, t.cfg.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("transport: the request body: %w", err)
	}
	if int64(len(body)) > t.cfg.MaxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrBodyTooLong, t.cfg.MaxBody)
	}
	return body, nil
}

// spec says what the job of a call is.
func (t *Transport) spec(req *http.Request, api provider.API, body []byte) (job.Spec, error) {
	who, err := t.caller(req)
	if err != nil {
		return job.Spec{}, err
	}
	parse := estimator.ParseChat
	if api == provider.Embeddings {
		parse = estimator.ParseEmbeddings
	}
	parsed, err := parse(body)
	if err != nil {
		return job.Spec{}, err
	}
	model := parsed.Model
	if model == "" && api == provider.Converse {
		model = path.Base(path.Dir(path.Clean(req.URL.Path)))
	}
	return job.Spec{Tenant: who.Tenant, Priority: who.Priority, Deadline: who.Deadline, Model: model, Request: parsed}, nil
}

// lower puts a lower cap on the output into a call.
func (t *Transport) lower(c *call) {
	if t.cfg.LowerCap == nil {
		return
	}
	if n, ok := t.cfg.LowerCap(c.spec); ok {
		c.body = estimator.SetOutputCap(c.body, n)
		c.spec.Request.(*estimator.Request).OutputCap = n
	}
}

// refused answers a call that was refused before it was made.
func refused(req *http.Request, err error) (*http.Response, error) {
	e := Refusal(err)
	if e == nil {
		return nil, err
	}
	e.NoRetry = true // the job has waited for as long as it may
	return e.response(req), nil
}

type ticket interface{ Result() <-chan job.Result }

// call is one call on its way.
type call struct {
	t       *Transport
	req     *http.Request
	next    next
	api     provider.API
	body    []byte
	spec    job.Spec
	pauses  *backoff.ExponentialBackOff // nil: it has not failed yet
	answers chan *http.Response
}

// wait returns the head of the answer, while the job goes on with its body.
func (c *call) wait(ticket ticket) (*http.Response, error) {
	select {
	case resp := <-c.answers:
		return resp, nil
	case r := <-ticket.Result():
		select {
		case resp := <-c.answers: // it had no body to wait for
			return resp, nil
		default:
		}
		if last, ok := errors.AsType[*refusedError](r.Err); ok {
			return last.response(), nil
		}
		return refused(c.req, r.Err)
	}
}

// attempt makes the call once. It ends when the answer's body has been read or
// closed, so that what the call takes, and its place among the running ones, are
// held until then.
func (c *call) attempt(ctx context.Context) (any, job.Usage, error) {
	granted := time.Now()
	req := c.req.WithContext(ctx)
	req.Body = io.NopCloser(bytes.NewReader(c.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	req.ContentLength = int64(len(c.body))
	resp, err := c.next(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			err := &job.RetryError{Err: err, After: c.pause()}
			return nil, job.Usage{Known: job.NotSent}, err
		}
		return nil, job.Usage{}, err // whether the provider counted it nobody knows
	}
	began := time.Now()
	if resp.StatusCode/100 != 2 {
		return c.refusal(ctx, resp, granted)
	}
	m := &meter{body: resp.Body, reader: c.t.cfg.Profile.NewReader(c.api, resp.Header), over: make(chan struct{})}
	resp.Body = m
	resp.Request = c.req
	header := resp.Header.Clone() // the caller may change what it is given
	c.answers <- resp
	c.hear(ctx, resp.StatusCode, header, granted, provider.Refusal{})
	select {
	case <-m.over:
	case <-ctx.Done():
		// The caller is gone, or the dispatcher gives up: the base closes the body.
		m.end()
		return nil, job.Usage{FirstByte: began}, context.Cause(ctx)
	}
	a := m.answer()
	if a.Refusal.Class == provider.RateLimited || a.Refusal.Class == provider.Acceleration {
		// It broke off in the middle: too late for this call, but not for the others.
		c.hear(ctx, resp.StatusCode, header, granted, a.Refusal)
	}
	usage := a.Settles()
	usage.FirstByte = began
	return nil, usage, nil
}

// maxRefusal is how much of a refusal is read, and given to the caller.
const maxRefusal = 64 << 10

// refusal reads an answer that is not a success. Nothing has reached the caller by
// then, so it is tried again where that may help.
func (c *call) refusal(ctx context.Context, resp *http.Response, granted time.Time) (any, job.Usage, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	if err != nil {
		return nil, job.Usage{}, err
	}
	r := c.t.cfg.Profile.Refusal(resp.StatusCode, resp.Header, body)
	resp.Request = c.req
	err = &refusedError{provider.RefusedError{Status: resp.StatusCode, Refusal: r}, resp, body}
	closed := c.hear(ctx, resp.StatusCode, resp.Header, granted, r)
	if r.Retryable {
		after := c.pause()
		if r.From != provider.FromNowhere {
			after = r.After + rand.N(r.After/4+time.Millisecond)
		}
		err = &job.RetryError{Err: err, After: after, Closed: closed}
	}
	switch {
	case r.Class == provider.UpstreamError:
		return nil, job.Usage{}, err // whether it was counted nobody knows
	case c.t.cfg.Profile.FailedCalls == provider.No:
		return nil, job.Usage{Known: job.NotSent}, err
	default:
		return nil, job.Used(0, 0), err // a refused call costs no tokens, and was a request
	}
}

// hear passes the head of an answer on. It reports whether the limit that refused the
// call is closed.
func (c *call) hear(ctx context.Context, status int, h http.Header, granted time.Time, r provider.Refusal) bool {
	f := c.t.cfg.Feedback
	return f != nil && f.Hear(ctx, provider.Head{Job: &c.spec, Granted: granted, Status: status, Header: h, Refusal: r})
}

// refusedError is an answer that was not a success, for when no attempt is left.
type refusedError struct {
	provider.RefusedError
	resp *http.Response
	body []byte
}

func (e *refusedError) Unwrap() error { return &e.RefusedError }

// response is the provider's own answer. The SDK must not try again what has been
// tried here as often as it may.
func (e *refusedError) response() *http.Response {
	e.resp.Body = io.NopCloser(bytes.NewReader(e.body))
	e.resp.ContentLength = int64(len(e.body))
	e.resp.Header.Del("Content-Length")
	e.resp.Header.Set("X-Should-Retry", "false")
	return e.resp
}

// pause is the wait after an attempt that failed without a hint.
func (c *call) pause() time.Duration {
	if c.pauses == nil {
		c.pauses = NewPauses()
	}
	return c.pauses.NextBackOff()
}

// NewPauses are the waits between the attempts of a call that failed without a hint: from
// half a second to eight, with jitter. The dispatcher bounds the attempts.
func NewPauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.Multiplier, b.MaxInterval = 2, 8*time.Second
	return b
}
