package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	const n = 200_000
	const seed = 7
	for _, tt := range []struct {
		name         string
		sizes        sizes
		charge       float64 // mean
		output       float64 // mean
		least, most  int64   // charges
		capIsAnswers bool
	}{
		{"answers as long as declared", sizes{}, 800, 240, minSize, maxSize, true},
		{"long caps, short answers", sizes{cap: 4096, outputs: logNormal(250)}, 4656, 250, 35 + 4096, 5600 + 4096, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			var charge, output, logs, squares float64
			for range n {
				s := tt.sizes.draw(r, usual)
				if c := s.charge(); c < tt.least || c > tt.most {
					t.Fatalf("charge %d is not from %d to %d", c, tt.least, tt.most)
				}
				if s.input < 1 || s.output < 1 || s.output > s.cap || tt.capIsAnswers && s.output != s.cap {
					t.Fatalf("impossible size %+v", s)
				}
				charge += float64(s.charge())
				output += float64(s.output)
				l := math.Log(float64(s.input))
				logs += l
				squares += l * l
			}
			within(t, "mean charge", charge/n, tt.charge, 0.01)
			within(t, "mean charge as the feeders expect it", tt.sizes.meanCharge(usual), tt.charge, 0.001)
			within(t, "mean output", output/n, tt.output, 0.02)
			within(t, "sigma", math.Sqrt(squares/n-logs/n*logs/n), sigmaSize, 0.02)
			if got := tt.sizes.largest().charge(); got != tt.most {
				t.Errorf("largest charge %d, want %d", got, tt.most)
			}
		})
	}
}

func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s is %.4f, want %.4f within %g %%", what, got, want, 100*part)
	}
}

// TestBody checks that a request asks for what was drawn, at four characters a token.
func TestBody(t *testing.T) {
	for _, s := range []size{{1, 1, 1}, {35, 15, 15}, {maxSize, 4096, 250}} {
		var body struct {
			MaxTokens int64 `json:"max_tokens"`
			Messages  []struct{ Content string }
		}
		if err := json.Unmarshal(s.body(usualModel), &body); err != nil {
			t.Fatal(err)
		}
		if len(body.Messages) != 1 || int64(len(body.Messages[0].Content)) != 4*s.input || body.MaxTokens != s.cap {
			t.Errorf("size %+v: %d messages, cap %d", s, len(body.Messages), body.MaxTokens)
		}
	}
}
