package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

const (
	callTimeout = 230 * time.Second // see mostWait
	idleTimeout = 2 * time.Minute
	// maxAnswer bounds an answer that is not streamed: 2,048 embeddings of 3,072
	// dimensions are 80 MB.
	maxAnswer = 128 << 20
)

// paths are where the APIs are, below a provider's base URL and below /v1 here.
var paths = map[provider.API]string{
	provider.Chat:       "/chat/completions",
	provider.Responses:  "/responses",
	provider.Messages:   "/messages",
	provider.Embeddings: "/embeddings",
}

// upstream is an account at a provider.
type upstream struct {
	base   string // without a slash at the end
	key    string
	client *http.Client
	// timeout is how long an answer that is not streamed may take, and a streamed
	// one until its first event; idle is how long a stream may be silent.
	timeout, idle time.Duration
	// profile reads what it answers.
	profile *provider.Profile
	// feedback hears what it says of its limits; nil: nobody does.
	feedback *provider.Feedback
	hearing  sync.WaitGroup // of heads that are told to it
	// lowerCap is the cap to send in the place of a job's own; nil: its own, because the
	// provider does not count it.
	lowerCap func(job.Spec) (n int64, ok bool)
	// refused is told the status of every answer that is not a success.
	refused func(status int)
	log     *slog.Logger
	logged  atomic.Int64 // when a failure was last logged
}

func newUpstream(a *account, client *http.Client, feedback *provider.Feedback, refused func(int), log *slog.Logger) *upstream {
	base := strings.TrimRight(a.base, "/")
	if _, rest, _ := strings.Cut(base, "://"); !strings.Contains(rest, "/") {
		base += "/v1"
	}
	return &upstream{
		base: base, key: a.key, client: client, timeout: callTimeout, idle: idleTimeout,
		profile: a.profile, feedback: feedback, refused: refused, log: log.With("account", a.name),
	}
}

// newClient makes the client of all upstreams.
func newClient(connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true, // what is relayed must not be held back
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// speaks says whether the provider has the API.
func (u *upstream) speaks(api provider.API) bool { return slices.Contains(u.profile.APIs, api) }

// offered are the paths here whose API the provider has.
func (u *upstream) offered() []string {
	var out []string
	for api, path := range paths {
		if u.speaks(api) {
			out = append(out, "/v1"+path)
		}
	}
	slices.Sort(out)
	return out
}

// The profiles whose providers want the key in a header of their own.
const (
	anthropic = "anthropic"
	azure     = "azure_openai"
)

// anthropicVersion is the version of Anthropic's API for callers that name none.
const anthropicVersion = "2023-06-01"

// authorize sets the header with the key.
func (u *upstream) authorize(h http.Header) {
	switch u.profile.Name {
	case anthropic:
		h["X-Api-Key"] = []string{u.key}
		if h.Get("Anthropic-Version") == "" {
			h["Anthropic-Version"] = []string{anthropicVersion}
		}
	case azure:
		h["Api-Key"] = []string{u.key}
	default:
		h["Authorization"] = []string{"Bearer " + u.key}
	}
}

// exchange is one attempt whose answer has begun.
type exchange struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends the attempt when the provider is silent for too long
	began  time.Time   // when the head of the answer came
	head   provider.Head
}

// close ends the attempt, whatever it is doing.
func (x *exchange) close() {
	x.timer.Stop()
	x.cancel(nil)
	if x.Response != nil {
		x.Body.Close()
	}
}

// failure says why reading or sending failed: the client went away, the server
// stops, the provider was too slow, or what the network said.
func (x *exchange) failure(err error) error {
	switch cause := context.Cause(x.ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errSlow):
		return tooSlow()
	default:
		return cause
	}
}

// errSlow is the cause of an attempt that took too long.
var errSlow = errors.New("the provider did not answer in time")

// open makes one attempt. It returns the answer once its head says success, and
// otherwise an error and what is known of the usage.
func (u *upstream) open(ctx context.Context, c *call) (*exchange, job.Usage, error) {
	c.attempts++
	granted := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	x := &exchange{ctx: ctx, cancel: cancel, timer: time.AfterFunc(u.timeout, func() { cancel(errSlow) })}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.base+paths[c.api], bytes.NewReader(c.body))
	if err != nil {
		x.close()
		return nil, job.Usage{Known: job.NotSent}, err
	}
	req.Header = c.header.Clone()
	u.authorize(req.Header)
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = []string{"paceline-demo-server"}
	}
	resp, err := u.client.Do(req)
	if err != nil {
		defer x.close()
		if ctx.Err() == nil {
			u.complain("the provider can not be reached", "error", err)
		}
		if !sent.Load() {
			return nil, job.Usage{Known: job.NotSent}, x.failure(&job.RetryError{Err: unreachable(err), After: c.pause()})
		}
		// Whether the provider has counted it nobody knows.
		return nil, job.Usage{}, x.failure(broken(err))
	}
	x.Response, x.began = resp, time.Now()
	head := provider.Head{Job: &c.spec, Granted: granted, Status: resp.StatusCode, Header: resp.Header}
	if resp.StatusCode/100 == 2 {
		head.Header = resp.Header.Clone()
		x.head = head
		u.hear(head)
		return x, job.Usage{}, nil
	}
	defer x.close()
	err = u.refusal(x, c, head)
	// A refused call costs no tokens, and stays counted as a request.
	return nil, job.Used(0, 0), err
}

// hear tells the feedback of a head. The answer does not wait for the ledger.
func (u *upstream) hear(head provider.Head) {
	if u.feedback != nil {
		u.hearing.Go(func() { u.feedback.Hear(context.Background(), head) })
	}
}

// read ends the reading of an answer. One that says in the middle that a limit is
// reached is too late for its own call, but not for others.
func (u *upstream) read(x *exchange, r *provider.Reader) job.Usage {
	a := r.End()
	if a.Refusal.Class == provider.RateLimited || a.Refusal.Class == provider.Acceleration {
		head := x.head
		head.Refusal = a.Refusal
		u.hear(head)
	}
	return a.Settles()
}

// whole makes one attempt for an answer in one piece.
func (u *upstream) whole(ctx context.Context, c *call) ([]byte, job.Usage, error) {
	x, usage, err := u.open(ctx, c)
	if err != nil {
		return nil, usage, err
	}
	defer x.close()
	body, err := readAnswer(x)
	if err != nil {
		// It may have been produced and counted in full: the estimate stands.
		return nil, job.Usage{}, x.failure(broken(err))
	}
	reader := u.profile.NewReader(c.api, x.Header)
	_, _ = reader.Write(body)
	usage = u.read(x, reader)
	body, err = checkAnswer(c.api, body)
	return body, usage, err
}

var errLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)

func readAnswer(x *exchange) ([]byte, error) {
	if x.ContentLength > maxAnswer {
		return nil, errLong
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(x.ContentLength, 4096)+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(x.Body, maxAnswer+1))
	if err == nil && buf.Len() > maxAnswer {
		err = errLong
	}
	return buf.Bytes(), err
}

// complain logs that the provider fails, at most once in a second: a provider that
// is down must not fill the disk.
func (u *upstream) complain(message string, args ...any) {
	now := time.Now().UnixNano()
	last := u.logged.Load()
	if now-last < int64(time.Second) || !u.logged.CompareAndSwap(last, now) {
		return
	}
	u.log.Warn(message, args...)
}
