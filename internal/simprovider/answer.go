package simprovider

import (
	"math"
	"unicode/utf8"
)

// answer is what the model says, the same in every choice. Its text is made of
// pieces, which are spread evenly over its tokens.
type answer struct {
	tool   string   // the function it calls, with the text as arguments; "" for none
	pieces []string // of an echo or of arguments; nil for words
	words  int64    // the number of words, when pieces is nil
	tokens int64    // at least 1
	finish string
}

const (
	// maxWords bounds what the server writes, though not what it counts: about 120 kB.
	maxWords = 20_000
	// exactWords is all the text of an answer whose tokens a header gives.
	exactWords = 32
	// toolArguments are those of every call.
	toolArguments = `{"city":"Zürich","unit":"celsius"}`
)

var words = [...]string{" alpha", " beta", " gamma", " delta", " epsilon"}

// answer decides what a request is told. exact is its X-Sim-Output-Tokens, 0 for none.
func (s *Server) answer(r *chatRequest, exact int64) answer {
	a := answer{finish: "stop"}
	switch {
	case r.tool != "":
		a.tool, a.pieces, a.finish = r.tool, split(toolArguments), "tool_calls"
		a.tokens = int64(len(a.pieces))
	case exact > 0:
		a.tokens, a.words = exact, min(exact, exactWords)
	case r.last.echoes:
		a.pieces = split(r.last.echo)
		a.tokens = max(int64(len(a.pieces)), 1)
	default:
		a.tokens = min(r.last.words, maxWords)
		if a.tokens < 0 {
			a.tokens = min(s.drawLength(), maxTokens)
		}
		a.tokens = max(a.tokens, 1)
		a.words = min(a.tokens, maxWords)
	}
	if r.limit >= 0 && a.tokens > r.limit {
		a.tokens, a.finish = r.limit, "length"
		a.words = min(a.words, r.limit)
		a.pieces = a.pieces[:min(int64(len(a.pieces)), r.limit)]
	}
	return a
}

// drawLength draws from the configured lengths.
func (s *Server) drawLength() int64 {
	mean, sigma := float64(s.cfg.Output.Mean), s.cfg.Output.Sigma
	if sigma == 0 {
		return s.cfg.Output.Mean
	}
	s.mu.Lock()
	z := s.rng.NormFloat64()
	s.mu.Unlock()
	// With this location the mean of the log-normal is mean, whatever sigma.
	return int64(math.Round(math.Exp(math.Log(mean) - sigma*sigma/2 + sigma*z)))
}

// split cuts a text into tokens of four code points.
func split(text string) []string {
	pieces := make([]string, 0, utf8.RuneCountInString(text)/4+1)
	n, start := 0, 0
	for i := range text {
		if n == 4 {
			pieces = append(pieces, text[start:i])
			n, start = 0, i
		}
		n++
	}
	if start < len(text) {
		pieces = append(pieces, text[start:])
	}
	return pieces
}

// appendText appends, as the inside of a JSON string, the text that appears while
// the tokens after from and up to to are produced.
func (a *answer) appendText(b []byte, from, to int64) []byte {
	if a.pieces != nil {
		n := int64(len(a.pieces))
		for _, p := range a.pieces[n*from/a.tokens : n*to/a.tokens] {
			b = appendEscaped(b, p)
		}
		return b
	}
	first, last := a.words*from/a.tokens, a.words*to/a.tokens
	for i := first; i < last; i++ {
		word := words[i%int64(len(words))]
		if i == 0 {
			word = word[1:]
		}
		b = append(b, word...)
	}
	return b
}
