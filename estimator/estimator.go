package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/paceline-go/paceline/job"
)

// Estimator estimates requests. It is safe for concurrent use. Make one with
// [New], and one per process: what it remembers is what makes it fast.
type Estimator struct {
	cfg   Config
	load  func(encoding) (counter, error)
	randN func(int64) int64
	memos [encodings]*memo

	mu     sync.Mutex
	logged map[string]struct{} // guarded by mu
}

// The methods an estimate names, from the surest to the least sure; of several
// that apply it names the last.
const (
	// Exact: every token was counted, now or before. Upper is 0.
	Exact = "exact"
	// Bound: counted, with something in it that is priced by a rule that errs
	// upwards: tools, images, audio, files, parts of unknown types, or a run of
	// over 512 bytes that had to be cut.
	Bound = "bound"
	// Fallback: counted in o200k_base, because the model is not known. The real
	// count of English is some percent off, that of other scripts up to threefold.
	Fallback = "fallback"
	// Sampled: some text was too much to count and was estimated from slices at
	// random places; the next estimate of the same request may differ.
	Sampled = "sampled"
)

// Result is an estimate and how it came about.
type Result struct {
	// Estimate has 1 or more for Input. Its Upper is MaxTokens where nothing bounds
	// the input: a prompt with a file.
	job.Estimate
	// Encoding is the vocabulary that was used, "o200k_base" or "cl100k_base".
	Encoding string
	// UnknownModel says that the vocabulary is not known to be the model's own.
	UnknownModel bool
}

// ErrRequest is returned for a job whose Request this package cannot estimate.
var ErrRequest = errors.New("estimator: unsupported request")

// New returns an estimator, or the mistake in its configuration. It loads no
// vocabulary: the first estimate that needs one does, or Load.
func New(cfg Config) (*Estimator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// The generator of math/rand/v2 is seeded at random in each process.
	e := &Estimator{cfg: cfg, load: loadCounter, randN: rand.Int64N, logged: map[string]struct{}{}}
	for i := range e.memos {
		e.memos[i] = newMemo()
	}
	return e, nil
}

// Load loads the vocabularies of the models, 0.1 to 0.3 s each, so that no call
// waits for them. Without models it loads both.
func (e *Estimator) Load(models ...string) error {
	if len(models) == 0 {
		models = []string{"gpt-4o", "gpt-4"}
	}
	for _, m := range models {
		f, _ := familyOf(m)
		if _, err := e.load(f.encoding); err != nil {
			return err
		}
	}
	return nil
}

// Estimate returns what a job is expected to use. Its Request is a [*Request]; or
// the JSON body of a chat as a []byte or json.RawMessage, which is parsed each
// time; or a string, the one message of a chat. The error is [ErrRequest] for
// anything else, a [*RequestError] for a body that is wrong, and that of loading
// the vocabulary.
func (e *Estimator) Estimate(s job.Spec) (job.Estimate, error) {
	var (
		r   *Request
		err error
	)
	switch v := s.Request.(type) {
	case *Request:
		r = v
	case []byte:
		r, err = ParseChat(v)
	case json.RawMessage:
		r, err = ParseChat(v)
	case string:
		r = textRequest(v)
	}
	if err != nil {
		return job.Estimate{}, err
	}
	if r == nil {
		return job.Estimate{}, fmt.Errorf("%w: %T", ErrRequest, s.Request)
	}
	res, err := e.Measure(s.Model, r)
	return res.Estimate, err
}

// Measure estimates a request for a model; the empty model is the one that the
// request names. The only error is that of loading the vocabulary.
func (e *Estimator) Measure(model string, r *Request) (Result, error) {
	if model == "" {
		model = r.Model
	}
	f, known := familyOf(model)
	if !known {
		e.logUnknown(model)
	}
	c, err := e.load(f.encoding)
	if err != nil {
		return Result{}, err
	}
	m := newMeter(c, e.memos[f.encoding], !known)
	res := Result{
		Estimate:     e.input(&r.prompt, m, f.image, baseName(model) == firstChatModel),
		Encoding:     f.encoding.String(),
		UnknownModel: !known,
	}
	if !r.embeddings {
		res.Declared = r.Declared
		perChoice := r.OutputCap
		if !r.Declared {
			perChoice = e.cfg.output(model)
		}
		res.Output = saturatingMul(max(perChoice, 0), max(r.Choices, 1))
	}
	return res, nil
}

// input prices a prompt.
func (e *Estimator) input(p *prompt, m *meter, rule imageRule, firstModel bool) job.Estimate {
	for text := range p.each {
		m.add(text)
	}
	overhead := p.overhead(firstModel)
	n, upper, method := overhead+m.tokens, overhead+m.upper, Exact

	for _, img := range p.images {
		t := rule.tokens(img)
		n, upper = saturatingAdd(n, t), saturatingAdd(upper, t)
	}
	low, high := p.audio.tokens(e.cfg.AudioTokensPerSecond)
	n, upper = saturatingAdd(n, low), saturatingAdd(upper, high)
	if p.files > 0 {
		n, upper = saturatingAdd(n, saturatingMul(p.files, e.cfg.FileTokens)), MaxTokens
	}
	if p.priced || m.cut || len(p.images) > 0 || p.audio != (audio{}) || p.files > 0 {
		method = Bound
	}
	if m.fallback {
		method = Fallback
	}
	if m.restBytes > 0 {
		n, upper = saturatingAdd(n, m.sample(e.randN)), saturatingAdd(upper, m.restBytes)
		method = Sampled
	}
	n = max(n, 1) // no provider takes an empty prompt for nothing
	if method == Exact {
		upper = 0
	} else {
		upper = max(upper, n)
	}
	return job.Estimate{Input: n, Upper: upper, Method: method}
}

// maxLogged bounds the names kept of models that were logged, and maxName their
// length: clients make them up.
const maxLogged, maxName = 100, 100

func (e *Estimator) logUnknown(model string) {
	model = model[:min(len(model), maxName)]
	e.mu.Lock()
	_, done := e.logged[model]
	done = done || len(e.logged) == maxLogged
	if !done {
		e.logged[model] = struct{}{}
	}
	e.mu.Unlock()
	if !done {
		e.cfg.Logger.Warn("estimator: unknown model, counted in o200k_base", slog.String("model", model))
	}
}
