package estimator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestPublishedTexts(t *testing.T) {
	var file struct {
		Text []struct {
			Enc, In, Repeat, Source string
			N                       int
			Tokens                  int64
		}
	}
	readJSON(t, "testdata/vectors.json", &file)
	e := newEstimator(t, Config{})
	seeded(t, e)
	tested := 0
	for _, v := range file.Text {
		model, ok := map[string]string{"o200k_base": "gpt-4o", "cl100k_base": "gpt-4"}[v.Enc]
		if !ok {
			continue // r50k_base has no model left
		}
		tested++
		text := v.In + strings.Repeat(v.Repeat, v.N)
		got := textTokens(t, e, model, text)
		name := fmt.Sprintf("%.20q (%d bytes) in %s", text, len(text), v.Enc)
		if got.Method == Exact {
			if got.Input != v.Tokens || got.Upper != 0 {
				t.Errorf("%s: got %+v, want exactly %d", name, got, v.Tokens)
			}
			continue
		}
		// Cut runs of spaces have more tokens: the longest token is half a slice.
		high := v.Tokens + v.Tokens/20
		if got.Input < v.Tokens-v.Tokens/100 || got.Input > high || got.Upper < v.Tokens {
			t.Errorf("%s: got %+v, want about %d", name, got, v.Tokens)
		}
	}
	if tested < 19 {
		t.Errorf("tested %d vectors, want 19", tested)
	}
}

// What the API billed for whole chats: messages are exact, and tools never under.
func TestBilledChats(t *testing.T) {
	var chats []struct {
		Name, Source string
		Request      json.RawMessage
		Billed       map[string]int64
	}
	readJSON(t, "testdata/chats.json", &chats)
	e := newEstimator(t, Config{})
	for _, c := range chats {
		r := parseChat(t, string(c.Request))
		for model, billed := range c.Billed {
			got := measure(t, e, model, r)
			over := int64(0)
			if c.Name == "tools" {
				over = 63 // the most that the rule was seen to add
			}
			if got.Input < billed || got.Input > billed+over {
				t.Errorf("%s for %s: got %d, billed %d (%s)", c.Name, model, got.Input, billed, c.Source)
			}
			if over == 0 && !strings.HasPrefix(c.Name, "image") && got.Method != Exact {
				t.Errorf("%s for %s: method %s, want exact", c.Name, model, got.Method)
			}
		}
	}
}

func TestPublishedImages(t *testing.T) {
	var file struct {
		Image []struct {
			Model, Detail                              string
			W, H, Tokens, Patches, Billed, Tile_tokens int64
		}
	}
	readJSON(t, "testdata/vectors.json", &file)
	for _, v := range file.Image {
		f, _ := familyOf(v.Model)
		img := image{width: v.W, height: v.H, low: v.Detail == "low"}
		got := f.image.tokens(img)
		want := max(v.Tokens, v.Tile_tokens)
		switch {
		case v.Patches > 0:
			want = v.Patches * f.image.percent / 100
			// Shrunk images count as the limit, at most 6 % more than documented.
			if got < want || got > want+want*6/100 {
				t.Errorf("%s %dx%d: got %d, want %d to 6 %% more", v.Model, v.W, v.H, got, want)
			}
		case want > 0:
			if got != want {
				t.Errorf("%s %dx%d %s: got %d, want %d", v.Model, v.W, v.H, v.Detail, got, want)
			}
		}
	}
	for _, v := range []struct {
		model string
		img   image
		want  int64
	}{
		{"gpt-4.1", image{width: 2050, height: 513}, 765},         // community.openai.com 1281361
		{"o3", image{width: 128, height: 64}, 236 - 11},           // 11 tokens of text
		{"o3", image{width: 128, height: 64, low: true}, 86 - 11}, //
		{"gpt-4o", image{}, 1445},                                 // unknown size: the most
		{"gpt-4o", image{width: 1 << 32, height: 1}, 85 + 4*170},
		{"gpt-5-nano", image{width: 1 << 32, height: 1 << 32}, 3779},
		{"claude-sonnet-4", image{width: 280, height: 280}, 100},
		{"nobody-knows", image{}, 1445},
	} {
		f, _ := familyOf(v.model)
		if got := f.image.tokens(v.img); got != v.want {
			t.Errorf("%s %+v: got %d, want %d", v.model, v.img, got, v.want)
		}
	}
}
