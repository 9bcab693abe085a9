package simprovider

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// farWriter is a client at some distance: the first byte takes a while. Until it
// is on its way the handler waits, so that the rest of a stream comes in time, or
// at once where its time has passed.
type farWriter struct {
	http.ResponseWriter
	ctx  context.Context
	wait time.Duration // 0 once the first byte is sent
}

func (f *farWriter) WriteHeader(status int) {
	f.travel()
	f.ResponseWriter.WriteHeader(status)
}

func (f *farWriter) Write(b []byte) (int, error) {
	f.travel()
	return f.ResponseWriter.Write(b)
}

// Unwrap lets an http.ResponseController flush.
func (f *farWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *farWriter) travel() {
	if f.wait > 0 {
		pause(f.ctx, f.wait)
		f.wait = 0
	}
}

// travel lets a request take its way to the provider, and returns the writer for
// the way back, or nil if the client did not wait.
func (s *Server) travel(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if strings.HasPrefix(r.URL.Path, "/sim/") {
		return w
	}
	s.mu.Lock()
	s.advance()
	var there, back time.Duration
	if d := s.current.NetworkDelay; d > 0 {
		there, back = time.Duration(s.chance.Int64N(int64(d)+1)), time.Duration(s.chance.Int64N(int64(d)+1))
	}
	s.mu.Unlock()
	if !pause(r.Context(), there) {
		return nil
	}
	if back == 0 {
		return w
	}
	return &farWriter{w, r.Context(), back}
}
