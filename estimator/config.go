package estimator

import (
	"fmt"
	"log/slog"
)

// Config says what the estimator cannot know. The zero Config is usable.
type Config struct {
	// DefaultOutput is the output, in tokens per choice, that is expected of a
	// chat that declares no cap; 0 means 512.
	DefaultOutput int64
	// Outputs overrides DefaultOutput for models. "gpt-4o" stands for all gpt-4o
	// models; of several names that fit the longest counts.
	Outputs map[string]int64
	// FileTokens is what a file in the prompt counts; 0 means 4096. Nothing bounds
	// what a file may really cost, so such an estimate has no bound either.
	FileTokens int64
	// AudioTokensPerSecond is what audio in the prompt counts; 0 means 10, which
	// users report of OpenAI (community.openai.com 971012).
	AudioTokensPerSecond int64
	// Logger hears of models that are not known, once each; nil means
	// slog.Default.
	Logger *slog.Logger
}

// withDefaults returns a copy with the defaults filled in, or the first mistake.
func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name  string
		value *int64
		def   int64
	}{
		{"DefaultOutput", &c.DefaultOutput, 512},
		{"FileTokens", &c.FileTokens, 4096},
		{"AudioTokensPerSecond", &c.AudioTokensPerSecond, 10},
	} {
		if *f.value < 0 || *f.value > MaxTokens {
			return Config{}, fmt.Errorf("estimator: %s is %d, want 0 to %d", f.name, *f.value, int64(MaxTokens))
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	outputs := make(map[string]int64, len(c.Outputs))
	for model, n := range c.Outputs {
		if n <= 0 || n > MaxTokens {
			return Config{}, fmt.Errorf("estimator: Outputs[%q] is %d, want 1 to %d", model, n, int64(MaxTokens))
		}
		outputs[baseName(model)] = n
	}
	c.Outputs = outputs
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// output returns the output expected of one choice of a model that declares none.
func (c *Config) output(model string) int64 {
	name, longest, n := baseName(model), "", c.DefaultOutput
	for prefix, v := range c.Outputs {
		if len(prefix) > len(longest) && hasPrefix(name, prefix) {
			longest, n = prefix, v
		}
	}
	return n
}
