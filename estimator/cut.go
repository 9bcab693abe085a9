package estimator

import (
	"unicode"
	"unicode/utf8"
)

// A text is handed to the counter in pieces. Both encodings split text by a
// regular expression before they merge bytes, so cutting where that splits in
// any case changes no count; see breaksBetween. Only a run of over maxPiece bytes
// without such a place is cut inside, and then counts a little more. The longest
// seen in honest text has 192 bytes, in Japanese.
const (
	maxPiece = 512
	// runPiece is the size of the pieces a longer run is cut into: the work in a
	// run grows with its square, and 256 bytes cost no more than prose does.
	runPiece = 256
)

// piece is the next part of a text to count.
type piece struct {
	size   int  // in bytes, at most maxPiece
	forced bool // cut inside a run
	// work models what counting costs, in ns on an idle 2 GHz Xeon core. It is
	// within a third of what was measured for 70 kinds of text, apart from some
	// that cost less, such as runs that never merge.
	work int
}

// The model of the work in a piece: so much per call, per byte, and per part the
// expression splits off, and for merging the bytes of each run.
const (
	workPerCall  = 2000
	workPerByte  = 100
	workPerSplit = 1600
)

// workToMerge models a run of n bytes between breaks: look-ups for each byte,
// unless the run is so short that it is likely to be a token itself, and a scan of
// all that is left for each merge.
func workToMerge(n int) int {
	if n <= 16 {
		return n * n
	}
	return n*n + workPerByte*n
}

// nextPiece returns the first piece of a text that is not empty. It ends at the
// last break in the first maxPiece bytes.
func nextPiece(s string) piece {
	var (
		p       piece         // up to the last break
		work    = workPerCall // up to here
		runFrom = 0           // start of the run since the last break
		prev    class         // of the rune before
		same    = 0           // how many runes of that class there are in a row
		half    = 0           // work up to runPiece
	)
	for i := 0; i < len(s) && i <= maxPiece; {
		c, size := classAt(s, i)
		if i > 0 {
			switch {
			case breaksBetween(prev, c), c == digit && prev == digit && same%3 == 0:
				work += workPerSplit + workToMerge(i-runFrom)
				p, runFrom = piece{size: i, work: work}, i
			case c == upper && prev == letter, c != prev && (same > 1 || prev == newline):
				work += workPerSplit
			}
		}
		if i <= runPiece {
			half = work
		}
		if c != prev {
			prev, same = c, 0
		}
		same++
		work += workPerByte * size
		i += size
	}
	if len(s) <= maxPiece {
		return piece{size: len(s), work: work + workPerSplit + workToMerge(len(s)-runFrom)}
	}
	if p.size == 0 {
		size := runeStart(s, runPiece)
		p = piece{size: size, forced: true, work: half + workPerSplit + workToMerge(size)}
	}
	return p
}

// runeStart returns the last index up to i at which a rune starts or s ends.
func runeStart(s string, i int) int {
	for i = min(i, len(s)); i > 0 && i < len(s) && !utf8.RuneStart(s[i]); {
		i--
	}
	return i
}

// class is what the two expressions tell apart in a rune.
type class byte

const (
	other class = iota // punctuation, symbols, controls, anything else
	letter
	upper // a letter too: o200k_base splits before one that follows another
	mark  // letters to o200k_base, symbols to cl100k_base
	digit
	apostrophe // starts a contraction
	slash      // may follow a newline within a part of o200k_base
	space
	newline
)

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	t['\''], t['/'], t['\r'], t['\n'] = apostrophe, slash, newline, newline
	return t
}()

func classOf(r rune) class {
	switch {
	case unicode.IsUpper(r), unicode.IsTitle(r):
		return upper
	case unicode.IsLetter(r):
		return letter
	case unicode.IsMark(r):
		return mark
	case unicode.IsNumber(r):
		return digit
	case unicode.IsSpace(r):
		return space
	}
	return other
}

func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	return classOf(r), size
}

// breaksBetween reports whether both expressions split between neighbours of
// classes a and b, whatever is around them, and match the same on each side when
// the other is not there. The rules follow from what a part may hold:
//
//   - numbers are apart, one to three together, counted from the first;
//   - a letter part may begin with one rune that is no letter, number or newline,
//     and may end with a contraction;
//   - a symbol part may begin with one space and end with newlines and slashes;
//   - space is one part up to its last newline, and else leaves its last rune to
//     what follows: so never cut after space that is not a newline.
func breaksBetween(a, b class) bool {
	switch a {
	case space:
		return false
	case newline:
		return b != space && b != newline && b != slash
	}
	switch b {
	case space:
		return true
	case digit:
		return a != digit
	case letter, upper, mark, apostrophe:
		return a == digit
	case newline, other, slash:
		return a == digit || a == letter || a == upper
	}
	return false
}
