package main

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// call is one request on its way to the provider.
type call struct {
	api      provider.API
	upstream *upstream
	header   http.Header
	body     []byte
	spec     job.Spec
	came     time.Time
	// stream says that the answer is streamed, and usageAsked that the client
	// asked for the chunk with the usage; the provider is always asked.
	stream, usageAsked bool
	// attempts counts the attempts that were made. Only the job's function, which
	// runs once at a time, uses it.
	attempts int
	pauses   *backoff.ExponentialBackOff // nil: none has failed
}

// memory bounds the bytes of all bodies that are held at once.
type memory struct {
	used atomic.Int64
	most int64
}

func (m *memory) take(n int64) bool {
	if m.used.Add(n) > m.most {
		m.used.Add(-n)
		return false
	}
	return true
}

func (m *memory) give(n int64) { m.used.Add(-n) }

// readBody reads the whole body. The bytes count as held until release is called,
// which may be done in any case.
func (s *server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	held := s.maxBody // a body of unknown length may be as long as any
	release = func() {}
	if r.ContentLength >= 0 {
		if r.ContentLength > s.maxBody {
			return nil, release, &http.MaxBytesError{Limit: s.maxBody}
		}
		held = r.ContentLength
	}
	if !s.memory.take(held) {
		return nil, release, overloaded("The server holds too many large requests at the moment. Please retry later.")
	}
	release = func() { s.memory.give(held) }
	buf := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 512)+bytes.MinRead))
	if _, err = buf.ReadFrom(http.MaxBytesReader(w, r.Body, s.maxBody)); err != nil {
		return nil, release, readError(err)
	}
	// The deadline that observe set must be gone before the call runs: when it
	// passed, net/http would take the client for gone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	s.memory.give(held - int64(buf.Len()))
	held = int64(buf.Len())
	return buf.Bytes(), release, nil
}

// readError keeps a MaxBytesError, and blames the sender for any other.
func readError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return &transport.Error{Status: http.StatusBadRequest, Type: transport.InvalidRequest, Message: "The request body could not be read."}
}

// chatCall makes the call of a chat completion in OpenAI's form.
func (s *server) chatCall(r *http.Request, who caller, body []byte) (*call, error) {
	parsed, err := estimator.ParseChat(body)
	if err != nil {
		return nil, err
	}
	var (
		cl       claims
		messages []byte
	)
	for f := range fields(body) {
		value := body[f.value:f.end]
		cl.read(string(f.key), value)
		if string(f.key) == "messages" {
			messages = value
		}
	}
	if messages == nil {
		return nil, missing("messages") // a prompt or an input is for other endpoints
	}
	if messages[skipSpace(messages, 1)] == ']' {
		return nil, invalid("messages", "expected an array with at least one message")
	}
	c, err := s.newCall(r, who, provider.Chat, body, parsed, &cl)
	if err != nil {
		return nil, err
	}
	c.stream, c.usageAsked = parsed.Stream, parsed.IncludeUsage
	if c.stream && !c.usageAsked {
		c.body = withUsage(c.body)
	}
	return c, nil
}

// embeddingsCall makes the call of embeddings in OpenAI's form.
func (s *server) embeddingsCall(r *http.Request, who caller, body []byte) (*call, error) {
	parsed, err := estimator.ParseEmbeddings(body)
	if err != nil {
		return nil, err
	}
	var cl claims
	for f := range fields(body) {
		cl.read(string(f.key), body[f.value:f.end])
	}
	return s.newCall(r, who, provider.Embeddings, body, parsed, &cl)
}

// responsesCall makes the call of OpenAI's Responses API.
func (s *server) responsesCall(r *http.Request, who caller, body []byte) (*call, error) {
	parsed, err := estimator.ParseChat(body)
	if errors.Is(err, estimator.ErrMissing) {
		return nil, missing("input")
	}
	if err != nil {
		return nil, err
	}
	var cl claims
	for f := range fields(body) {
		value := body[f.value:f.end]
		cl.read(string(f.key), value)
		if string(f.key) == "background" && string(value) == "true" {
			return nil, invalid("background", "there is no way here to fetch the response later; leave it out, or use /v1/jobs")
		}
	}
	c, err := s.newCall(r, who, provider.Responses, body, parsed, &cl)
	if err != nil {
		return nil, err
	}
	c.stream = parsed.Stream
	return c, nil
}

// messagesCall makes the call of Anthropic's Messages API.
func (s *server) messagesCall(r *http.Request, who caller, body []byte) (*call, error) {
	parsed, err := estimator.ParseChat(body)
	if err != nil {
		return nil, err
	}
	var cl claims
	var messages bool
	for f := range fields(body) {
		cl.read(string(f.key), body[f.value:f.end])
		messages = messages || string(f.key) == "messages"
	}
	if !messages {
		return nil, missing("messages")
	}
	c, err := s.newCall(r, who, provider.Messages, body, parsed, &cl)
	if err != nil {
		return nil, err
	}
	c.stream = parsed.Stream
	return c, nil
}

func (s *server) newCall(r *http.Request, who caller, api provider.API, body []byte, parsed *estimator.Request, cl *claims) (*call, error) {
	if parsed.Model == "" {
		return nil, missing("model")
	}
	served, err := s.models.find(parsed.Model)
	if err != nil {
		return nil, err
	}
	if !served.upstream.speaks(api) {
		return nil, invalid("model", "its provider does not have this API; it has "+strings.Join(served.upstream.offered(), ", "))
	}
	tenant, class, err := cl.apply(who, r.Header)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &call{
		api: api, upstream: served.upstream, header: forwarded(r.Header), body: without(body, isOurs), came: now,
		spec: job.Spec{Tenant: tenant, Model: served.account, Priority: class, Request: parsed},
	}
	if lower := c.upstream.lowerCap; lower != nil {
		if n, ok := lower(c.spec); ok {
			c.body, parsed.OutputCap = estimator.SetOutputCap(c.body, n), n
		}
	}
	// Stainless' SDKs say how long they wait: starting work for somebody who has
	// gone by then is no use.
	if wait, err := strconv.ParseFloat(r.Header.Get("X-Stainless-Timeout"), 64); err == nil && wait > 0 && wait < s.maxWait.Seconds() {
		c.spec.Deadline = now.Add(time.Duration(wait * float64(time.Second)))
	}
	return c, nil
}

// private are the headers that do not reach the provider: those for us, those of
// the connection, and those by which a caller could use the provider's account in
// another way than we do.
var private = map[string]bool{
	"Authorization": true, "X-Api-Key": true, "Api-Key": true, "X-Goog-Api-Key": true, "Cookie": true,
	"X-Tenant": true, "X-Priority": true, "X-Tier": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Content-Length": true, "Host": true, "Accept-Encoding": true,
	"Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Real-Ip": true,
	"Openai-Organization": true, "Openai-Project": true,
}

// forwarded returns the headers that go on to the provider.
func forwarded(h http.Header) http.Header {
	out := make(http.Header, len(h))
	named := make(map[string]bool) // by Connection, for this hop only
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range h {
		if !private[name] && !named[name] && !strings.HasPrefix(name, "X-Sim-") {
			out[name] = values
		}
	}
	out["Content-Type"] = []string{"application/json"}
	return out
}
