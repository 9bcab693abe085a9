package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a client may leave what is written unread.
	writeTimeout = 30 * time.Second
	// errorPause is between an error event and the end of its connection: clients
	// that find both at once drop the event.
	errorPause = 100 * time.Millisecond

	keepAliveComment = ": keep-alive\n\n"
)

// eventWriter writes a stream of events to a client. It holds back the head, so
// that the request may still be refused properly, until the first event or until
// patience has passed; from then on comments keep the connection alive.
type eventWriter struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	every time.Duration // between comments

	mu        sync.Mutex // held while writing, which is bounded by writeTimeout
	timer     *time.Timer
	committed bool  // the head was sent
	within    bool  // what was written last ends within an event
	events    int   // the named events that were begun
	stopped   bool  // nothing may be written any more
	err       error // of the first write that failed
}

func newEventWriter(w http.ResponseWriter, patience, every time.Duration) *eventWriter {
	e := &eventWriter{w: w, ctl: http.NewResponseController(w), every: every}
	e.mu.Lock() // the timer may fire before it is stored
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(patience, e.keepAlive)
	return e
}

func (e *eventWriter) keepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || !e.within && e.writeLocked([]byte(keepAliveComment)) != nil {
		return
	}
	e.timer.Reset(e.every)
}

// write sends whole events at once, or a part of one that is very long.
func (e *eventWriter) write(events []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.writeLocked(events); err != nil {
		return err
	}
	e.within = endOfEvents(events) < len(events)
	e.events += bytes.Count(events, []byte("\ndata:"))
	e.timer.Reset(e.every)
	return nil
}

func (e *eventWriter) writeLocked(event []byte) error {
	if e.err != nil {
		return e.err
	}
	if !e.committed {
		e.committed = true
		h := e.w.Header()
		h["Content-Type"] = []string{"text/event-stream"}
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"}
		e.w.WriteHeader(http.StatusOK)
	}
	_ = e.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)) // not all writers have one
	_, err := e.w.Write(event)
	if err == nil {
		err = e.ctl.Flush()
	}
	if err != nil {
		e.err = fmt.Errorf("%w: %w", errGone, err)
	}
	return e.err
}

// stop ends the comments, and reports whether the head was sent.
func (e *eventWriter) stop() (committed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.timer.Stop()
	return e.committed
}

// header sets headers, if there is still time.
func (e *eventWriter) header(h http.Header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.committed {
		maps.Copy(e.w.Header(), h)
	}
}

// fail ends a stopped stream whose head was sent: an event that says why, unless the
// last one is unfinished, and the connection broken, since a clean end would look like a
// complete answer. Without an event the client has been told already.
func (e *eventWriter) fail(r *http.Request, why []byte) {
	e.mu.Lock()
	if len(why) > 0 && !e.within {
		_ = e.writeLocked(why) // e.err has it
	}
	here := e.err == nil
	e.mu.Unlock()
	if here {
		select {
		case <-time.After(errorPause):
		case <-r.Context().Done():
		}
	}
	panic(http.ErrAbortHandler)
}
