package estimator

import (
	"fmt"
	"sync"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// counter counts the tokens of ordinary text in one encoding: special tokens in
// it are text. It is safe for concurrent use. The texts it is given are at most
// maxPiece bytes of valid UTF-8.
type counter interface {
	count(text string) int
}

// tiktokenCounter is the reference, exact and slow: 0.3 to 1.6 us a byte, 100
// bytes of garbage a byte, and quadratic in the length of an unbroken run (1 MB of
// "a" would take 20 minutes). What cut.go, memo.go, meter.go and sample.go do is
// there because of these figures; a faster counter needs other constants only.
type tiktokenCounter struct{ *tiktoken.Tiktoken }

func (c tiktokenCounter) count(text string) int { return len(c.EncodeOrdinary(text)) }

// vocabulary loads the counter of one encoding on first use.
type vocabulary struct {
	once    sync.Once
	counter counter
	err     error
}

// vocabularies are the process's own: one takes 0.1 to 0.3 s to load and 12 to
// 24 MB to keep.
var vocabularies [encodings]vocabulary

// setLoader makes tiktoken read the files embedded in the binary in the place of
// the network.
var setLoader = sync.OnceFunc(func() { tiktoken.SetBpeLoader(loader.NewOfflineLoader()) })

func loadCounter(e encoding) (counter, error) { return vocabularies[e].load(e) }

func (v *vocabulary) load(e encoding) (counter, error) {
	v.once.Do(func() {
		setLoader()
		t, err := tiktoken.GetEncoding(e.String())
		if err != nil {
			v.err = fmt.Errorf("estimator: load %v: %w", e, err)
			return
		}
		v.counter = tiktokenCounter{t}
	})
	return v.counter, v.err
}
