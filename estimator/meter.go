package estimator

// What one request may cost to estimate. A body of 1 MB takes at most 18 ms on
// the idle core that nextPiece models, whatever is in it (33 ms on the slower one
// of docs/benchmarks.md): exactWork is 11 ms, and the slices of the
// worst text are 7 ms. Some texts of 1 MB take the counter alone 20 minutes.
const (
	// exactBytes and exactWork bound what is counted exactly, memo hits apart. The
	// work is reached first: after about 27 KiB of prose, some 5,800 tokens, 11 KiB
	// of base64, and 6 KiB of the densest text ("1\n" repeated, a part per byte).
	exactBytes = 64 << 10
	exactWork  = 11e6
)

// meter counts the texts of one request within those bounds.
type meter struct {
	counter  counter
	memo     *memo
	fallback bool // the counter is not the model's own
	bytes    int  // left of exactBytes
	work     int  // left of exactWork

	tokens int64 // of what was counted
	upper  int64 // the same, but bytes where the count is not sure
	cut    bool  // a text was cut inside a run

	rest      []string // what was not
	restBytes int64
}

func newMeter(c counter, m *memo, fallback bool) *meter {
	return &meter{counter: c, memo: m, fallback: fallback, bytes: exactBytes, work: exactWork}
}

// add counts a text, or what the bounds allow of it, and leaves the rest for
// sampling. A text that does not fit as a whole is left as a whole, so that a
// long document does not use up what the messages after it could have.
func (m *meter) add(text string) {
	if len(text) == 0 {
		return
	}
	if len(text) > exactBytes {
		m.leave(text)
		return
	}
	var hash uint64
	if len(text) >= memoMin {
		hash = m.memo.hash(text)
		if n, cut, ok := m.memo.get(hash); ok {
			m.counted(text, n, cut)
			return
		}
	}
	if len(text) > m.bytes || m.work == 0 {
		m.leave(text)
		return
	}
	n, cut := int64(0), false
	for left := text; len(left) > 0; {
		p := nextPiece(left)
		if m.work < p.work {
			m.work = 0
			m.counted(text[:len(text)-len(left)], n, cut)
			m.leave(left)
			return
		}
		m.work -= p.work
		m.bytes -= p.size
		n += int64(m.counter.count(left[:p.size]))
		if p.forced {
			n += cutTokens
			cut = true
		}
		left = left[p.size:]
	}
	n = min(n, int64(len(text)))
	m.counted(text, n, cut)
	if len(text) >= memoMin {
		m.memo.put(hash, n, cut)
	}
}

// cutTokens is added for each cut inside a run. A cut mostly adds a token, but it
// may also take one away: merging is greedy, and two halves can do better than
// the whole.
const cutTokens = 1

func (m *meter) counted(text string, n int64, cut bool) {
	m.tokens += n
	m.cut = m.cut || cut
	if cut || m.fallback {
		n = int64(len(text)) // a token covers at least one byte, in any vocabulary
	}
	m.upper += n
}

func (m *meter) leave(text string) {
	m.rest = append(m.rest, text)
	m.restBytes += int64(len(text))
}
