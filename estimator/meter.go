package estimator

// How much of the new text of one request is counted; texts that are known do not
// count. Whatever is in the rest, a megabyte takes less than 10 ms.
const (
	exactBytes = 64 << 10
	// foreignBytes is the same for a counter of Config, of which nothing is known.
	foreignBytes = 16 << 10
)

// meter counts the texts of one request within these bounds.
type meter struct {
	counter counter
	memo    view
	sure    bool // the counter is the model's own
	bytes   int  // may still be counted
	slice   int  // bytes of a slice

	tokens int64 // of what was counted
	upper  int64 // the same, but bytes where the count is not sure
	cut    bool  // a text was cut inside a run

	texts     int      // in the prompt
	seen      int      // of them
	left      []uint64 // a bit for each text, set for those that were not counted; nil for none
	leftBytes int64
}

func newMeter(c counter, v view, sure bool, texts int) meter {
	m := meter{counter: c, memo: v, sure: sure, bytes: exactBytes, slice: sliceBytes, texts: texts}
	if _, ok := c.(foreignCounter); ok {
		m.bytes, m.slice = foreignBytes, foreignSliceBytes
	}
	return m
}

// add counts a text, or leaves it for sampling. One that does not fit is left as a
// whole, so that a long document does not use up what the messages after it could
// have.
func (m *meter) add(text string) {
	m.seen++
	var hash uint64
	if memorable := len(text) >= memoMin && len(text) <= exactBytes; memorable {
		hash = m.memo.hash(text)
		if n, cut, ok := m.memo.get(hash); ok {
			m.counted(text, n, cut)
			return
		}
	}
	if len(text) > m.bytes {
		m.leave(text)
		return
	}
	m.bytes -= len(text)
	n, cut := m.count(text)
	m.counted(text, n, cut)
	if len(text) >= memoMin {
		m.memo.put(hash, n, cut)
	}
}

// count counts a text: at most its bytes, in any vocabulary.
func (m *meter) count(text string) (int64, bool) {
	n, cut := m.counter.count(text)
	return int64(min(n, len(text))), cut
}

func (m *meter) counted(text string, n int64, cut bool) {
	m.tokens += n
	m.cut = m.cut || cut
	if cut || !m.sure {
		n = int64(len(text))
	}
	m.upper += n
}

func (m *meter) leave(text string) {
	if m.left == nil {
		m.left = make([]uint64, (m.texts+63)/64)
	}
	i := m.seen - 1
	m.left[i/64] |= 1 << (i % 64)
	m.leftBytes += int64(len(text))
}

// isLeft reports whether text i of the prompt was left.
func (m *meter) isLeft(i int) bool {
	return m.left != nil && m.left[i/64]>>(i%64)&1 != 0
}
