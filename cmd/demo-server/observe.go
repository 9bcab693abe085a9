package main

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/paceline-go/paceline/telemetry"
)

const (
	// bodyTimeout is how long a client may take to send its body, also when nobody
	// reads it.
	bodyTimeout = 2 * time.Minute
	// answerTimeout is how long a client may take to read an answer that is not
	// streamed.
	answerTimeout = time.Minute
)

// recorder remembers what became of a request.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	err    error // why it failed
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
		_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(answerTimeout))
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// note tells the log why a request failed, and as what to count it when nothing
// was answered.
func note(w http.ResponseWriter, status int, err error) {
	if r, ok := w.(*recorder); ok {
		r.err = err
		if r.status == 0 {
			r.status = status
		}
	}
}

// observe gives every request an id, counts and logs it, and survives its panics.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := "req_" + rand.Text()
		w.Header()["X-Request-Id"] = []string{id}
		if shapeOf(r) == anthropicShape {
			w.Header()["Request-Id"] = []string{id} // what Anthropic's clients look for
		}
		ctl := http.NewResponseController(w)
		_ = ctl.SetReadDeadline(start.Add(bodyTimeout))
		_ = ctl.SetWriteDeadline(time.Time{}) // that of the answer before, on the same connection
		rec := &recorder{ResponseWriter: w}
		defer func() {
			v := recover()
			if v != nil && !isAbort(v) {
				s.log.Error("a handler panicked", "request", id, "panic", v, "stack", string(debug.Stack()))
				if rec.status == 0 {
					writeError(rec, r, errInternal)
					v = nil
				} else {
					v = http.ErrAbortHandler // a clean end would look like an answer
				}
			}
			s.responses.WithLabelValues(r.Pattern, strconv.Itoa(rec.status)).Inc()
			s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("request", id), slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes),
				slog.Duration("took", time.Since(start)), slog.Any("error", rec.err))
			if v != nil {
				panic(v)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

func isAbort(v any) bool {
	err, ok := v.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// observer tells the metrics what the dispatcher does, and the health whether the
// ledger answers.
type observer struct {
	*telemetry.Metrics
	health *health
}

func (o observer) LedgerCalled(op string, took time.Duration, err error) {
	o.Metrics.LedgerCalled(op, took, err)
	if err == nil {
		o.health.answered()
	}
}
