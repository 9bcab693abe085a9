package simprovider

import (
	"strings"
	"testing"
	"time"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	ok := func() Config { return Config{RPM: 60, TPM: 1000} }
	for _, tc := range []struct {
		field  string
		change func(*Config)
	}{
		{"RPM", func(c *Config) { c.RPM = 0 }},
		{"RPM", func(c *Config) { c.RPM = -2 }},
		{"TPM", func(c *Config) { c.TPM = 0 }},
		{"TPM", func(c *Config) { c.TPM = maxLimit + 1 }},
		{"RPM", func(c *Config) { c.Rule, c.RPM = Azure, 5 }},
		{"Models[0].ID", func(c *Config) { c.Models = []Model{{}} }},
		{"Models[1].ID", func(c *Config) { c.Models = []Model{{ID: "a"}, {ID: "a"}} }},
		{"Models[0].RPM", func(c *Config) { c.Models = []Model{{ID: "a", RPM: -3}} }},
		{"Models[0].TPM", func(c *Config) { c.Models = []Model{{ID: "a", TPM: -3}} }},
		{"Models[0].RPM, TPM", func(c *Config) { c.Scope, c.Models = Account, []Model{{ID: "a", TPM: 7}} }},
		{"Scope", func(c *Config) { c.Scope = "team" }},
		{"Rule", func(c *Config) { c.Rule = "leaky" }},
		{"Settle", func(c *Config) { c.Settle = "never" }},
		{"Minute", func(c *Config) { c.Minute = time.Millisecond }},
		{"Minute", func(c *Config) { c.Minute = time.Hour }},
		{"FirstByte", func(c *Config) { c.FirstByte = 2 * time.Hour }},
		{"OutputPerMinute", func(c *Config) { c.OutputPerMinute = maxLimit + 1 }},
		{"Output.Mean", func(c *Config) { c.Output.Mean = -1 }},
		{"Output.Sigma", func(c *Config) { c.Output.Sigma = 3.5 }},
		{"DefaultOutput", func(c *Config) { c.DefaultOutput = maxTokens + 1 }},
	} {
		cfg := ok()
		tc.change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "simprovider: Config."+tc.field+":") {
			t.Errorf("%s: %v", tc.field, err)
		}
	}
	if _, err := New(ok()); err != nil {
		t.Error(err)
	}
}
