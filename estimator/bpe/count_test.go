package bpe

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

// The embedded vocabularies are those of tiktoken.
func TestVocabularies(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		want, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
		if err != nil {
			t.Fatal(err)
		}
		v := encodingOf(t, name).vocabulary
		if len(v.key) != len(want) {
			t.Errorf("%s: %d tokens, want %d", name, len(v.key), len(want))
		}
		for token, rank := range want {
			if got := v.rank(token); got != uint32(rank) {
				t.Fatalf("%s: token %q has rank %d, want %d", name, token, got, rank)
			}
			other := token + "\x00"
			if _, ok := want[other]; !ok && v.rank(other) != none {
				t.Fatalf("%s: %q is no token", name, other)
			}
		}
	}
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		for _, s := range corpus(t) {
			if got, want := encodingOf(t, name).Count(s.Text), s.tokens(name); got != want {
				t.Errorf("%s: %s %.30q: %d tokens, want %d", name, s.Class, s.Text, got, want)
			}
		}
	}
}

// The counts that public sources state; a tenth of a megabyte of one letter is enough.
func TestPublishedCounts(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Text []struct {
			Enc, In, Repeat string
			N, Tokens       int
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, v := range file.Text {
		if v.Enc == "r50k_base" {
			continue
		}
		tested++
		if v.N >= 1_000_000 {
			v.N, v.Tokens = v.N/10, (v.Tokens+9)/10
		}
		text := v.In + strings.Repeat(v.Repeat, v.N)
		if got := encodingOf(t, v.Enc).Count(text); got != v.Tokens {
			t.Errorf("%s: %.20q: %d tokens, want %d", v.Enc, text, got, v.Tokens)
		}
	}
	if tested < 19 {
		t.Errorf("tested %d counts, want 19", tested)
	}
}

func TestRandomTexts(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		compare(t, names[r.IntN(2)], randomText(r, 1+r.IntN(100)))
	}
	for range 600 {
		b := make([]rune, 1+r.IntN(30))
		for i := range b {
			b[i] = rune(r.IntN(1 << (3 + r.IntN(15))))
		}
		compare(t, names[r.IntN(2)], strings.ToValidUTF8(string(b), ""))
	}
}

// Each rune alone, before and after a letter.
func TestRunes(t *testing.T) {
	t.Parallel()
	for r := rune(0); r < 0x3400; r += 5 {
		text := "A" + string(r) + "b" + string(r)
		compare(t, names[r%2], text+" "+text)
	}
}

// The two ways to merge agree, whatever the length.
func TestMergesAgree(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		v := encodingOf(t, name).vocabulary
		for range 2000 {
			s := randomText(r, 2+r.IntN(maxScan-5))
			s = s[:min(len(s), maxScan)]
			if a, b := v.scan(s), v.tournament(s); a != b {
				t.Fatalf("%s: %d tokens by a scan, %d by a tournament: %q", name, a, b, s)
			}
		}
		for range 5 {
			compare(t, name, strings.ReplaceAll(randomText(r, 700), " ", ""))
		}
	}
}

func TestCountCut(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	letters := make([]byte, 20_000)
	for i := range letters {
		letters[i] = byte('a' + r.IntN(26))
	}
	e := encodingOf(t, "o200k_base")
	for _, text := range []string{
		strings.Repeat("a", 20_000), strings.Repeat("中", 5_000), string(letters), strings.Repeat("=-", 10_000),
		strings.Repeat("\xa0", 5_000), strings.Repeat("\u0301", 5_000), strings.Repeat(" ", 4_000) + "a",
	} {
		exact := e.Count(text)
		got, cut := e.CountCut(text, 512)
		if !cut || got < exact || float64(got) > 1.03*float64(exact)+1 && text[0] != ' ' {
			t.Errorf("%.10q: %d tokens, cut %v, exactly %d", text, got, cut, exact)
		}
		if got, cut := e.CountCut(text, len(text)); cut || got != exact {
			t.Errorf("%.10q: %d tokens, cut %v, want %d", text, got, cut, exact)
		}
	}
	if n, cut := e.CountCut("", 1); n != 0 || cut {
		t.Errorf("empty: %d %v", n, cut)
	}
}

func TestTokensAreAtMostBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, r.IntN(100))
		for i := range b {
			b[i] = byte(r.Uint32()) // mostly not UTF-8
		}
		for _, name := range names {
			n := encodingOf(t, name).Count(string(b))
			if n > len(b) || n == 0 && len(b) > 0 {
				t.Fatalf("%s: %d tokens in %d bytes", name, n, len(b))
			}
		}
	}
}

func TestCountDoesNotAllocate(t *testing.T) {
	e := encodingOf(t, "o200k_base")
	text := strings.Repeat("What goes up must come down. 中文分词，", 50)
	if n := testing.AllocsPerRun(100, func() { e.Count(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Pieces of all lengths at once: the memory of merges is shared.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	e := encodingOf(t, "cl100k_base")
	texts := []string{strings.Repeat("a", 700), strings.Repeat("中国", 90), strings.Repeat("=-", 1500), "word"}
	var want []int
	for _, text := range texts {
		want = append(want, e.Count(text))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 40 {
				if got := e.Count(texts[i%len(texts)]); got != want[i%len(texts)] {
					t.Errorf("%d tokens, want %d", got, want[i%len(texts)])
				}
			}
		})
	}
	wg.Wait()
}

// A binary grows by little more than this.
func TestEmbeddedSize(t *testing.T) {
	if n := len(o200kData) + len(cl100kData); n > 1_600_000 {
		t.Errorf("%d bytes are embedded, want at most 1.6 MB", n)
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	e := encodingOf(t, "o200k_base")
	for text, want := range map[string]Script{
		"hello, “world” — it’s": ASCII, "123": Digits, "é": Latin, "ế": Latin, " привет": Alphabets, "שלום": Alphabets,
		"مرحبا": Alphabets, "中文。": Han, "かな": Kana, "한국어": Hangul, "नमस्ते": Indic, "ไทย": Indic, "😀": Astral, "𑄇": Astral,
	} {
		var tally Tally
		e.Tally(text, maxKept, &tally)
		n := float64(e.Count(text))
		for s, got := range tally.Tokens {
			if Script(s) == want && got != n || Script(s) != want && got != 0 {
				t.Errorf("%q: %v of %v tokens in script %d, want them in %d", text, got, n, s, want)
			}
		}
	}
	var tally Tally
	for _, s := range corpus(t) {
		e.Tally(s.Text, math.MaxInt, &tally)
	}
	sum := 0.
	for _, n := range tally.Tokens {
		sum += n
	}
	want := 0
	for _, s := range corpus(t) {
		want += s.O200k
	}
	if math.Abs(sum-float64(want)) > .01 {
		t.Errorf("%v tokens in all scripts, want %d", sum, want)
	}
	tally = Tally{}
	e.Tally("12345 678 ٣", maxKept, &tally)
	if tally.Digits != 9 {
		t.Errorf("%d digits, want 9", tally.Digits)
	}
}

func TestDamagedData(t *testing.T) {
	for _, data := range []string{"", "\x01", "\x01\x02a", "\x00\x01a", "\x01\x01abc"} {
		if _, err := newVocabulary(data, 2); err == nil {
			t.Errorf("%q was accepted", data)
		}
	}
	if _, err := load("x", splitO200k, "not deflated", 5); err == nil || !strings.HasPrefix(err.Error(), "bpe: load x: ") {
		t.Errorf("got %v", err)
	}
}

func fuzz(f *testing.F, name string) {
	for _, a := range alphabets {
		f.Add(a, uint8(1))
		f.Add(a, uint8(9))
	}
	for _, s := range []string{"it's 1234567 o'clock\n\n  ok/", "don'T he'LL we'Ve", "\xff\xfe", "A\u0301B", " \u0301Ab", "aſ's'ſ"} {
		f.Add(s, uint8(2))
	}
	f.Fuzz(func(t *testing.T, s string, times uint8) {
		if n := encodingOf(t, name).Count(s); n > len(s) || n == 0 && s != "" {
			t.Errorf("%d tokens in %d bytes", n, len(s))
		}
		s = strings.Repeat(strings.ToValidUTF8(s, "\ufffd"), 1+int(times)%16)
		if len(s) > 600 {
			s = s[:600]
			for !utf8.ValidString(s) {
				s = s[:len(s)-1]
			}
		}
		compare(t, name, s)
	})
}

func FuzzO200k(f *testing.F)  { fuzz(f, "o200k_base") }
func FuzzCl100k(f *testing.F) { fuzz(f, "cl100k_base") }
