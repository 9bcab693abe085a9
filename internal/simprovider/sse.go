package simprovider

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// errorPause is the time between an error event and the break of the
	// connection: a client that finds both at once may drop the event.
	errorPause = 100 * time.Millisecond
	// writeTimeout is how long a client may leave an event unread.
	writeTimeout = 30 * time.Second

	keepAlive = ": keep-alive\n\n"
)

// sse is a completion that is sent as server-sent events, of whatever API.
type sse struct {
	*completion
	w       http.ResponseWriter
	ctl     *http.ResponseController
	err     error  // of the first write that failed; nothing is written after it
	event   []byte // the last one, whose memory is reused
	content int    // events sent with text or part of a tool call
	cutAt   int64  // the token of a choice at which the stream breaks off; -1 for none
	silent  bool   // it breaks off without a word
}

// open waits for the first byte and begins the events. Nothing is sent before it
// is due, so that until then a cancelled request gets a proper answer; afterwards
// the only honest end of an unfinished stream is a broken connection, because
// clients take a clean one for the end of the answer.
func (c *completion) open(w http.ResponseWriter, r *http.Request) (*sse, *apiError) {
	if !c.server.sleep(r.Context(), c.pace.first) {
		return nil, errGone
	}
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	e := &sse{completion: c, w: w, ctl: http.NewResponseController(w), cutAt: -1}
	if c.fault.cut >= 0 {
		e.cutAt = int64(c.fault.cut * float64(c.answer.tokens))
	}
	for range c.fault.keepAlive {
		e.write(append(e.event[:0], keepAlive...))
	}
	return e, nil
}

// reaches says whether the stream gets as far as this token.
func (e *sse) reaches(token int64) bool {
	e.silent = e.silent || e.cutAt >= 0 && token > e.cutAt
	return !e.silent
}

// more says whether an event with content may be sent, and counts it.
func (e *sse) more() bool {
	if e.content == e.fault.streamErrorAfter || e.content == e.fault.cutAfter {
		e.silent = e.content == e.fault.cutAfter
		return false
	}
	e.content++
	return true
}

// fail breaks the connection, after an error event if a fault asks for one.
func (e *sse) fail(ctx context.Context, errorEvent func()) {
	e.server.finish(e.grant)
	if e.fault.streamErrorAfter >= 0 && !e.silent {
		errorEvent()
		e.server.sleep(ctx, e.server.clock()+errorPause)
	}
	panic(http.ErrAbortHandler)
}

// write sends one event at once, and keeps its memory for the next.
func (e *sse) write(event []byte) {
	e.event = event
	if e.err != nil {
		return
	}
	e.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)) // an error means a writer that never blocks
	if _, e.err = e.w.Write(event); e.err == nil {
		e.err = e.ctl.Flush()
	}
}

// named sends an event with a name and JSON data.
func (e *sse) named(name string, data []byte) {
	e.write(fmt.Appendf(e.event[:0], "event: %s\ndata: %s\n\n", name, data))
}

// close ends the stream.
func (e *sse) close() {
	e.ctl.SetWriteDeadline(time.Time{}) // it must not outlive the answer on a kept connection
}

// say sends the text as it is produced, each piece by the given function, until
// the fault says to stop. It returns false if the answer was not sent whole, and
// settles it otherwise.
func (e *sse) say(ctx context.Context, text func(escaped []byte)) bool {
	var b []byte
	whole := e.generate(ctx, e.pace.step(), func(from, to int64) bool {
		if !e.reaches(to) {
			return false
		}
		if b = e.answer.appendText(b[:0], from, to); len(b) == 0 {
			return e.err == nil
		}
		if !e.more() {
			return false
		}
		text(b)
		return e.err == nil
	})
	if !whole || e.fault.breaks() {
		return false
	}
	e.server.finish(e.grant)
	return true
}
