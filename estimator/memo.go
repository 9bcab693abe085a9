package estimator

import (
	"hash/maphash"
	"sync/atomic"
)

// memo remembers the token counts of texts by a keyed hash, in a table of fixed
// size that keeps no text. A conversation is sent again with every turn, and
// messages are counted apart, so all but its last message are known.
//
// It is safe for concurrent use without a lock: an entry is one word that is
// read and written whole. The keys are random per process, so nobody can aim at a
// collision; by chance, a text is taken for another once in 2^46 look-ups of a
// full table.
type memo struct {
	word [memoSets][memoWays]atomic.Uint64
}

const (
	memoSets = 1 << 13
	memoWays = 8 // a cache line; 64Ki entries, 512 KiB in all

	// memoMin is the length in bytes from which a look-up is faster than counting.
	memoMin = 32

	// A word holds the hash above the 18 bits of count and cut.
	memoShift = 18
	memoCut   = 1 << (memoShift - 1)
	memoCount = memoCut - 1
)

// get returns the count of the text with a hash, and whether the text was cut.
func (m *memo) get(hash uint64) (n int64, cut, ok bool) {
	set := &m.word[hash%memoSets]
	for i := range set {
		if w := set[i].Load(); w>>memoShift == hash>>memoShift && w != 0 {
			return int64(w & memoCount), w&memoCut != 0, true
		}
	}
	return 0, false, false
}

// put remembers a count from 0 to memoCount, in an empty place or that of another.
func (m *memo) put(hash uint64, n int64, cut bool) {
	w := hash>>memoShift<<memoShift | uint64(n)
	if cut {
		w |= memoCut
	}
	set := &m.word[hash%memoSets]
	at := hash / memoSets % memoWays
	for i := range set {
		if old := set[i].Load(); old == 0 || old>>memoShift == hash>>memoShift {
			at = uint64(i)
			break
		}
	}
	set[at].Store(w)
}

// view is the memo of one tokenizer: each has hashes of its own.
type view struct {
	*memo
	seed maphash.Seed
}

func (v view) hash(text string) uint64 { return maphash.String(v.seed, text) }
