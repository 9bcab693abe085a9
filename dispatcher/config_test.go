package dispatcher

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

type noPlan struct{}

func (noPlan) Charges(*job.Spec, job.Estimate) ([]ledger.Charge, error) { return nil, nil }

func TestConfigDefaults(t *testing.T) {
	c, err := Config{Ledger: ledger.NewMemory(), Plan: noPlan{}}.fill()
	if err != nil {
		t.Fatal(err)
	}
	if c.Workers != 64 || c.UrgentWorkers != 6 || c.MaxQueue != 10_000 || c.MaxTenantQueue != 10_000 || c.MaxBackgroundQueue != 5000 ||
		c.MaxWait != time.Minute || c.MaxAttempts != 3 || c.AgingStep != 10*time.Second || c.AgedShare != 20 ||
		c.LedgerTimeout != 250*time.Millisecond || c.Logger == nil || c.Observer != nil || c.Estimator != nil || c.Weight != nil {
		t.Errorf("%+v", c)
	}
}

func TestConfigDerived(t *testing.T) {
	for _, test := range []struct {
		in   Config
		ok   func(Config) bool
		want string
	}{
		{Config{Workers: 1}, func(c Config) bool { return c.UrgentWorkers == 0 }, "one worker keeps none for urgent work"},
		{Config{Workers: 40}, func(c Config) bool { return c.UrgentWorkers == 4 }, "a tenth"},
		{Config{UrgentWorkers: -1}, func(c Config) bool { return c.UrgentWorkers == 0 }, "none"},
		{Config{Workers: 2, UrgentWorkers: 1}, func(c Config) bool { return c.UrgentWorkers == 1 }, "all but one"},
		{Config{MaxQueue: 7}, func(c Config) bool { return c.MaxTenantQueue == 7 && c.MaxBackgroundQueue == 4 }, "bounds follow MaxQueue"},
		{Config{MaxQueue: 1}, func(c Config) bool { return c.MaxBackgroundQueue == 1 }, "a queue of one"},
		{Config{AgingStep: -1}, func(c Config) bool { return c.AgingStep == -1 }, "no ageing"},
		{Config{AgingStep: -1, MaxWait: time.Millisecond}, func(Config) bool { return true }, "no ageing, short waits"},
		{Config{AgingStep: 15*time.Second - 1}, func(Config) bool { return true }, "four steps in a minute, just"},
	} {
		test.in.Ledger, test.in.Plan = ledger.NewMemory(), noPlan{}
		if c, err := test.in.fill(); err != nil || !test.ok(c) {
			t.Errorf("%s: %v: %+v", test.want, err, c)
		}
	}
}

func TestConfigComplaints(t *testing.T) {
	good := Config{Ledger: ledger.NewMemory(), Plan: noPlan{}}
	for _, test := range []struct {
		field string
		spoil func(*Config)
	}{
		{"Ledger", func(c *Config) { c.Ledger = nil }},
		{"Plan", func(c *Config) { c.Plan = nil }},
		{"Workers", func(c *Config) { c.Workers = -1 }},
		{"MaxQueue", func(c *Config) { c.MaxQueue = -1 }},
		{"MaxTenantQueue", func(c *Config) { c.MaxTenantQueue = -1 }},
		{"MaxBackgroundQueue", func(c *Config) { c.MaxBackgroundQueue = -1 }},
		{"MaxAttempts", func(c *Config) { c.MaxAttempts = -1 }},
		{"AgedShare", func(c *Config) { c.AgedShare = -1 }},
		{"AgedShare", func(c *Config) { c.AgedShare = 101 }},
		{"UrgentWorkers", func(c *Config) { c.UrgentWorkers = -2 }},
		{"UrgentWorkers", func(c *Config) { c.UrgentWorkers = 64 }},
		{"UrgentWorkers", func(c *Config) { c.Workers, c.UrgentWorkers = 3, 3 }},
		{"MaxWait", func(c *Config) { c.MaxWait = -1 }},
		{"AgingStep", func(c *Config) { c.AgingStep = 15 * time.Second }},
		{"AgingStep", func(c *Config) { c.AgingStep = math.MaxInt64 }},
		{"MaxWait", func(c *Config) { c.MaxWait = 40 * time.Second }},
		{"LedgerTimeout", func(c *Config) { c.LedgerTimeout = -1 }},
	} {
		c := good
		test.spoil(&c)
		d, err := New(c)
		if d != nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: %v", test.field, err)
		}
	}
}

// temporalio/temporal#11065, #11053: a constructor that starts something leaks it
// when it is not used.
func TestNewStartsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		if _, err := New(Config{Ledger: ledger.NewMemory(), Plan: noPlan{}}); err != nil {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}
