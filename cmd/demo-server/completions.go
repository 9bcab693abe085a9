package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// waitHeader tells how long a request waited for its turn, in milliseconds.
const waitHeader = "X-Paceline-Wait-Ms"

// serveCompletions answers POST /v1/chat/completions.
func (s *server) serveCompletions(w http.ResponseWriter, r *http.Request) error {
	return s.serveCall(w, r, s.chatCall)
}

// serveEmbeddings answers POST /v1/embeddings.
func (s *server) serveEmbeddings(w http.ResponseWriter, r *http.Request) error {
	return s.serveCall(w, r, s.embeddingsCall)
}

// serveResponses answers POST /v1/responses.
func (s *server) serveResponses(w http.ResponseWriter, r *http.Request) error {
	return s.serveCall(w, r, s.responsesCall)
}

// serveMessages answers POST /v1/messages, of Anthropic's API.
func (s *server) serveMessages(w http.ResponseWriter, r *http.Request) error {
	return s.serveCall(w, r, s.messagesCall)
}

// serveCall passes a request of a provider's API on when its turn has come.
func (s *server) serveCall(w http.ResponseWriter, r *http.Request, parse func(*http.Request, caller, []byte) (*call, error)) error {
	who, err := s.keys.identify(r)
	if err != nil {
		return err
	}
	body, release, err := s.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	c, err := parse(r, who, body)
	if err != nil {
		return err
	}
	if err := s.faults.strike(r, c); err != nil {
		return err
	}
	if c.stream {
		return s.stream(w, r, c)
	}
	answer, err := s.whole(r.Context(), w.Header(), c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// whole makes the call when its turn has come and returns the answer. It is
// written by the caller, so that a slow client holds no worker.
func (s *server) whole(ctx context.Context, h http.Header, c *call) ([]byte, error) {
	var wait time.Duration
	answer, err := dispatcher.Do(ctx, s.dispatcher, c.spec, func(ctx context.Context) ([]byte, job.Usage, error) {
		wait = time.Since(c.came)
		return c.upstream.whole(ctx, c)
	})
	maps.Copy(h, s.budgets.header(&c.spec))
	if err == nil {
		h[waitHeader] = []string{strconv.FormatInt(wait.Milliseconds(), 10)}
	}
	return answer, err
}

var errNoStream = errors.New("the answer is not a stream of events")

// stream makes the call when its turn has come and relays its events. A worker is
// held until the last: the call runs as long as that.
func (s *server) stream(w http.ResponseWriter, r *http.Request, c *call) error {
	out := newEventWriter(w, s.patience, s.comment)
	defer out.stop()
	_, err := dispatcher.Do(r.Context(), s.dispatcher, c.spec, func(ctx context.Context) (struct{}, job.Usage, error) {
		out.header(http.Header{waitHeader: {strconv.FormatInt(time.Since(c.came).Milliseconds(), 10)}})
		usage, err := s.relay(ctx, c, out)
		return struct{}{}, usage, err
	})
	committed := out.stop()
	switch {
	case err == nil:
		return nil
	case !committed:
		maps.Copy(w.Header(), s.budgets.header(&c.spec))
		return err
	case r.Context().Err() != nil || errors.Is(err, errGone):
		note(w, 0, errGone)
		panic(http.ErrAbortHandler)
	}
	note(w, 0, err)
	var event []byte
	if !errors.Is(err, errTold) {
		event = errorEvent(c.api, s.answerTo(err), out.events)
	}
	out.fail(r, event)
	return nil
}

// errorEvent is an error as an event that the API's clients understand; so many came
// before it.
func errorEvent(api provider.API, e *transport.Error, before int) []byte {
	switch api {
	case provider.Messages:
		return e.AnthropicEvent()
	case provider.Responses:
		return e.ResponsesEvent(before)
	default:
		return e.Event()
	}
}

// relay makes one attempt of a streamed call.
func (s *server) relay(ctx context.Context, c *call, out *eventWriter) (job.Usage, error) {
	x, usage, err := c.upstream.open(ctx, c)
	if err != nil {
		return usage, err
	}
	defer x.close()
	usage.FirstByte = x.began
	if !strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream") {
		return usage, broken(errNoStream)
	}
	out.header(s.budgets.header(&c.spec))
	reader := c.upstream.profile.NewReader(c.api, x.Header)
	run := (&pass{reader, out.write}).run
	if c.api == provider.Chat {
		run = (&relay{reader: reader, write: out.write, usageAsked: c.usageAsked}).run
	}
	err = run(x.Body, func(over bool) {
		if over {
			// The end of the body follows at once, and lets the connection be used
			// again. A provider that keeps it open must not hold the client's open.
			x.timer.Reset(lastWait)
		} else {
			x.timer.Reset(c.upstream.idle)
		}
	})
	usage = c.upstream.read(x, reader)
	usage.FirstByte = x.began
	if err != nil {
		return usage, x.failure(err)
	}
	return usage, nil
}

// lastWait is how long the end of a stream may take after its last event.
const lastWait = 50 * time.Millisecond

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone can not be told
}
