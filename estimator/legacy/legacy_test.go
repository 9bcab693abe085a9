package legacy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/estimator/legacy"
)

func TestCount(t *testing.T) {
	r50k, err := legacy.New("r50k_base")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("What goes up must come down. ", 30)
	for text, want := range map[string]int{
		"":            0,
		"お誕生日おめでとう":   14, // openai/openai-cookbook, How_to_count_tokens_with_tiktoken.ipynb
		"hello world": 2,
		long:          30*7 + 1,
	} {
		if got := r50k.Count(text); got != want {
			t.Errorf("%.20q: %d tokens, want %d", text, got, want)
		}
	}
	// A hundred kilobytes of one letter would take 11 s in one go.
	if got := r50k.Count(strings.Repeat("a", 100_000)); got < 100_000/16 || got > 100_000/2 {
		t.Errorf("%d tokens", got)
	}
	if got := r50k.Count(strings.Repeat("中", 1000)); got < 1000 || got > 3000 {
		t.Errorf("%d tokens", got)
	}
	if _, err := legacy.New("r2d2"); err == nil || !strings.HasPrefix(err.Error(), "legacy: ") {
		t.Errorf("got %v", err)
	}
}

// Where a text is cut at a space, the count is that of the whole.
func TestCutsChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("The quick brown fox, 12 don't know 3.5% of it; 中文 (brackets) naïve x=y U.S.A. www.example.com \"quoted\"")
	for _, name := range []string{"p50k_base", "r50k_base"} {
		e, err := legacy.New(name)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := tiktoken.GetEncoding(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			var b strings.Builder
			for b.Len() < 1500 {
				b.WriteString(words[r.IntN(len(words))] + strings.Repeat(" ", 1+r.IntN(8)/7) + strings.Repeat("\n", r.IntN(10)/9))
			}
			if got, want := e.Count(b.String()), len(whole.EncodeOrdinary(b.String())); got != want {
				t.Errorf("%s: %d tokens, want %d: %q", name, got, want, b.String())
			}
		}
	}
}

func Example() {
	p50k, err := legacy.New("p50k_base")
	if err != nil {
		panic(err)
	}
	e, err := estimator.New(estimator.Config{Counters: map[string]estimator.Counter{"text-davinci": p50k}})
	if err != nil {
		panic(err)
	}
	r, err := estimator.ParseChat([]byte(`{"model":"text-davinci-003","prompt":"Once upon a time"}`))
	if err != nil {
		panic(err)
	}
	res, err := e.Measure("", r)
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Input, res.Method)
	// Output: 4 exact
}
