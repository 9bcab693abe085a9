package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// recent is how old an answer of the ledger may be to show that it is there.
	recent = 10 * time.Second
	// pingTimeout is how long /readyz waits for the ledger.
	pingTimeout = time.Second
)

// health knows whether the server may take traffic.
type health struct {
	ping     func(context.Context) error // of the ledger; nil when it is in memory
	draining atomic.Bool
	last     atomic.Int64 // when the ledger last answered, in Unix nanoseconds
}

func (h *health) answered() { h.last.Store(time.Now().UnixNano()) }

// ready returns why the server should get no traffic; "" when it should.
func (h *health) ready(ctx context.Context) string {
	if h.draining.Load() {
		return "draining"
	}
	if h.ping == nil || time.Since(time.Unix(0, h.last.Load())) < recent {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if h.ping(ctx) != nil {
		return "the ledger does not answer"
	}
	h.answered()
	return ""
}

// serveAlive says that the process runs, whatever it depends on: restarting it
// would not bring a ledger back.
func (h *health) serveAlive(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, "ok\n")
	return nil
}

func (h *health) serveReady(w http.ResponseWriter, r *http.Request) error {
	if why := h.ready(r.Context()); why != "" {
		writeText(w, http.StatusServiceUnavailable, why+"\n")
		return nil
	}
	writeText(w, http.StatusOK, "ready\n")
	return nil
}

func writeText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
