package bpe

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the two expressions tell apart in a rune. Each is a bit, so that a
// set of classes is a mask.
type class uint8

const (
	upper    class = 1 << iota // Lu, Lt
	lower                      // Ll
	caseless                   // Lm, Lo
	mark                       // M
	number                     // N
	space                      // white space, apart from
	newline                    // \r and \n
	other                      // punctuation, symbols, controls, what is not assigned

	letter = upper | lower | caseless
)

// ascii holds the classes of the runes of one byte.
var ascii = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

func classOf(r rune) class {
	switch {
	case r == '\r', r == '\n':
		return newline
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.IsLetter(r):
		return caseless
	case unicode.IsMark(r):
		return mark
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// wide holds the classes of all runes, in blocks of 256 of which the equal ones are
// one: 43 KB. The range tables of package unicode are searched, which takes ten
// times as long as all else for a rune of Chinese.
var wide struct {
	once  sync.Once
	block [unicode.MaxRune>>8 + 1]uint16
	class [][256]class
}

func loadClasses() {
	all := make([]class, unicode.MaxRune+1)
	for i := range all {
		all[i] = other
	}
	for _, t := range []struct {
		table *unicode.RangeTable
		class class
	}{
		{unicode.Lu, upper}, {unicode.Lt, upper}, {unicode.Ll, lower}, {unicode.Lm, caseless}, {unicode.Lo, caseless},
		{unicode.M, mark}, {unicode.N, number}, {unicode.White_Space, space},
	} {
		fill := func(lo, hi, stride rune) {
			for r := lo; r <= hi; r += stride {
				all[r] = t.class
			}
		}
		for _, r := range t.table.R16 {
			fill(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.table.R32 {
			fill(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	known := map[[256]class]uint16{}
	for i := range wide.block {
		block := [256]class(all[i<<8:])
		n, ok := known[block]
		if !ok {
			n = uint16(len(wide.class))
			known[block] = n
			wide.class = append(wide.class, block)
		}
		wide.block[i] = n
	}
}

// classAt returns the class of the rune at i and its size in bytes.
func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	return wideAt(s, i)
}

func wideAt(s string, i int) (class, int) {
	r, size := utf8.DecodeRuneInString(s[i:])
	return wide.class[wide.block[r>>8]][r&0xff], size
}
