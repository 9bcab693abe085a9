package estimator

import (
	"fmt"
	"log/slog"

	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
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
	// AudioTokensPerSecond is what audio in the prompt counts; 0 means what is known
	// of the model's maker: 32 for Gemini, and 10 for others.
	AudioTokensPerSecond int64
	// Counters counts the texts of models that need another tokenizer, by their names
	// as in Outputs. Of the new text of a request a Counter is given at most 16 KiB, and
	// 128 slices of 64 bytes of what is more.
	Counters map[string]Counter

	// Factors corrects the counts of texts that are not exact, by what calls of the same
	// Provider, model and route really had; nil does not. Learn teaches it.
	Factors  *learn.Factors
	Provider string
	// Margin reserves what 95 % of calls stay below in the place of the mean.
	Margin bool
	// Lengths predicts the outputs of calls that declare no cap, once it has seen some:
	// at least what Outputs and DefaultOutput say. nil does not. Learn teaches it.
	Lengths *learn.Lengths
	// Predict says for which calls the prediction counts alone, also in the place of a
	// cap that they declare; nil means for none. It may for a provider that does not
	// count the cap, or one of its own, at admission. Otherwise the prediction is what the
	// estimate has as Expected.
	Predict func(*job.Spec) bool
	// Route says what calls are to be learnt from together; nil means those of a
	// tenant.
	Route func(*job.Spec) string

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
		{"AudioTokensPerSecond", &c.AudioTokensPerSecond, 0},
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
	counters := make(map[string]Counter, len(c.Counters))
	for model, counter := range c.Counters {
		if counter == nil {
			return Config{}, fmt.Errorf("estimator: Counters[%q] is nil", model)
		}
		counters[baseName(model)] = counter
	}
	c.Counters = counters
	if c.Route == nil {
		c.Route = func(s *job.Spec) string { return s.Tenant }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// output returns the output expected of one choice of a model that declares none.
func (c *Config) output(model string) int64 {
	if n, ok := lookUp(c.Outputs, baseName(model)); ok {
		return n
	}
	return c.DefaultOutput
}

// lookUp returns the value for the longest prefix of a name.
func lookUp[V any](m map[string]V, name string) (value V, ok bool) {
	longest := ""
	for prefix, v := range m {
		if len(prefix) > len(longest) && hasPrefix(name, prefix) {
			longest, value, ok = prefix, v, true
		}
	}
	return value, ok
}
