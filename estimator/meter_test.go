package estimator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
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
		"long words":      repeat(strings.Repeat("x", maxPiece-2) + " "),
		"base64":          random(letters + strings.ToUpper(letters) + "0123456789+/"),
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

// maxWork is exactWork and what 64 slices of the densest text add.
var maxWork = exactWork + slices*(workPerCall+(sliceBytes+sliceSlack)*(workPerByte+workPerSplit)+workToMerge(sliceBytes+sliceSlack))

// Whatever is in 1 MB, the counter gets a bounded amount of it, in short pieces.
func TestHostileWorkIsBounded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for name, text := range hostile(1 << 20) {
		text = string(appendValid(nil, []byte(text)))
		for _, size := range []int{len(text), 60_000, 40} {
			c := &fakeCounter{}
			m := newMeter(c, newMemo(), false)
			for from := 0; from < len(text); {
				to := runeStart(text, from+size)
				m.add(text[from:to])
				from = to
			}
			n := m.tokens + m.sample(r.Int64N)
			if c.bytes > exactBytes+slices*(sliceBytes+sliceSlack) {
				t.Errorf("%s by %d: counted %d bytes", name, size, c.bytes)
			}
			if c.longest > maxPiece {
				t.Errorf("%s by %d: a piece of %d bytes", name, size, c.longest)
			}
			if c.work > maxWork {
				t.Errorf("%s by %d: work %d, want at most %d", name, size, c.work, maxWork)
			}
			// The fake counter needs a token for four bytes, and one for less.
			if least, most := int64(len(text)/4), int64(len(text)); n < least || n > most {
				t.Errorf("%s by %d: %d tokens in %d bytes", name, size, n, len(text))
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
		if got.Input < 1 || c.work > maxWork {
			t.Errorf("%s: %+v, work %d", name, got, c.work)
		}
	}
}

// A document that cannot be counted leaves the budget to what comes after it.
func TestLongTextLeavesTheBudget(t *testing.T) {
	c := &fakeCounter{}
	m := newMeter(c, newMemo(), false)
	m.add(strings.Repeat("long ", exactBytes))
	m.add("short")
	if len(m.rest) != 1 || m.tokens != 2 {
		t.Errorf("%d texts left, %d tokens counted", len(m.rest), m.tokens)
	}
}

func TestMemoMakesTheSecondTimeFree(t *testing.T) {
	c := &fakeCounter{}
	e := withCounter(newEstimator(t, Config{}), c)
	r := parseChat(t, `{"messages":[{"role":"system","content":"You are a helpful assistant."},
		{"role":"user","content":"`+strings.Repeat("What is it? ", 500)+`"}],
		"tools":[{"function":{"name":"f","description":"does what it says"}}]}`)
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

func TestMemo(t *testing.T) {
	m := newMemo()
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
			least, most := time.Hour, time.Duration(0)
			measure(b, e, model, r)
			for b.Loop() {
				if cold {
					b.StopTimer()
					e.memos[o200k], e.memos[cl100k] = newMemo(), newMemo()
					b.StartTimer()
				}
				start := time.Now()
				measure(b, e, model, r)
				took := time.Since(start)
				least, most = min(least, took), max(most, took)
			}
			b.ReportMetric(least.Seconds()*1e3, "min-ms")
			b.ReportMetric(most.Seconds()*1e3, "max-ms")
		})
	}
	prose := hostile(8000 * 9 / 2)["prose"]
	run("chat of 8k/cold", "gpt-4o", chat(prose, 1500), true)
	run("chat of 8k/known", "gpt-4o", chat(prose, 1500), false)
	for name, text := range hostile(1 << 20) {
		for _, size := range []int{1 << 20, 60_000, 100} {
			run(fmt.Sprintf("hostile/%s/%d", name, size), "gpt-4o", chat(text, size), true)
		}
	}
}
