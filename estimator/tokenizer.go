package estimator

import (
	"math"

	"github.com/paceline-go/paceline/estimator/bpe"
)

// tokenizer says how the texts of a family of models are counted.
type tokenizer int

const (
	o200k  tokenizer = iota
	cl100k           // the rest are counted in o200k_base and weighted
	claude
	gemini
	llama
	qwen
	deepseek
	tokenizers // their number; above are the counters of Config
)

// Counter counts the tokens of texts for models whose vocabulary this package does not
// have. It must be safe for concurrent use, and is given valid UTF-8.
type Counter interface {
	Count(text string) int
}

// counter is what a meter needs: cut says that a text was cut inside a run, and counts
// a little too much.
type counter interface {
	count(text string) (n int, cut bool)
}

// maxPiece is the longest run that is counted as a whole, which takes 39 KB of memory.
// The longest seen in honest text has 192 bytes, in Japanese.
const maxPiece = 2048

// exactCounter counts in the model's own encoding.
type exactCounter struct{ *bpe.Encoding }

func (c exactCounter) count(text string) (int, bool) { return c.CountCut(text, maxPiece) }

// weightedCounter estimates with o200k_base, which load has loaded.
type weightedCounter struct{ *weights }

func (c weightedCounter) count(text string) (int, bool) {
	e, err := bpe.O200k()
	if err != nil {
		return len(text), true
	}
	var t bpe.Tally
	cut := e.Tally(text, maxPiece, &t)
	return int(math.Round(c.tokens(&t))), cut
}

// foreignCounter is one that was configured.
type foreignCounter struct{ Counter }

func (c foreignCounter) count(text string) (int, bool) { return max(c.Count(text), 0), false }

// String returns the name of the encoding that is used.
func (t tokenizer) String() string {
	switch {
	case t == cl100k:
		return "cl100k_base"
	case t >= tokenizers:
		return "configured"
	}
	return "o200k_base"
}

// load returns the counter of a tokenizer other than those of Config. The first use of
// an encoding takes some 0.05 s.
func (t tokenizer) load() (counter, error) {
	if t == cl100k {
		e, err := bpe.Cl100k()
		return exactCounter{e}, err
	}
	e, err := bpe.O200k()
	if w := weightsOf[t]; w != nil {
		return weightedCounter{w}, err
	}
	return exactCounter{e}, err
}
