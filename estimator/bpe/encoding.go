package bpe

import (
	"compress/flate"
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

// Encoding counts tokens. Get one from [O200k] or [Cl100k].
type Encoding struct {
	name       string
	split      func(string) int
	vocabulary *vocabulary
}

// The files hold, deflated, the lengths of all tokens in the order of their ranks, a
// byte each, and then their bytes.
var (
	//go:embed o200k_base.bin
	o200kData string
	//go:embed cl100k_base.bin
	cl100kData string
)

var (
	o200k = sync.OnceValues(func() (*Encoding, error) {
		return load("o200k_base", splitO200k, o200kData, 199_998)
	})
	cl100k = sync.OnceValues(func() (*Encoding, error) {
		return load("cl100k_base", splitCl100k, cl100kData, 100_256)
	})
)

// O200k returns o200k_base, the encoding of OpenAI's models since gpt-4o. The first
// call takes less than 0.1 s; from then on 4 MB are held.
func O200k() (*Encoding, error) { return o200k() }

// Cl100k returns cl100k_base, the encoding of gpt-4, gpt-3.5-turbo and the
// embeddings. The first call takes less than 0.1 s; from then on 2 MB are held.
func Cl100k() (*Encoding, error) { return cl100k() }

func load(name string, split func(string) int, data string, tokens int) (*Encoding, error) {
	wide.once.Do(loadClasses)
	var b strings.Builder
	b.Grow(8 * tokens)
	if _, err := io.Copy(&b, flate.NewReader(strings.NewReader(data))); err != nil {
		return nil, fmt.Errorf("bpe: load %s: %w", name, err)
	}
	v, err := newVocabulary(b.String(), tokens)
	if err != nil {
		return nil, fmt.Errorf("bpe: load %s: %w", name, err)
	}
	return &Encoding{name, split, v}, nil
}

// String returns the name of the encoding.
func (e *Encoding) String() string { return e.name }

// Count returns the number of tokens in a text, between 0 and its bytes. It takes
// time in proportion to n log n and, for a piece of over 2048 bytes, 19 bytes of
// memory per byte of it.
func (e *Encoding) Count(text string) int {
	n, _ := e.count(text, math.MaxInt, nil)
	return n
}

// CountCut counts like Count, but cuts each piece of more than longest bytes into
// chunks of 256, which bounds time and memory, and reports whether it did. A cut adds a
// token or none: 0.2 % at most in runs of letters, symbols, spaces, Han and emoji. Honest
// text has no pieces above 200 bytes.
func (e *Encoding) CountCut(text string, longest int) (tokens int, cut bool) {
	return e.count(text, longest, nil)
}

// Tally counts like CountCut and adds the tokens to t.
func (e *Encoding) Tally(text string, longest int, t *Tally) (cut bool) {
	_, cut = e.count(text, longest, t)
	return cut
}

// chunkBytes is what pieces are cut into. A chunk takes as long as some words do.
const chunkBytes = 256

func (e *Encoding) count(s string, longest int, t *Tally) (tokens int, cut bool) {
	for len(s) > 0 {
		end := e.split(s)
		piece := s[:end]
		s = s[end:]
		if len(piece) > longest {
			cut = true
			for len(piece) > chunkBytes {
				size := runeStart(piece, chunkBytes)
				tokens += e.piece(piece[:size], t)
				piece = piece[size:]
			}
		}
		tokens += e.piece(piece, t)
	}
	return tokens, cut
}

// piece counts a piece or a chunk of one.
func (e *Encoding) piece(s string, t *Tally) int {
	n := e.vocabulary.count(s)
	if t != nil {
		t.add(s, n)
	}
	return n
}

// runeStart returns the last place up to i where a rune starts; i itself if the
// bytes before it are not UTF-8.
func runeStart(s string, i int) int {
	for back := range utf8.UTFMax {
		if utf8.RuneStart(s[i-back]) {
			return i - back
		}
	}
	return i
}
