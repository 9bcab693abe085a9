package bpe

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

const prose = "The quick brown fox jumps over the lazy dog, and then it went home to rest. What was seen there " +
	"has been told many times: nobody knew whether the 12 tales, if they're tales, could be trusted.\n"

// kinds are texts of a size, honest ones and the worst that are known.
func kinds(size int) map[string]string {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(alphabet string) string {
		var b strings.Builder
		for a := []rune(alphabet); b.Len() < size; {
			b.WriteRune(a[r.IntN(len(a))])
		}
		return b.String()
	}
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)+1) }
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return map[string]string{
		"prose":       repeat(prose),
		"code":        repeat("\tif err := run(ctx, cfg.Name[i+1:]); err != nil {\n\t\treturn fmt.Errorf(\"run %q: %w\", cfg.Name, err)\n\t}\n"),
		"json":        repeat(`{"id":"a81bc81b","name":"Item 7","price":12.5,"tags":["new","sale"],"stock":{"warehouse":3}},`),
		"chinese":     repeat("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"),
		"hindi":       repeat("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। "),
		"base64":      random(letters + strings.ToUpper(letters) + "0123456789+/"),
		"one word":    random(letters),
		"a":           repeat("a"),
		"spaces":      repeat(" "),
		"carets":      repeat("^"),
		"newlines":    repeat(" \n"),
		"punctuation": random("!@#$%^&*()_+-=[]{}|;:,.<>?/~`"),
		"dense":       repeat("1\n"),
		"emoji":       repeat("👩\u200d"),
		"marks":       repeat("\u0301"),
		"han":         random("的一是在不了有和人这中大为上个国我以要他"),
	}
}

func BenchmarkCount(b *testing.B) {
	for _, name := range names {
		e := encodingOf(b, name)
		for kind, text := range kinds(36_000) { // 8,000 tokens of prose
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					e.Count(text)
				}
			})
		}
	}
}

// The same by pkoukk, of what it can do in a second.
func BenchmarkOracle(b *testing.B) {
	for _, name := range names {
		o := oracleOf(b, name)
		for _, kind := range []string{"prose", "code", "json", "chinese", "hindi", "base64"} {
			text := kinds(36_000)[kind]
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					o.EncodeOrdinary(text)
				}
			})
		}
	}
}

// A megabyte, exactly and cut.
func BenchmarkMegabyte(b *testing.B) {
	e := encodingOf(b, "o200k_base")
	for kind, text := range kinds(1 << 20) {
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				e.Count(text)
			}
		})
		b.Run(kind+"/cut", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				e.CountCut(text, maxKept)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct {
		name, data string
		split      func(string) int
		tokens     int
	}{{"o200k", o200kData, splitO200k, 199_998}, {"cl100k", cl100kData, splitCl100k, 100_256}} {
		b.Run(c.name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			e, err := load(c.name, c.split, c.data, c.tokens)
			if err != nil {
				b.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := load(c.name, c.split, c.data, c.tokens); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "live-MB")
			runtime.KeepAlive(e)
		})
	}
}
