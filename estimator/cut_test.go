package estimator

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkPieces checks how a text is cut, and that counting the pieces is counting
// the text, or never less where a run was cut.
func checkPieces(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		return
	}
	var pieces []string
	forced := 0
	for left := text; len(left) > 0; {
		p := nextPiece(left)
		if p.size <= 0 || p.size > maxPiece || p.size > len(left) {
			t.Fatalf("piece of %d bytes, %d are left", p.size, len(left))
		}
		if p.forced {
			forced++
		}
		if p.size < len(left) && !utf8.RuneStart(left[p.size]) {
			t.Fatalf("cut inside a rune at %q", left[:p.size+1])
		}
		if p.work < p.size*workPerByte {
			t.Fatalf("work %d for %d bytes", p.work, p.size)
		}
		pieces = append(pieces, left[:p.size])
		left = left[p.size:]
	}
	if strings.Join(pieces, "") != text {
		t.Fatal("the pieces are not the text")
	}
	if len(text) > 2048 {
		return // the oracle is quadratic
	}
	for enc := range encodings {
		c, err := loadCounter(enc)
		if err != nil {
			t.Fatal(err)
		}
		got, want := forced*cutTokens, c.count(text)
		for _, p := range pieces {
			got += c.count(p)
		}
		if forced == 0 && got != want || got < want {
			t.Errorf("%v: %d tokens in %d pieces, %d forced, want %d: %q", enc, got, len(pieces), forced, want, text)
		}
	}
}

// Where breaksBetween says so, the two sides count as much apart as together,
// for every pair of classes and whatever is around them.
func TestBreaksBetween(t *testing.T) {
	t.Parallel()
	runes := []string{"a", "Z", "é", "Σ", "ǅ", "中", "ª", "ʰ", "ſ", "1", "٣", "½", "\u0301", "\u093f", "'", "’", "/",
		".", "-", "😀", "\u200d", "\x00", " ", "\t", "\u00a0", "\u2028", "\v", "\n", "\r"}
	around := append([]string{"", "s", "ll", ";", " ;", "\n\n", "  ", "12", "x"}, runes...)
	r := rand.New(rand.NewPCG(1, 2))
	for enc := range encodings {
		c, err := loadCounter(enc)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range runes {
			for _, b := range runes {
				classA, _ := classAt(a, 0)
				classB, _ := classAt(b, 0)
				if !breaksBetween(classA, classB) {
					continue
				}
				for range 5 {
					left := around[r.IntN(len(around))] + around[r.IntN(len(around))] + a
					right := b + around[r.IntN(len(around))] + around[r.IntN(len(around))]
					if got, want := c.count(left)+c.count(right), c.count(left+right); got != want {
						t.Errorf("%v: %q and %q are %d tokens apart, %d together", enc, left, right, got, want)
					}
				}
			}
		}
	}
	// The counts do not show every mistake. Nor may the breaks of nearly every word
	// and line be lost.
	for want, pairs := range map[bool][]string{
		true:  {"a ", "a.", "1 ", ". ", "a1", "1a", "1'", "\na", "\n1", "\n.", ".1", "中。", "a\n", "\u093f "},
		false: {"t'", "'s", " a", " 1", " .", "\n ", "\n/", ".\n", ".a", ".'", "\u093fत", "त\u093f", "e\u0301", "\u0301.", "aB"},
	} {
		for _, pair := range pairs {
			a, n := classAt(pair, 0)
			if b, _ := classAt(pair, n); breaksBetween(a, b) != want {
				t.Errorf("break in %q: %v", pair, !want)
			}
		}
	}
}

func TestCutRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, alphabet := range []string{
		"abcdefghij  ", "aAbB", "a1", "1", "12 ", "a'sStTlL ", ".,/\n", " \n\r\t", " ", "a.\n /", "中文。，a1 ",
		"e\u0301\u093f .", "<|endoftext|>", "яЯ1 ", "😀\u200d👩 a", "abc\u00a0\u3000 ", "=-*", "{\"a\":[1,2]}\n  ",
		"中文", "\u0301中", "😀\u200d",
	} {
		runes := []rune(alphabet)
		for range 2 {
			var s strings.Builder
			for n := 520 + r.IntN(700); s.Len() < n; {
				s.WriteString(strings.Repeat(string(runes[r.IntN(len(runes))]), 1+r.IntN(3)))
			}
			checkPieces(t, s.String())
		}
	}
}

func TestCutCorpus(t *testing.T) {
	t.Parallel()
	for _, s := range corpus(t) {
		checkPieces(t, s.Text[:runeStart(s.Text, 700)])
	}
}

// The slices of a text cover it without overlap, whichever byte asks.
func TestSlicesPartitionText(t *testing.T) {
	for _, s := range []string{
		"", "a", strings.Repeat("a", sliceBytes), strings.Repeat("a", 5*sliceBytes+1),
		strings.Repeat("one, two. ", 100), strings.Repeat("中文", 200), strings.Repeat("😀 1\n", 77),
	} {
		var parts []string
		for from := 0; from < len(s); {
			p := sliceAt(s, from)
			for i := from; i < from+len(p); i++ {
				if got := sliceAt(s, i); got != p {
					t.Fatalf("bytes %d and %d of one slice are in %q and %q", from, i, p, got)
				}
			}
			if len(p) > sliceBytes+sliceSlack || !utf8.ValidString(p) {
				t.Fatalf("slice %q", p)
			}
			parts = append(parts, p)
			from += len(p)
		}
		if strings.Join(parts, "") != s {
			t.Fatalf("the slices of %.20q are not the text", s)
		}
	}
}

func FuzzCutPieces(f *testing.F) {
	for _, s := range []string{"it's 1234567 o'clock\n\n  ok/", strings.Repeat("a", 600), strings.Repeat(" \n", 300),
		strings.Repeat("1234567", 100) + "a", strings.Repeat("中。", 200), strings.Repeat("\u0301", 400), "\xff\xfe"} {
		f.Add(s, uint16(1))
		f.Add(s, uint16(90))
	}
	f.Fuzz(func(t *testing.T, s string, times uint16) {
		if len(s) > 2000 {
			return
		}
		s = strings.ToValidUTF8(s, "\ufffd")
		checkPieces(t, strings.Repeat(s, 1+int(times)%(1+2000/max(1, len(s)))))
	})
}
