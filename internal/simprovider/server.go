package simprovider

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a provider. Make it with New; it is an http.Handler, and all its
// methods are safe for concurrent use.
type Server struct {
	cfg     Config
	epoch   time.Time // what the clock counts from
	models  map[string]*model
	routes  map[string]route
	jobSeed maphash.Seed
	run     string // distinguishes the ids of servers with different seeds
	lastID  atomic.Int64

	mu     sync.Mutex // guards the pools and everything below; held for no I/O
	pools  []*pool
	era    int64 // counts resets
	rng    *rand.Rand
	jobs   recent[uint64, struct{}]
	faults recent[string, int] // how often an id has been answered with its fault

	current Disturbance   // in force since its After, in the clock's time
	coming  []Disturbance // in the clock's time
	taken   time.Duration // up to when other traffic has been charged
	chance  *rand.Rand    // of disturbances, which change no other draw
}

// model is one model on offer; it does not change.
type model struct {
	id       string
	json     []byte // id as a JSON string
	pool     *pool
	burndown int64
}

type handler func(http.ResponseWriter, *http.Request) *apiError

type route struct {
	method string
	serve  handler
}

// New returns a server for a valid Config, and starts nothing. Otherwise the
// error names the field.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		epoch:   time.Now(),
		models:  make(map[string]*model, len(cfg.Models)),
		jobSeed: maphash.MakeSeed(),
		rng:     rand.New(rand.NewPCG(cfg.Seed, 0)),
		jobs:    recent[uint64, struct{}]{limit: 1 << 20},
		faults:  recent[string, int]{limit: 10_000},
		chance:  rand.New(rand.NewPCG(cfg.Seed, 1)),
	}
	s.run = fmt.Sprintf("%08x", s.rng.Uint32())
	phase := time.Duration(s.rng.Int64N(int64(cfg.Minute)))
	addPool := func(name string, m Model) *pool {
		p := newPool(cfg, name, m, phase)
		s.pools = append(s.pools, p)
		return p
	}
	var account *pool
	if cfg.Scope == Account {
		account = addPool("", cfg.Models[0])
	}
	for _, m := range cfg.Models {
		p := account
		if p == nil {
			p = addPool(m.ID, m)
		}
		s.models[m.ID] = &model{id: m.ID, json: quote(m.ID), pool: p, burndown: m.burndown(cfg.Imitate)}
	}
	s.routes = map[string]route{
		"/v1/chat/completions":      {http.MethodPost, s.serveChat},
		"/v1/embeddings":            {http.MethodPost, s.serveEmbeddings},
		"/v1/responses":             {http.MethodPost, s.serveResponses},
		"/v1/messages":              {http.MethodPost, s.serveMessages},
		"/v1/messages/count_tokens": {http.MethodPost, s.serveCountTokens},
		"/v1/models":                {http.MethodGet, s.serveModels},
		"/sim/stats":                {http.MethodGet, s.serveStats},
		"/sim/reset":                {http.MethodPost, s.serveReset},
		"/sim/disturb":              {http.MethodPost, s.serveDisturb},
	}
	s.schedule(0, cfg.Disturbances)
	return s, nil
}

// clock is the time since the server was made. Enforcement reads it once per
// decision, with the lock held, so that decisions are in the order of their times.
func (s *Server) clock() time.Duration { return time.Since(s.epoch) }

// ServeHTTP answers one request. As [http.ErrAbortHandler] has it, it panics with
// that value to break the connection of a stream that cannot be finished.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := s.words(r.URL.Path)
	w.Header()[requestIDs[kind]] = []string{s.newID("req_")}
	far := s.travel(w, r)
	if far == nil { // the client left while its request was on its way
		s.writeError(w, kind, errGone)
		return
	}
	if err := s.dispatch(far, r); err != nil {
		s.writeError(far, kind, err)
	}
}

// words is the kind whose headers and errors an answer has: the one imitated, or
// without one that of the path's API.
func (s *Server) words(path string) Kind {
	switch {
	case s.cfg.Imitate != "":
		return s.cfg.Imitate
	case strings.HasPrefix(path, "/v1/messages"):
		return KindAnthropic
	case strings.HasPrefix(path, "/model/"):
		return KindBedrock
	}
	return ""
}

// apiPath is the path without what some providers put before the API's own.
func apiPath(path string) string {
	if rest, ok := strings.CutPrefix(path, "/openai/deployments/"); ok { // Azure; the body names the model too
		if _, rest, ok = strings.Cut(rest, "/"); ok {
			return "/v1/" + rest
		}
	}
	if strings.HasPrefix(path, "/openai/v1/") { // Azure and Groq
		return strings.TrimPrefix(path, "/openai")
	}
	return path
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) *apiError {
	path := apiPath(r.URL.Path)
	rt, ok := s.routes[path]
	if !ok && strings.HasPrefix(path, "/model/") && strings.HasSuffix(path, "/converse") {
		rt, ok = route{http.MethodPost, s.serveConverse}, true
	}
	if !ok && strings.HasPrefix(path, "/v1/models/") {
		rt, ok = route{http.MethodGet, s.serveModel}, true
	}
	if !ok {
		return &apiError{http.StatusNotFound, fmt.Sprintf("Invalid URL (%s %s)", r.Method, path), "invalid_request_error", "", ""}
	}
	if r.Method != rt.method {
		w.Header().Set("Allow", rt.method)
		return &apiError{http.StatusMethodNotAllowed, fmt.Sprintf("Not allowed to %s on %s. (HINT: Perhaps you meant to use a different HTTP method?)", r.Method, path),
			"invalid_request_error", "", "method_not_supported"}
	}
	if err := s.authorise(r); err != nil {
		return err
	}
	return rt.serve(w, r)
}

func (s *Server) authorise(r *http.Request) *apiError {
	if s.cfg.APIKey == "" {
		return nil
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, name := range []string{"X-Api-Key", "Api-Key"} { // Anthropic's and Azure's
		if !ok {
			key = r.Header.Get(name)
			ok = key != ""
		}
	}
	if !ok || key == "" {
		return &apiError{http.StatusUnauthorized, "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
			"invalid_request_error", "", ""}
	}
	if subtle.ConstantTimeCompare([]byte(key), []byte(s.cfg.APIKey)) != 1 {
		return &apiError{http.StatusUnauthorized, "Incorrect API key provided.", "invalid_request_error", "", "invalid_api_key"}
	}
	return nil
}

// newID is unique in this server, and among servers with different seeds.
func (s *Server) newID(prefix string) string {
	b := append(make([]byte, 0, 40), prefix...)
	b = append(b, s.run...)
	return string(strconv.AppendInt(b, s.lastID.Add(1), 10))
}

// model finds the model a request names.
func (s *Server) model(id string) (*model, *apiError) {
	m, ok := s.models[id]
	if !ok {
		return nil, &apiError{http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", id), "invalid_request_error", "", "model_not_found"}
	}
	return m, nil
}

const maxBody = 32 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

// putBuffer lets the rare huge buffer go, which would otherwise be kept for ever.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		buffers.Put(b)
	}
}

// readBody fills buf with the request's body.
func readBody(w http.ResponseWriter, r *http.Request, buf *bytes.Buffer) *apiError {
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return &apiError{http.StatusRequestEntityTooLarge, "The request body is larger than 32 MiB.", "invalid_request_error", "", "request_too_large"}
	default:
		return invalid("", "", "The request body could not be read.")
	}
}

// Serve answers on l until ctx is done, then ends what is still running, waits
// for it and returns nil. Any other end is an error. It closes l in every case.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if stop() {
		srv.Close()
		return fmt.Errorf("simprovider: %w", err)
	}
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("simprovider: %w", err)
}

// serveModels answers GET /v1/models.
func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) *apiError {
	body := []byte(`{"object":"list","data":[`)
	for i, m := range s.cfg.Models {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendModel(body, s.models[m.ID])
	}
	writeJSON(w, http.StatusOK, append(body, "]}"...))
	return nil
}

// serveModel answers GET /v1/models/ID.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) *apiError {
	m, err := s.model(strings.TrimPrefix(apiPath(r.URL.Path), "/v1/models/"))
	if err != nil {
		err.param = "model"
		return err
	}
	writeJSON(w, http.StatusOK, appendModel(nil, m))
	return nil
}

func appendModel(b []byte, m *model) []byte {
	return slices.Concat(b, []byte(`{"id":`), m.json, []byte(`,"object":"model","created":1700000000,"owned_by":"simprovider"}`))
}
