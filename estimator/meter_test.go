package estimator

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// hostile are texts that are hard on the counter, most of them from public
// reports of tokenizers that never came back.
func hostile(size int) map[string]string {
	r := rand.New(rand.NewPCG(1, 2))
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	random := func(alphabet string) string {
		var b strings.Builder
		for a := []rune(alphabet); b.Len() < size; {
			b.WriteRune(a[r.IntN(len(a))])
		}
		return b.String()
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return map[string]string{
		"a":               repeat("a"), // openai/tiktoken#195, openai/harmony#93
		"spaces":          repeat(" "),
		"newlines":        repeat("\n"),
		"space newline":   repeat(" \n"),
		"carets":          repeat("^"),     // openai/tiktoken#15, #245
		"one word":        random(letters), // yethee/tiktoken-php#25
		"mixed case":      repeat("aA"),
		"punctuation":     random("!@#$%^&*()_+-=[]{}|;:,.<>?/~`"),
		"one Han":         repeat("中"),
		"Han":             random("的一是在不了有和人这中大为上个国我以要他"),
		"combining marks": repeat("\u0301"),
		"emoji joined":    repeat("👩\u200d"),
		"bad bytes":       repeat("\xff"),
		"digits":          repeat("1234567890"),
		"special token":   repeat("<|endoftext|>"),
		"digit newline":   repeat("1\n"), // gptscript-ai/gptscript#942: a token per byte
		"letter digit":    repeat("a1"),
		"indent":          repeat("   a"),
		"tab newline":     repeat("\t\n a"),
		"long words":      repeat(strings.Repeat("x", 510) + " "),
		"base64":          random(letters + strings.ToUpper(letters) + "0123456789+/"),
		"longest pieces":  repeat(random(letters)[:min(maxPiece, size)] + " "),
		"prose":           repeat("The quick brown fox jumps over the lazy dog, and then it went home to rest. "),
	}
}

// chatOf returns the body of a chat that sends a text in messages of size bytes.
func chatOf(t testing.TB, text string, size int) []byte {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var body struct {
		Messages []message `json:"messages"`
	}
	for ; len(text) > size; text = text[size:] {
		body.Messages = append(body.Messages, message{"user", text[:size]})
	}
	body.Messages = append(body.Messages, message{"user", text})
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// maxCounted is what is counted of a request that is not known, in bytes.
const maxCounted = exactBytes + draws*(sliceBytes+sliceSlack)

// Whatever is in a text of 256 KiB, a bounded amount of it is counted.
func TestHostileTextIsBounded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for name, text := range hostile(1 << 18) {
		text = string(appendValid(nil, []byte(text)))
		for _, size := range []int{len(text), 60_000, 40} {
			c := &fakeCounter{}
			m := newMeter(c, newView(), true, len(text))
			var texts []string
			for from := 0; from < len(text); {
				to := min(from+size, len(text))
				for to < len(text) && !utf8.RuneStart(text[to]) {
					to--
				}
				texts = append(texts, text[from:to])
				m.add(text[from:to])
				from = to
			}
			n, upper := m.sample(promptOf(texts...), r.Int64N)
			n, upper = n+m.tokens, upper+m.upper
			if c.bytes > maxCounted {
				t.Errorf("%s by %d: counted %d bytes", name, size, c.bytes)
			}
			// The fake counter needs a token for four bytes, and one for less.
			if least, most := int64(len(text)/4), int64(len(text)); n < least || n > upper || upper > most {
				t.Errorf("%s by %d: %d to %d tokens in %d bytes", name, size, n, upper, len(text))
			}
		}
	}
}

// Bodies that are all structure.
func TestHostileShapesAreBounded(t *testing.T) {
	t.Parallel()
	fill := func(before, unit, after string) string {
		return before + strings.TrimSuffix(strings.Repeat(unit, (1<<18)/len(unit)), ",") + after
	}
	for name, body := range map[string]string{
		"empty messages": fill(`{"messages":[`, `{},`, `]}`),
		"nulls":          fill(`{"messages":[`, `null,`, `]}`),
		"duplicate keys": fill(`{"messages":[{`, `"content":"a",`, `}]}`),
		"parts":          fill(`{"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"},`, `]}]}`),
		"strings":        fill(`{"messages":[{"role":"user","content":[`, `"a",`, `]}]}`),
		"images":         fill(`{"messages":[{"role":"user","content":[`, `{"type":"image_url"},`, `]}]}`),
		"unknown parts":  fill(`{"messages":[{"role":"user","content":[`, `{"type":"x","y":"z"},`, `]}]}`),
		"calls":          fill(`{"messages":[{"role":"assistant","tool_calls":[`, `{"function":{"name":"f"}},`, `]}]}`),
		"tools":          fill(`{"messages":[],"tools":[`, `{"function":{"name":"f"}},`, `]}`),
		"escapes":        fill(`{"messages":[{"role":"user","content":"`, `\u00e9`, `"}]}`),
		"nested arrays": `{"messages":[{"role":"user","content":` +
			strings.Repeat(`[`, 9990) + strings.Repeat(`]`, 9990) + `}]}`,
		"nested results": `{"messages":[{"role":"user","content":` +
			strings.Repeat(`[{"type":"tool_result","content":`, 4990) + `"x"` + strings.Repeat(`}]`, 4990) + `}]}`,
		"token ids": fill(`{"prompt":[`, `1,`, `]}`),
	} {
		r := parseChat(t, body)
		c := &fakeCounter{}
		got := measure(t, withCounter(newEstimator(t, Config{}), c), "gpt-4o", r)
		if got.Input < 1 || c.bytes > maxCounted {
			t.Errorf("%s: %+v, counted %d bytes", name, got, c.bytes)
		}
	}
}

// A document that cannot be counted leaves the budget to what comes after it.
func TestLongTextLeavesTheBudget(t *testing.T) {
	c := &fakeCounter{}
	m := newMeter(c, newView(), true, 2)
	m.add(strings.Repeat("long ", exactBytes))
	m.add("short")
	if !m.isLeft(0) || m.isLeft(1) || m.tokens != 2 {
		t.Errorf("left %v, %d tokens counted", m.left, m.tokens)
	}
}

func TestMemoMakesTheSecondTimeFree(t *testing.T) {
	c := &fakeCounter{}
	e := withCounter(newEstimator(t, Config{}), c)
	r := parseChat(t, `{"messages":[{"role":"system","content":"You are a helpful assistant who answers in as few words as can be."},
		{"role":"user","content":"`+strings.Repeat("What is it? ", 500)+`"}],
		"tools":[{"function":{"name":"f","description":"does what it says, and nothing that it does not say, ever"}}]}`)
	first := measure(t, e, "gpt-4o", r)
	cold := c.bytes
	if second := measure(t, e, "gpt-4o", r); second != first || c.bytes != cold {
		t.Errorf("second estimate %+v after %d bytes, first %+v after %d", second, c.bytes, first, cold)
	}
	// The other encoding has other counts.
	if measure(t, e, "gpt-4", r); c.bytes == cold {
		t.Error("the memo of one encoding answered for the other")
	}
}

func TestEstimateDoesNotAllocate(t *testing.T) {
	e := newEstimator(t, Config{})
	r := parseChat(t, string(chatOf(t, englishOf(20_000), 1500)))
	for _, model := range []string{"gpt-4o", "claude-sonnet-4-5"} {
		measure(t, e, model, r)
		if n := testing.AllocsPerRun(20, func() { measure(t, e, model, r) }); n > 0 {
			t.Errorf("%s, known: %v allocations", model, n)
		}
		n := testing.AllocsPerRun(20, func() {
			for i := range e.seeds {
				e.seeds[i] = maphash.MakeSeed() // which forgets all
			}
			measure(t, e, model, r)
		})
		if n > 0 {
			t.Errorf("%s, not known: %v allocations", model, n)
		}
	}
}

func TestMemo(t *testing.T) {
	m := newView()
	// More texts than the table has places; what it still knows must be right.
	const texts = 3 * memoSets * memoWays / 2
	name := func(i int) string { return fmt.Sprintf("text number %d", i) }
	for i := range texts {
		m.put(m.hash(name(i)), int64(i%memoCount)+1, i%2 == 0)
	}
	known := 0
	for i := range texts {
		n, cut, ok := m.get(m.hash(name(i)))
		if !ok {
			continue
		}
		known++
		if n != int64(i%memoCount)+1 || cut != (i%2 == 0) {
			t.Fatalf("text %d: %d %v", i, n, cut)
		}
	}
	if known < memoSets*memoWays*8/10 {
		t.Errorf("%d texts known, want nearly %d", known, memoSets*memoWays)
	}
	if n := testing.AllocsPerRun(100, func() { m.get(m.hash("text number 1")) }); n > 0 {
		t.Errorf("a look-up allocates %v times", n)
	}
}

// Costs of one estimate, and the longest seen: cold (new texts), known, hostile.
func BenchmarkEstimate(b *testing.B) {
	chat := func(text string, size int) *Request {
		r, err := ParseChat(chatOf(b, text, size))
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	run := func(name, model string, r *Request, cold bool) {
		b.Run(name, func(b *testing.B) {
			e := newEstimator(b, Config{})
			if err := e.Load(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var took []time.Duration
			measure(b, e, model, r)
			for b.Loop() {
				if cold {
					b.StopTimer()
					for i := range e.seeds {
						e.seeds[i] = maphash.MakeSeed() // which forgets all
					}
					b.StartTimer()
				}
				start := time.Now()
				measure(b, e, model, r)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
	prose := englishOf(8000 * 9 / 2)
	run("chat of 8k/cold", "gpt-4o", chat(prose, 1500), true)
	run("chat of 8k/known", "gpt-4o", chat(prose, 1500), false)
	run("chat of 8k/cold/claude", "claude-sonnet-4-5", chat(prose, 1500), true)
	for name, text := range hostile(1 << 20) {
		for _, size := range []int{1 << 20, 60_000, 100} {
			run(fmt.Sprintf("hostile/%s/%d", name, size), "gpt-4o", chat(text, size), true)
		}
	}
}

// A conversation of 20 turns that sends its whole history each time, 800 to 16,000
// tokens: the cost of one request.
func BenchmarkConversation(b *testing.B) {
	e := newEstimator(b, Config{})
	if err := e.Load(); err != nil {
		b.Fatal(err)
	}
	var turns []*Request
	text := englishOf(20 * 3600)
	for i := range 20 {
		r, err := ParseChat(chatOf(b, text[:3600*(i+1)], 1800))
		if err != nil {
			b.Fatal(err)
		}
		turns = append(turns, r)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(turns) == 0 {
			b.StopTimer()
			for i := range e.seeds {
				e.seeds[i] = maphash.MakeSeed() // which forgets all
			}
			b.StartTimer()
		}
		measure(b, e, "gpt-4o", turns[n%len(turns)])
	}
}

// The chat of 8k by pkoukk/tiktoken-go, in the same run.
func BenchmarkOracle(b *testing.B) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	o, err := tiktoken.GetEncoding("o200k_base")
	if err != nil {
		b.Fatal(err)
	}
	r, err := ParseChat(chatOf(b, englishOf(8000*9/2), 1500))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for text := range r.prompt.each {
			o.EncodeOrdinary(text)
		}
	}
}

// englishOf returns prose in which few sentences are the same.
func englishOf(size int) string {
	words := strings.Fields("the of and to in is that it was for on are as with they be at one have this from or had by not " +
		"what all were we when your can said there use an each which she how their if will up other about out many then them " +
		"these some would make like him into time has look two more write go see number no way could people my than first " +
		"water been call who oil its now find long down day did get come made may part government dispatcher remarkable " +
		"Tuesday, London, however, unfortunately understanding reservation's provider quarterly 2024 15% budgets")
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(12) == 0 {
			b.WriteString(".\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()[:size]
}
