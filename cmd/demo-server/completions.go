package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
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

// serveCall passes a request of OpenAI's API on when its turn has come.
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
		return s.upstream.whole(ctx, c)
	})
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
		out.header(waitHeader, strconv.FormatInt(time.Since(c.came).Milliseconds(), 10))
		usage, err := s.relay(ctx, c, out)
		return struct{}{}, usage, err
	})
	committed := out.stop()
	switch {
	case err == nil:
		return nil
	case !committed:
		return err
	case r.Context().Err() != nil || errors.Is(err, errGone):
		note(w, 0, errGone)
		panic(http.ErrAbortHandler)
	}
	note(w, 0, err)
	out.fail(r, s.answerTo(err))
	return nil
}

// relay makes one attempt of a streamed call.
func (s *server) relay(ctx context.Context, c *call, out *eventWriter) (job.Usage, error) {
	x, usage, err := s.upstream.open(ctx, c)
	if err != nil {
		return usage, err
	}
	defer x.close()
	relay := &relay{write: out.write, usageAsked: c.usageAsked, usage: job.Usage{FirstByte: x.began}}
	if !strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream") {
		return relay.usage, broken(errNoStream)
	}
	if err := relay.run(x.Body, func() { x.timer.Reset(s.upstream.idle) }); err != nil {
		return relay.usage, x.failure(err)
	}
	// The end of the body follows [DONE] at once, and lets the connection be used
	// again. A provider that keeps it open must not hold the client's open.
	x.timer.Reset(50 * time.Millisecond)
	_, _ = io.CopyN(io.Discard, x.Body, 64<<10)
	return relay.usage, nil
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone can not be told
}
