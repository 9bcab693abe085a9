package bpe

import "unicode/utf8"

// Script is a group of writing systems. Other vocabularies have more or fewer tokens
// than these encodings by very different factors from one group to the next.
type Script int

// The groups, by their blocks in Unicode.
const (
	ASCII     Script = iota // and punctuation, symbols and arrows up to U+2DFF
	Digits                  // numbers, which some vocabularies take one by one
	Latin                   // letters of Latin beyond ASCII
	Alphabets               // Greek, Cyrillic, Armenian, Hebrew, Arabic and others up to U+08FF
	Han                     // and the punctuation of East Asia
	Kana                    // Hiragana and Katakana
	Hangul                  //
	Indic                   // Devanagari to Thai, Tibetan and Mongolian, and others up to U+1CFF
	Astral                  // all above U+FFFF, such as emoji
	Scripts                 // their number
)

// Tally is a count by script. A piece of more than one script is divided by the bytes
// that are not ASCII. The zero Tally is empty.
type Tally struct {
	Tokens [Scripts]float64
	// Digits is the number of digits that the tokens of Tokens[Digits] hold.
	Digits int
}

func (t *Tally) add(piece string, tokens int) {
	if c, _ := classAt(piece, 0); c == number {
		t.Tokens[Digits] += float64(tokens)
		t.Digits += utf8.RuneCountInString(piece)
		return
	}
	var bytes [Scripts]int
	total := 0
	for i := 0; i < len(piece); {
		if piece[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(piece[i:])
		bytes[scriptOf(r)] += size
		total += size
		i += size
	}
	if total == 0 {
		t.Tokens[ASCII] += float64(tokens)
		return
	}
	for s, n := range bytes {
		t.Tokens[s] += float64(tokens*n) / float64(total)
	}
}

// scriptEnds are the last runes of blocks, in their order. What lies between named
// blocks goes with the block after it.
var scriptEnds = [...]struct {
	last   rune
	script Script
}{
	{0x02ff, Latin}, {0x08ff, Alphabets}, {0x10ff, Indic}, {0x11ff, Hangul}, {0x1cff, Indic}, {0x1dff, Alphabets},
	{0x1eff, Latin}, {0x1fff, Alphabets}, {0x2dff, ASCII}, {0x303f, Han}, {0x30ff, Kana}, {0x312f, Han}, {0x318f, Hangul},
	{0x31ef, Han}, {0x31ff, Kana}, {0xa4cf, Han}, {0xabff, Indic}, {0xd7ff, Hangul}, {0xf8ff, ASCII}, {0xfaff, Han},
	{0xfb4f, Alphabets}, {0xfdff, Alphabets}, {0xfe2f, ASCII}, {0xfe6f, Han}, {0xfeff, Alphabets}, {0xff64, Han},
	{0xff9f, Kana}, {0xffdf, Hangul}, {0xffff, ASCII},
}

func scriptOf(r rune) Script {
	for _, b := range scriptEnds {
		if r <= b.last {
			return b.script
		}
	}
	return Astral
}
