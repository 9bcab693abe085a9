package estimator

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// A text that fits the budget has the count of OpenAI's own tokenizer; one with a
// run that was cut has a little more.
func TestCorpus(t *testing.T) {
	t.Parallel()
	cut := 0
	for enc, model := range modelOf {
		e := newEstimator(t, Config{})
		for _, s := range corpus(t) {
			want := s.tokens(encoding(enc))
			switch got := textTokens(t, e, model, s.Text); got.Method {
			case Exact:
				if got.Input != want {
					t.Errorf("%s %.30q in %s: got %d, want %d", s.Class, s.Text, model, got.Input, want)
				}
			case Bound:
				cut++
				if got.Input < want || got.Input > want+want/33 || got.Upper < want {
					t.Errorf("%s %.30q in %s: got %+v, want %d to 3 %% more", s.Class, s.Text, model, got, want)
				}
			default:
				t.Errorf("%s %.30q in %s: method %s for %d bytes", s.Class, s.Text, model, got.Method, len(s.Text))
			}
		}
	}
	if cut == 0 {
		t.Error("no text was cut: the corpus should hold long runs")
	}
}

// cached keeps the tests of sampling short: the slices of a text are few.
type cached struct {
	counter
	known map[string]int
}

func (c cached) count(s string) int {
	n, ok := c.known[s]
	if !ok {
		n = c.counter.count(s)
		c.known[s] = n
	}
	return n
}

func TestSamplingError(t *testing.T) {
	t.Parallel()
	c, err := loadCounter(o200k)
	if err != nil {
		t.Fatal(err)
	}
	e := withCounter(newEstimator(t, Config{}), cached{c, map[string]int{}})
	seeded(t, e)
	r := rand.New(rand.NewPCG(uint64(e.randN(math.MaxInt64)), 1))
	texts := corpus(t)
	const documents, draws = 8, 4
	sum, square := 0.0, 0.0
	for range documents {
		// Parts of a document are of two or three kinds, as real ones are. A newline
		// between them is at most one token.
		var doc strings.Builder
		want := int64(0)
		kinds := r.Perm(len(texts))[:3]
		for doc.Len() < 150_000 {
			s := texts[kinds[r.IntN(3)]]
			doc.WriteString(s.Text + "\n")
			want += s.O200k + 1
		}
		for range draws {
			got := textTokens(t, e, "gpt-4o", doc.String())
			if got.Method != Sampled {
				t.Fatalf("method %s for %d bytes", got.Method, doc.Len())
			}
			if got.Upper < want {
				t.Errorf("upper %d, exact %d", got.Upper, want)
			}
			off := float64(got.Input-want) / float64(want)
			if math.Abs(off) > 0.25 {
				t.Errorf("estimated %d of %d", got.Input, want)
			}
			sum, square = sum+off, square+off*off
		}
	}
	n := float64(documents * draws)
	t.Logf("mean error %+.2f %%, root mean square %.2f %%", 100*sum/n, 100*math.Sqrt(square/n))
	if rms := math.Sqrt(square / n); rms > 0.06 {
		t.Errorf("root mean square error %.1f %%, want 2 to 3", 100*rms)
	}
	if mean := sum / n; math.Abs(mean) > 0.04 {
		t.Errorf("mean error %.1f %%, want about 0", 100*mean)
	}
}

// A text that is dense except where evenly spaced slices would look.
func TestSamplingCannotBeFooled(t *testing.T) {
	e := newEstimator(t, Config{})
	seeded(t, e)
	const size = 400_000
	b := []byte(strings.Repeat("1\n", size/2)) // a token per byte
	for i := range slices {
		at := (2*i + 1) * size / (2 * slices) // the middle of each stretch
		copy(b[at-128:], strings.Repeat(" ", 256))
	}
	got := textTokens(t, e, "gpt-4o", string(b)).Input
	if want := int64(size - slices*256); got < want*9/10 {
		t.Errorf("estimated %d tokens, %d are there", got, want)
	}
}

// Half of the bytes are one long text of few tokens, half are messages of one
// letter: what is short weighs as much as what is long.
func TestSamplingWeighsShortTexts(t *testing.T) {
	const half = 200_000
	m := newMeter(&fakeCounter{}, newMemo(), false)
	m.leave(strings.Repeat("a", half)) // four bytes a token, by the fake counter
	for range half {
		m.leave("a")
	}
	r := rand.New(rand.NewPCG(1, 2))
	sum := int64(0)
	for range 50 {
		sum += m.sample(r.Int64N)
	}
	want := float64(half/4 + half)
	if got := float64(sum) / 50; math.Abs(got-want) > want/50 {
		t.Errorf("got %.0f on average, want %.0f", got, want)
	}
}
