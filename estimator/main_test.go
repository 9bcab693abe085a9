package estimator

import (
	"encoding/json"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEstimator(t testing.TB, cfg Config) *Estimator {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// seeded makes the places of slices repeatable, and prints the seed.
func seeded(t testing.TB, e *Estimator) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e.randN = rand.New(rand.NewPCG(seed, 0)).Int64N
}

func parseChat(t testing.TB, body string) *Request {
	t.Helper()
	r, err := ParseChat([]byte(body))
	if err != nil {
		t.Fatalf("ParseChat(%.200s): %v", body, err)
	}
	return r
}

func measure(t testing.TB, e *Estimator, model string, r *Request) Result {
	t.Helper()
	res, err := e.Measure(model, r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// chatTokens returns the input of the chat with these messages, as JSON.
func chatTokens(t testing.TB, e *Estimator, model, messages string) int64 {
	t.Helper()
	return measure(t, e, model, parseChat(t, `{"messages":`+messages+`}`)).Input
}

// textTokens returns the tokens of a text alone.
func textTokens(t testing.TB, e *Estimator, model, text string) job.Estimate {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input": text})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseEmbeddings(body)
	if err != nil {
		t.Fatal(err)
	}
	return measure(t, e, model, r).Estimate
}

// modelOf is a model for each encoding.
var modelOf = [...]string{o200k: "gpt-4o", cl100k: "gpt-4"}

func readJSON(t testing.TB, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

type sampleText struct {
	Class, Text   string
	O200k, Cl100k int64
}

func (s sampleText) tokens(e tokenizer) int64 {
	if e == cl100k {
		return s.Cl100k
	}
	return s.O200k
}

func corpus(t testing.TB) (texts []sampleText) {
	t.Helper()
	b, err := os.ReadFile("testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var s sampleText
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, s)
	}
	return texts
}

// fakeCounter counts a token per four bytes, and what it was handed.
type fakeCounter struct{ calls, bytes, longest int }

func (c *fakeCounter) count(text string) (int, bool) {
	c.calls++
	c.bytes += len(text)
	c.longest = max(c.longest, len(text))
	return (len(text) + 3) / 4, false
}

func withCounter(e *Estimator, c counter) *Estimator {
	e.load = func(tokenizer) (counter, error) { return c, nil }
	return e
}

// newView returns an empty memo.
func newView() view { return view{new(memo), maphash.MakeSeed()} }

// promptOf returns a prompt of texts that are not empty.
func promptOf(texts ...string) *prompt {
	p := &prompt{text: strings.Join(texts, "")}
	end := 0
	for _, s := range texts {
		end += len(s)
		p.ends = append(p.ends, end)
	}
	return p
}
