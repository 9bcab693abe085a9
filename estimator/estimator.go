package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/paceline-go/paceline/job"
)

// Estimator estimates requests. It is safe for concurrent use. Make one with
// [New], and one per process: what it remembers is what makes it fast.
type Estimator struct {
	cfg      Config
	load     func(tokenizer) (counter, error)
	randN    func(int64) int64
	counters map[string]configured // of Config.Counters
	memo     memo
	seeds    []maphash.Seed // of the memo, by tokenizer

	mu     sync.Mutex
	logged map[string]struct{} // guarded by mu
}

// configured is a counter of Config and the number that it goes by.
type configured struct {
	tokenizer
	counter
}

// The methods an estimate names, from the surest to the least sure; of several
// that apply it names the last.
const (
	// Exact: every token was counted, now or before. Upper is 0.
	Exact = "exact"
	// Bound: counted, with something in it that is priced by a rule that errs
	// upwards: tools, images, audio, files, parts of unknown types, or a run of
	// over 2048 bytes that had to be cut.
	Bound = "bound"
	// Weighted: counted in o200k_base and multiplied by what the model's maker needs
	// for it, script by script. On natural text 95 % of the estimates are less than 5 to
	// 14 % off, by the maker; one in an alphabet that is rare on the net may be 40 %.
	Weighted = "weighted"
	// Fallback: counted in o200k_base, because the model is not known. The real
	// count of English is some percent off, that of other scripts up to threefold.
	Fallback = "fallback"
	// Sampled: some text was too much to count and was estimated from slices at
	// random places; the next estimate of the same request may differ. 95 % of the
	// estimates are less than 4 % off.
	Sampled = "sampled"
)

// Result is an estimate and how it came about.
type Result struct {
	// Estimate has 1 or more for Input. Its Upper holds as surely as the rules for tools
	// and images do, and for a sample in 99 of 100; it is MaxTokens where nothing bounds
	// the input: a prompt with a file.
	job.Estimate
	// Encoding is the vocabulary that was used: "o200k_base", "cl100k_base", or
	// "configured" for one of Config's.
	Encoding string
	// UnknownModel says that nothing is known of the model.
	UnknownModel bool

	media int64 // the part of Input that is images, audio and files
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
	e := &Estimator{cfg: cfg, load: tokenizer.load, randN: rand.Int64N,
		counters: map[string]configured{}, logged: map[string]struct{}{}}
	for model, c := range cfg.Counters {
		e.counters[model] = configured{tokenizers + tokenizer(len(e.counters)), foreignCounter{c}}
	}
	for range int(tokenizers) + len(e.counters) {
		e.seeds = append(e.seeds, maphash.MakeSeed())
	}
	return e, nil
}

// Load loads the vocabularies of the models, less than 0.1 s each, so that no call
// waits for them. Without models it loads both.
func (e *Estimator) Load(models ...string) error {
	if len(models) == 0 {
		models = []string{"gpt-4o", "gpt-4"}
	}
	for _, m := range models {
		f, _ := familyOf(m)
		if _, err := e.load(f.tokenizer); err != nil {
			return err
		}
	}
	return nil
}

// Estimate returns what a job is expected to use, by what was counted and what was
// learnt. Its Request is a [*Request]; or the JSON body of a chat as a []byte or
// json.RawMessage, which is parsed each time; or a string, the one message of a chat.
// The error is [ErrRequest] for anything else, a [*RequestError] for a body that is
// wrong, and that of loading the vocabulary.
func (e *Estimator) Estimate(s job.Spec) (job.Estimate, error) {
	r, err := requestOf(&s)
	if err != nil {
		return job.Estimate{}, err
	}
	res, err := e.Measure(s.Model, r)
	if err != nil {
		return job.Estimate{}, err
	}
	e.correct(&s, r, &res)
	return res.Estimate, nil
}

func requestOf(s *job.Spec) (r *Request, err error) {
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
	if err == nil && r == nil {
		err = fmt.Errorf("%w: %T", ErrRequest, s.Request)
	}
	return r, err
}

// Measure estimates a request for a model, by what can be counted alone; the empty
// model is the one that the request names. The only error is that of loading the
// vocabulary.
func (e *Estimator) Measure(model string, r *Request) (Result, error) {
	if model == "" {
		model = r.Model
	}
	f, known := familyOf(model)
	var c counter
	if own, ok := lookUp(e.counters, baseName(model)); ok {
		f.tokenizer, c, known = own.tokenizer, own.counter, true
	} else {
		var err error
		if c, err = e.load(f.tokenizer); err != nil {
			return Result{}, err
		}
	}
	if !known {
		e.logUnknown(model)
	}
	method := Exact
	switch {
	case !known:
		method = Fallback
	case f.tokenizer > cl100k && f.tokenizer < tokenizers:
		method = Weighted
	}
	m := newMeter(c, view{&e.memo, e.seeds[f.tokenizer]}, method == Exact, len(r.prompt.ends))
	res := e.input(&r.prompt, &m, &f, method, baseName(model) == firstChatModel)
	res.Encoding, res.UnknownModel = f.tokenizer.String(), !known
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

// input prices a prompt; method is how its texts are counted if nothing else is in it.
func (e *Estimator) input(p *prompt, m *meter, f *family, method string, firstModel bool) Result {
	for text := range p.each {
		m.add(text)
	}
	overhead := p.overhead(firstModel)
	n, upper := overhead+m.tokens, overhead+m.upper
	media, mediaUpper := e.media(p, f)
	if method == Exact && (p.priced || m.cut || media > 0) {
		method = Bound
	}
	if m.leftBytes > 0 {
		low, high := m.sample(p, e.randN)
		n, upper = n+low, upper+high
		method = Sampled
	}
	n = max(saturatingAdd(n, media), 1) // no provider takes an empty prompt for nothing
	upper = max(saturatingAdd(upper, mediaUpper), n)
	if method == Exact {
		upper = 0
	}
	return Result{Estimate: job.Estimate{Input: n, Upper: upper, Method: method}, media: media}
}

// media prices what is not text.
func (e *Estimator) media(p *prompt, f *family) (n, upper int64) {
	for _, img := range p.images {
		n = saturatingAdd(n, f.image.tokens(img))
	}
	rate := e.cfg.AudioTokensPerSecond
	if rate == 0 {
		rate = f.audioRate()
	}
	low, high := p.audio.tokens(rate)
	n, upper = saturatingAdd(n, low), saturatingAdd(n, high)
	if p.files > 0 {
		n, upper = saturatingAdd(n, saturatingMul(p.files, e.cfg.FileTokens)), MaxTokens
	}
	return n, upper
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
