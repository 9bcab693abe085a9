package main

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/transport"
)

// server answers HTTP. Everything in it is safe for concurrent use; the fields do
// not change once it serves.
type server struct {
	dispatcher *dispatcher.Dispatcher
	models     *catalog
	budgets    *budgets
	responses  *prometheus.CounterVec // by path and status
	exposition http.Handler           // of /metrics
	health     *health
	keys       keyring
	faults     *faults // nil unless they are obeyed
	jobs       *jobStore
	log        *slog.Logger

	maxBody           int64
	maxWait           time.Duration
	memory            memory
	patience, comment time.Duration // of a stream: see eventWriter
	index             string
}

const (
	// patience is when a stream whose head is held back gets it: below the idle
	// limit of usual proxies, and after most of the sheds that there will be.
	patience = 12 * time.Second
	// commentEvery is customary; go-openai fails after 150 comments in a row.
	commentEvery = 15 * time.Second
)

// handler answers a request or says why it can not be answered.
type handler func(http.ResponseWriter, *http.Request) error

// route is the handlers of a path by method.
type route map[string]handler

// routes returns the whole API.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(h handler) route { return route{http.MethodGet: h} }
	post := func(h handler) route { return route{http.MethodPost: h} }
	for pattern, r := range map[string]route{
		"/{$}":                 get(s.serveIndex),
		"/chat":                post(s.serveChat),
		"/v1/chat/completions": post(s.serveCompletions),
		"/v1/responses":        post(s.serveResponses),
		"/v1/messages":         post(s.serveMessages),
		"/v1/embeddings":       post(s.serveEmbeddings),
		"/v1/models":           get(s.serveModels),
		"/v1/models/{id...}":   get(s.serveModel),
		"/v1/jobs":             post(s.serveSubmit),
		"/v1/jobs/{id}":        {http.MethodGet: s.serveJob, http.MethodDelete: s.serveCancel},
		"/healthz":             get(s.health.serveAlive),
		"/livez":               get(s.health.serveAlive),
		"/readyz":              get(s.health.serveReady),
		"/metrics":             get(func(w http.ResponseWriter, r *http.Request) error { s.exposition.ServeHTTP(w, r); return nil }),
	} {
		mux.HandleFunc(pattern, s.wrap(r))
	}
	mux.HandleFunc("/", s.wrap(nil))
	return s.observe(mux)
}

func (s *server) wrap(routes route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h := routes[method]
		if h == nil {
			h = refuseMethod(routes)
		}
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// refuseMethod answers a method that a path does not have, or a path that is none.
func refuseMethod(routes route) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if routes == nil {
			return notFound("There is nothing at this path. GET / lists what there is.")
		}
		var allowed []string
		for m := range routes {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header()["Allow"] = []string{strings.Join(allowed, ", ")}
		return &transport.Error{
			Status: http.StatusMethodNotAllowed, Type: transport.InvalidRequest, Code: "method_not_supported",
			Message: "This path does not take this method, but " + strings.Join(allowed, " and ") + ".",
		}
	}
}

// errGone is a request whose client went away; there is nobody to answer.
var errGone = errors.New("the client went away")

// shape is the form of a path's errors: what its clients can read.
type shape int

const (
	problemShape   shape = iota // RFC 9457
	openAIShape                 // of all under /v1, but for
	anthropicShape              // /v1/messages
)

func shapeOf(r *http.Request) shape {
	switch path := r.URL.Path; {
	case path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/"):
		return anthropicShape
	case strings.HasPrefix(path, "/v1/"):
		return openAIShape
	default:
		return problemShape
	}
}

func writeError(w http.ResponseWriter, r *http.Request, e *transport.Error) {
	switch shapeOf(r) {
	case anthropicShape:
		e.WriteAnthropic(w)
	case openAIShape:
		e.WriteOpenAI(w)
	default:
		e.WriteProblem(w)
	}
}

// fail answers a request that could not be served.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		note(w, 499, errGone)
		return
	}
	note(w, 0, err)
	if f, ok := errors.AsType[*fault](err); ok && shapeOf(r) != problemShape {
		f.write(w, r)
		return
	}
	if e, ok := errors.AsType[*providerError](err); ok && e.verbatim != nil && shapeOf(r) != problemShape {
		writeJSON(w, e.answer.Status, e.verbatim)
		return
	}
	writeError(w, r, s.answerTo(err))
}
