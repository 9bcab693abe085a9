package estimator

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A text that fits the budget has the count of OpenAI's own tokenizer, unless a run of
// over 2048 bytes in it was cut.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for enc, model := range modelOf {
		e := newEstimator(t, Config{})
		for _, s := range corpus(t) {
			got, want := textTokens(t, e, model, s.Text), s.tokens(tokenizer(enc))
			if longRun := s.Class == "letters" || s.Class == "punct"; longRun && got.Method == Bound {
				if got.Input < want || got.Input > want+want/100 || got.Upper < want {
					t.Errorf("%s %.30q in %s: got %+v, want %d to 1 %% more", s.Class, s.Text, model, got, want)
				}
			} else if got.Input != want || got.Method != Exact || got.Upper != 0 {
				t.Errorf("%s %.30q in %s: got %+v, want %d", s.Class, s.Text, model, got, want)
			}
		}
	}
}

// Documents of two or three kinds of text, as real ones are.
func TestSamplingError(t *testing.T) {
	t.Parallel()
	e := newEstimator(t, Config{})
	seeded(t, e)
	r := rand.New(rand.NewPCG(uint64(e.randN(math.MaxInt64)), 1))
	c, err := o200k.load()
	if err != nil {
		t.Fatal(err)
	}
	texts := corpus(t)
	const documents, samples = 14, 14
	var off []float64
	var sum float64
	passed := 0
	for range documents {
		var doc strings.Builder
		kinds := r.Perm(len(texts))[:3]
		for size := 100_000 + r.IntN(50_000); doc.Len() < size; {
			doc.WriteString(texts[kinds[r.IntN(3)]].Text + "\n")
		}
		want, _ := c.count(doc.String())
		r := Request{embeddings: true, prompt: *promptOf(doc.String())}
		r.prompt.bare = true
		for range samples {
			got := measure(t, e, "gpt-4o", &r)
			if got.Method != Sampled {
				t.Fatalf("method %s for %d bytes", got.Method, doc.Len())
			}
			if got.Upper < int64(want) {
				passed++
			}
			x := float64(got.Input)/float64(want) - 1
			off = append(off, math.Abs(x))
			sum += x
		}
	}
	slices.Sort(off)
	n := len(off)
	t.Logf("mean error %+.2f %%; without sign p50 %.1f %%, p95 %.1f %%, p99 %.1f %%; %d of %d above the bound",
		100*sum/float64(n), 100*off[n/2], 100*off[n*95/100], 100*off[n*99/100], passed, n)
	if p95 := off[n*95/100]; p95 > .05 {
		t.Errorf("error %.1f %% at the 95th percentile, want 2", 100*p95)
	}
	if mean := sum / float64(n); math.Abs(mean) > .015 {
		t.Errorf("mean error %.1f %%, want about 0", 100*mean)
	}
	if passed > n/50 {
		t.Errorf("%d of %d above the bound, want 1 in 100 at most", passed, n)
	}
}

// Texts of few tokens with some of very many in them: the bound must hold even when
// no slice has met those.
func TestSamplingBound(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const size, block, samples = 1 << 20, 256, 1000
	for _, share := range []float64{.001, .005, .01, .02, .03, .05, .1, .3, .9} {
		b := []byte(strings.Repeat("a", size))
		for i := 0; i < size; i += block {
			if r.Float64() < share {
				copy(b[i:], strings.Repeat("1", block))
			}
		}
		text := string(b)
		want := strings.Count(text, "1")
		m := newMeter(onesCounter{}, newView(), true, 1)
		m.add(text)
		passed := 0
		for range samples {
			if _, upper := m.sample(promptOf(text), r.Int64N); upper < int64(want) {
				passed++
			}
		}
		// 1 in 100, and three standard deviations.
		if passed > samples/100+9 {
			t.Errorf("%v of the text is dense: %d of %d samples have a bound that is too low", share, passed, samples)
		}
	}
}

// onesCounter counts the ones in a text.
type onesCounter struct{}

func (onesCounter) count(text string) (int, bool) { return strings.Count(text, "1"), false }

// A text that is dense except where evenly spaced slices would look.
func TestSamplingCannotBeFooled(t *testing.T) {
	e := newEstimator(t, Config{})
	seeded(t, e)
	const size = 400_000
	b := []byte(strings.Repeat("1\n", size/2)) // a token per byte
	for i := range draws {
		at := (2*i + 1) * size / (2 * draws) // the middle of each stretch
		copy(b[at-128:], strings.Repeat(" ", 256))
	}
	got := textTokens(t, e, "gpt-4o", string(b)).Input
	if want := int64(size - draws*256); got < want*9/10 {
		t.Errorf("estimated %d tokens, %d are there", got, want)
	}
}

// Half of the bytes are one long text of few tokens, half are messages of one
// letter: what is short weighs as much as what is long.
func TestSamplingWeighsShortTexts(t *testing.T) {
	const half = 200_000
	texts := []string{strings.Repeat("a", half)} // four bytes a token, by the fake counter
	for range half {
		texts = append(texts, "a")
	}
	m := newMeter(&fakeCounter{}, newView(), true, len(texts))
	m.bytes = 0
	for _, s := range texts {
		m.add(s)
	}
	p := promptOf(texts...)
	r := rand.New(rand.NewPCG(1, 2))
	sum := int64(0)
	for range 50 {
		n, _ := m.sample(p, r.Int64N)
		sum += n
	}
	want := float64(half/4 + half)
	if got := float64(sum) / 50; math.Abs(got-want) > want/50 {
		t.Errorf("got %.0f on average, want %.0f", got, want)
	}
}

// A rest that is no more than the slices is counted.
func TestSmallRestIsCounted(t *testing.T) {
	m := newMeter(&fakeCounter{}, newView(), true, 4)
	texts := []string{strings.Repeat("a", exactBytes), "bbbb", strings.Repeat("c", 1000), "dd"}
	for _, s := range texts {
		m.add(s)
	}
	if n, upper := m.sample(promptOf(texts...), nil); m.tokens != exactBytes/4 || n != 1+250+1 || upper != n {
		t.Errorf("counted %d, and %d to %d of the rest", m.tokens, n, upper)
	}
}

// The slices of a text cover it without overlap, whichever byte asks.
func TestSlicesPartitionText(t *testing.T) {
	m := newMeter(&fakeCounter{}, newView(), true, 0)
	for _, s := range []string{
		"a", strings.Repeat("a", sliceBytes), strings.Repeat("a", 5*sliceBytes+1),
		strings.Repeat("one, two. ", 100), strings.Repeat("中文", 200), strings.Repeat("😀 1\n", 277),
	} {
		for _, size := range []int{sliceBytes, foreignSliceBytes} {
			m.slice = size
			var parts []string
			for from := 0; from < len(s); {
				p := m.sliceAt(s, from)
				for i := from; i < from+len(p); i++ {
					if got := m.sliceAt(s, i); got != p {
						t.Fatalf("bytes %d and %d of one slice are in %q and %q", from, i, p, got)
					}
				}
				if len(p) > size+sliceSlack || !utf8.ValidString(p) {
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
}
