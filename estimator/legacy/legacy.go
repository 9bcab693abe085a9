// Package legacy counts tokens in OpenAI's old encodings p50k_base, p50k_edit and
// r50k_base with pkoukk/tiktoken-go. Importing it adds 11 MB to a binary, which is why
// package estimator does not: give it what [New] returns as one of its Counters.
//
// # Failure
//
// Counting takes about 1 us and 100 bytes of garbage per byte.
package legacy

import (
	"fmt"
	"sync"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// Encoding counts tokens. It is safe for concurrent use.
type Encoding struct{ tiktoken *tiktoken.Tiktoken }

// setLoader makes tiktoken read the files embedded in the binary in the place of the
// network.
var setLoader = sync.OnceFunc(func() { tiktoken.SetBpeLoader(loader.NewOfflineLoader()) })

// New returns the encoding of a name that tiktoken knows, such as "p50k_base". It takes
// up to 0.3 s and 24 MB each time. As it sets tiktoken's loader for the whole process,
// call it before other uses of tiktoken start.
func New(name string) (*Encoding, error) {
	setLoader()
	t, err := tiktoken.GetEncoding(name)
	if err != nil {
		return nil, fmt.Errorf("legacy: load %s: %w", name, err)
	}
	return &Encoding{t}, nil
}

// maxPart is how much of a text tiktoken gets at once. The time it takes grows with
// the square of what it cannot split, and 1 MB of "a" would take 20 minutes.
const maxPart = 512

// Count returns the tokens of a text of valid UTF-8. It is exact, apart from runs of
// over 512 bytes without a space: those are cut, and count a little more.
func (e *Encoding) Count(text string) int {
	n := 0
	for len(text) > 0 {
		end := partEnd(text)
		n += len(e.tiktoken.EncodeOrdinary(text[:end]))
		text = text[end:]
	}
	return n
}

// partEnd returns the last place in the first maxPart bytes before a space that
// follows a letter or digit of ASCII, where all encodings split; without one it is the
// last at which a rune starts.
func partEnd(s string) int {
	if len(s) <= maxPart {
		return len(s)
	}
	for i := maxPart; i > 0; i-- {
		if s[i] == ' ' && isAlnum(s[i-1]) {
			return i
		}
	}
	for i := maxPart; i > 0; i-- {
		if s[i]&0xc0 != 0x80 {
			return i
		}
	}
	return maxPart
}

func isAlnum(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}
