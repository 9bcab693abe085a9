package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a ResponseWriter that says when what was written.
type timed struct {
	*httptest.ResponseRecorder
	start time.Time
	at    []time.Duration
	fail  bool
}

func (w *timed) Write(b []byte) (int, error) {
	if w.fail {
		return 0, errors.New("gone")
	}
	w.at = append(w.at, time.Since(w.start))
	return w.ResponseRecorder.Write(b)
}

// The head is held back for as long as a request may still be refused, and then
// comments keep the connection alive, as rarely as clients bear.
func TestEventWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &timed{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
		e := newEventWriter(w, 12*time.Second, 15*time.Second)
		e.header(http.Header{"X-Early": {"1"}})
		time.Sleep(12*time.Second - 1)
		synctest.Wait()
		e.mu.Lock()
		if w.Flushed || len(w.at) > 0 {
			t.Error("the head did not wait")
		}
		e.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		e.header(http.Header{"X-Late": {"1"}})
		if err := e.write([]byte("data: 1\n\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Second)
		if err := e.write([]byte("data: 2\n\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if !e.stop() {
			t.Error("the head was sent, and is not said to be")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := ": keep-alive\n\n: keep-alive\n\ndata: 1\n\ndata: 2\n\n: keep-alive\n\n"
		if got := w.Body.String(); got != want || !w.Flushed {
			t.Errorf("%q, want %q", got, want)
		}
		for i, at := range []time.Duration{12 * time.Second, 27 * time.Second, 42*time.Second - 1, 56*time.Second - 1, 71*time.Second - 1} {
			if i >= len(w.at) || w.at[i] != at {
				t.Errorf("written at %v, want the %d. at %v", w.at, i, at)
			}
		}
		h := w.Result().Header
		if h.Get("X-Early") != "1" || h.Get("X-Late") != "" || h.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v", h)
		}
	})
}

// Nothing comes between the parts of an event: neither a comment nor an error.
func TestEventWriterWithinAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		e := newEventWriter(w, 12*time.Second, 15*time.Second)
		write := func(text string) {
			if err := e.write([]byte(text)); err != nil {
				t.Error(err)
			}
			time.Sleep(16 * time.Second)
			synctest.Wait()
		}
		write("event: x\ndata: a\n\nevent: y\ndata: ")
		write("b\r\n\r\n")
		write("data: c")
		e.stop()
		if e.events != 2 {
			t.Errorf("%d events", e.events)
		}
		defer func() {
			_ = recover()
			if got, want := w.Body.String(), "event: x\ndata: a\n\nevent: y\ndata: b\r\n\r\n"+keepAliveComment+"data: c"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}()
		e.fail(httptest.NewRequest("GET", "/", nil), errStopping.Event())
	})
}

func TestEventWriterThatWroteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		e := newEventWriter(w, 12*time.Second, 15*time.Second)
		time.Sleep(11 * time.Second)
		if e.stop() {
			t.Error("the head was sent")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.Body.Len() > 0 || w.Flushed {
			t.Errorf("%q", w.Body)
		}
	})
}

func TestEventWriterWhoseClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &timed{ResponseRecorder: httptest.NewRecorder(), start: time.Now(), fail: true}
		e := newEventWriter(w, 12*time.Second, 15*time.Second)
		time.Sleep(time.Minute)
		if err := e.write([]byte("data: 1\n\n")); !errors.Is(err, errGone) {
			t.Errorf("%v", err)
		}
		e.stop()
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("ended with %v", v)
			}
		}()
		e.fail(httptest.NewRequest("GET", "/", nil), errStopping.Event())
	})
}
