package provider

import "bytes"

// walker goes through JSON byte by byte, as the bytes come, and keeps what is
// watched for. It trusts nothing and judges nothing: what is not JSON finds nothing.
// Whatever the bytes are, it holds no more than the bounds below.
type walker struct {
	doc doc

	state  uint8
	isKey  bool  // the string is a key
	expect bool  // the next string of this object is a key
	escape uint8 // within an escape: 1 after the backslash, then the digits of \u
	low    uint8 // first digits of \u that say: second half of a pair
	depth  int   // of frames
	skip   int   // containers open within one that nobody watches
	at     *node // what the next value means; nil for nothing
	dst    *[]byte
	most   int
	raw    bool // dst takes a whole object
	nkey   int
	key    [32]byte
	frames [16]frame
}

type frame struct {
	at    *node
	array bool
}

const (
	between uint8 = iota
	inString
	inScalar
)

const (
	maxName  = 128     // of a type, code or scalar
	maxKept  = 8 << 10 // of a usage or error object
	maxInner = 64 << 10
)

// doc is what was found in one JSON document. Its slices are used again.
type doc struct {
	typ, code, message, scalar []byte
	reason                     []byte // why a choice ended
	usage, err, inner          []byte
	long                       bool  // the error was longer than its bound
	over                       bool  // the document has ended
	finished                   bool  // a choice has ended
	last                       bool  // it says that it ends the stream
	cut                        bool  // a cap ended a choice
	choices                    uint8 // whether there is an array of choices, and in it any
	array                      bool  // the document is an array
	delta, whole               int64 // characters of text
}

const (
	noChoices uint8 = iota
	emptyChoices
	someChoices
)

func (d *doc) reset() {
	*d = doc{
		typ: d.typ[:0], code: d.code[:0], message: d.message[:0], scalar: d.scalar[:0], reason: d.reason[:0],
		usage: d.usage[:0], err: d.err[:0], inner: d.inner[:0],
	}
}

func (d *doc) finish(m mark) {
	if m == markFinish || m == markEnd {
		d.finished = true
		d.last = d.last || m == markEnd
	}
}

// reset begins a new document, whatever became of the last.
func (w *walker) reset() {
	w.doc.reset()
	w.state, w.depth, w.skip, w.escape = between, 0, 0, 0
	w.at, w.dst, w.raw, w.expect = watched, nil, false, false
}

// open says that a document has begun and not ended.
func (w *walker) open() bool { return w.depth > 0 || w.skip > 0 || w.state != between }

// feed takes bytes until a document ends, and returns how many it took. The
// caller looks at doc then, resets, and feeds the rest.
func (w *walker) feed(p []byte) (n int, end bool) {
	for i := 0; i < len(p); {
		switch w.state {
		case inString:
			i += w.text(p[i:])
		case inScalar:
			n := i
			for i < len(p) && !isDelimiter[p[i]] {
				i++
			}
			w.keepAll(p[n:i])
			if i < len(p) {
				w.scalarEnd() // the delimiter is for the state between
			}
		default:
			if w.skip > 0 {
				i += w.pass(p[i:])
			} else {
				i++
				w.token(p[i-1])
			}
			if w.doc.over && w.depth == 0 && w.skip == 0 {
				w.doc.over = false
				return i, true
			}
		}
	}
	return len(p), false
}

var isDelimiter = [256]bool{
	' ': true, '\t': true, '\r': true, '\n': true,
	',': true, ':': true, '"': true, '{': true, '}': true, '[': true, ']': true,
}

var isStructure = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true}

// pass goes through a container that nobody watches, or that is kept as it is.
func (w *walker) pass(p []byte) int {
	n := 0
	for n < len(p) && !isStructure[p[n]] {
		n++
	}
	if n == len(p) {
		w.keepAll(p)
		return n
	}
	w.keepAll(p[:n+1])
	switch p[n] {
	case '"':
		w.state, w.isKey = inString, false
	case '{', '[':
		w.skip++
	default:
		if w.skip--; w.skip == 0 {
			w.raw, w.dst = false, nil
			w.valueEnd()
		}
	}
	return n + 1
}

// token takes one byte between the values of a watched container.
func (w *walker) token(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n', ':':
	case ',':
		if w.depth > 0 && !w.frames[w.depth-1].array {
			w.expect, w.at = true, nil
		}
	case '"':
		w.state, w.isKey = inString, w.expect
		if w.isKey {
			w.nkey = 0
			return
		}
		w.element()
		w.dst, w.most = w.doc.target(w.at, false)
	case '{', '[':
		w.element()
		w.push(c == '[')
	case '}', ']':
		if w.depth > 0 {
			w.depth--
			w.valueEnd()
		}
	default:
		w.element()
		w.state = inScalar
		if w.at != nil {
			w.dst, w.most = &w.doc.scalar, maxName
			w.doc.scalar = w.doc.scalar[:0]
		}
		w.keep(c)
	}
}

// element notes a value in the array of choices.
func (w *walker) element() {
	if w.depth > 0 {
		if f := &w.frames[w.depth-1]; f.array && f.at.mark == markChoices {
			w.doc.choices = someChoices
		}
	}
}

func (w *walker) push(array bool) {
	n := w.at
	switch {
	case n == nil:
		w.skip = 1
	case (n.mark == markUsage || n.mark == markError) && !array:
		w.skip, w.raw = 1, true
		w.dst, w.most = w.doc.target(n, true)
		w.keep('{')
	case len(n.by) == 0 || w.depth == len(w.frames):
		w.skip = 1
	default:
		if n.mark == markChoices && array && w.doc.choices == noChoices {
			w.doc.choices = emptyChoices
		}
		if w.depth == 0 {
			w.doc.array = array
		}
		w.frames[w.depth] = frame{n, array}
		w.depth++
		w.expect = !array
	}
}

// valueEnd is after a container has ended: the next value of an array means what
// the last one meant, the next of an object is not known.
func (w *walker) valueEnd() {
	w.expect, w.at = false, nil
	if w.depth == 0 {
		w.doc.over, w.at = true, watched
	} else if f := &w.frames[w.depth-1]; f.array {
		w.at = f.at
	}
}

// target is where a value is to be kept, emptied; nil for nowhere.
func (d *doc) target(n *node, object bool) (dst *[]byte, most int) {
	if n == nil {
		return nil, 0
	}
	switch n.mark {
	case markUsage:
		if object {
			dst, most = &d.usage, maxKept
		}
	case markError:
		if len(d.err) > 0 {
			return nil, 0 // the first is the cause
		}
		dst, most = &d.err, maxKept
	case markType:
		dst, most = &d.typ, maxName
	case markCode:
		dst, most = &d.code, maxName
	case markMessage:
		dst, most = &d.message, maxKept
	case markBytes:
		dst, most = &d.inner, maxInner
	case markFinish, markEnd, markStop:
		dst, most = &d.reason, maxName
	}
	if dst != nil {
		*dst = (*dst)[:0]
		if n.mark == markError && !object {
			*dst = append(*dst, '"')
		}
	}
	return dst, most
}

func (w *walker) keep(c byte) {
	if w.dst == nil {
		return
	}
	if len(*w.dst) >= w.most {
		w.overflow()
		return
	}
	*w.dst = append(*w.dst, c)
}

func (w *walker) keepAll(p []byte) {
	if w.dst == nil {
		return
	}
	room := w.most - len(*w.dst)
	if len(p) > room {
		*w.dst = append(*w.dst, p[:room]...)
		w.overflow()
		return
	}
	*w.dst = append(*w.dst, p...)
}

// overflow gives up what is too long. Of an error the beginning is worth having.
func (w *walker) overflow() {
	if w.dst == &w.doc.err {
		w.doc.long = true
	} else {
		*w.dst = (*w.dst)[:0]
	}
	w.dst = nil
}

// text takes the bytes of a string, and returns how many it took.
func (w *walker) text(p []byte) int {
	counted := !w.isKey && w.skip == 0 && w.at != nil && (w.at.mark == markDelta || w.at.mark == markWhole)
	n, chars, closed := 0, int64(0), false
	if w.escape == 0 {
		// Most strings are whole, and have no escapes.
		if q := bytes.IndexByte(p, '"'); q >= 0 && bytes.IndexByte(p[:q], '\\') < 0 {
			n, closed = q+1, true
			if counted {
				chars = characters(p[:q])
			}
		}
	}
	for n < len(p) && !closed {
		c := p[n]
		n++
		switch {
		case w.escape > 0:
			if w.escaped(c) {
				chars++
			}
		case c == '\\':
			w.escape = 1
		case c == '"':
			closed = true
		case c&0xC0 != 0x80: // the first byte of a character
			chars++
		}
	}
	if counted {
		if w.at.mark == markDelta {
			w.doc.delta += chars
		} else {
			w.doc.whole += chars
		}
	}
	switch body := p[:n]; {
	case w.isKey:
		if closed {
			body = body[:n-1]
		}
		if w.nkey+len(body) > len(w.key) {
			w.nkey = len(w.key) + 1 // longer than any that is watched for
		} else {
			w.nkey += copy(w.key[w.nkey:], body)
		}
	case w.raw || w.at != nil && w.at.mark == markError:
		w.keepAll(body) // with the quote
	default:
		if closed {
			body = body[:n-1]
		}
		w.keepAll(body)
	}
	if closed {
		w.stringEnd()
	}
	return n
}

// characters counts the first bytes of characters.
func characters(p []byte) (n int64) {
	for _, c := range p {
		if c&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

// escaped takes a byte of an escape, and says whether a character ends with it.
func (w *walker) escaped(c byte) bool {
	switch {
	case w.escape == 1 && c == 'u':
		w.escape, w.low = 2, 0
		return false
	case w.escape == 1:
		w.escape = 0
		return true
	case w.escape == 2 && (c == 'd' || c == 'D'),
		w.escape == 3 && (c >= 'c' && c <= 'f' || c >= 'C' && c <= 'F'):
		w.low++ // DC00 to DFFF
	}
	if w.escape++; w.escape < 6 {
		return false
	}
	w.escape = 0
	return w.low < 2
}

func (w *walker) stringEnd() {
	w.state = between
	switch {
	case w.skip > 0:
	case w.isKey:
		w.expect, w.at = false, nil
		if w.nkey <= len(w.key) {
			w.at = w.frames[w.depth-1].at.child(w.key[:w.nkey])
		}
	default:
		if w.dst == &w.doc.reason {
			w.doc.cut = w.doc.cut || caps[string(w.doc.reason)]
		}
		w.dst = nil
		if w.at != nil && w.depth > 0 {
			w.doc.finish(w.at.mark)
		}
	}
}

func (w *walker) scalarEnd() {
	w.state, w.dst = between, nil
	if w.at == nil || w.depth == 0 {
		return
	}
	switch s := w.doc.scalar; {
	case string(s) == "null":
	case w.at.mark == markDone:
		if string(s) == "true" {
			w.doc.finish(markEnd)
		}
	case w.at.mark == markCode:
		w.doc.code = append(w.doc.code[:0], s...)
	default:
		w.doc.finish(w.at.mark)
	}
}
