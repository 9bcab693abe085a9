package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

func TestValidate(t *testing.T) {
	good := ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*ledger.Limit){
		"Key must have 1":              func(l *ledger.Limit) { l.Key = "" },
		"to 4096 bytes, not 4097":      func(l *ledger.Limit) { l.Key = strings.Repeat("k", 4097) },
		"Unit 6":                       func(l *ledger.Limit) { l.Unit = 6 },
		"Amount must be":               func(l *ledger.Limit) { l.Amount = -1 },
		"not 1125899906842625":         func(l *ledger.Limit) { l.Amount = ledger.MaxAmount + 1 },
		"Window must be":               func(l *ledger.Limit) { l.Window = 0 },
		"not 9.999ms":                  func(l *ledger.Limit) { l.Window = 9999 * time.Microsecond },
		"not 792h0m0s":                 func(l *ledger.Limit) { l.Window = 33 * 24 * time.Hour },
		"from 10ms to 768h0m0s, not 1": func(l *ledger.Limit) { l.Unit, l.Window = ledger.InFlight, 1 },
		"Burst must not":               func(l *ledger.Limit) { l.Burst = -1 },
		"Guard must not":               func(l *ledger.Limit) { l.Guard = -1 },
		"MaxCharge must not":           func(l *ledger.Limit) { l.MaxCharge = -1 },
		"Settle rule 3":                func(l *ledger.Limit) { l.Settle = 3 },
	} {
		l := good
		change(&l)
		if err := l.Validate(); !errors.Is(err, ledger.ErrLimit) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, change := range []func(*ledger.Limit){
		func(l *ledger.Limit) { l.Amount = 0 },
		func(l *ledger.Limit) {
			l.Amount, l.Burst, l.MaxCharge = ledger.MaxAmount, ledger.MaxAmount, ledger.MaxAmount
		},
		func(l *ledger.Limit) { l.Window, l.Guard = 10*time.Millisecond, time.Hour },
		func(l *ledger.Limit) { l.Unit, l.Window = ledger.InFlight, 0 },
		func(l *ledger.Limit) { l.Key = strings.Repeat("\xff", 4096) },
	} {
		l := good
		change(&l)
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// The numbers that every ledger works with, of which doubles must hold all products.
func TestShape(t *testing.T) {
	minute := ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 200_000, Window: time.Minute}
	want := ledger.Shape{
		Window: 60e6, Slot: 234_375, Guard: 1e6, Tick: 1, Ticks: 61_234_375, Quot: 0, Rest: 200_000, Burst: 8000,
	}
	if s := minute.Shape(0); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	for _, window := range []time.Duration{10 * time.Millisecond, time.Second, 88 * time.Second, time.Hour, 32 * 24 * time.Hour} {
		for _, amount := range []int64{0, 1, 24, 26, ledger.MaxAmount} {
			for _, measured := range []time.Duration{0, window / 30, time.Hour} {
				l := ledger.Limit{Amount: amount, Window: window}
				s := l.Shape(measured)
				if s.Slot*ledger.Slots < s.Window || (s.Slot-1)*ledger.Slots >= s.Window {
					t.Errorf("%v: slot %d", window, s.Slot)
				}
				if s.Guard > s.Window/20 || s.Guard < s.Window/60 {
					t.Errorf("%v: guard %d", window, s.Guard)
				}
				if period := s.Window + s.Guard + s.Slot; s.Tick*s.Ticks < period || s.Tick*(s.Ticks-1) >= period {
					t.Errorf("%v: %d ticks of %d in %d", window, s.Ticks, s.Tick, period)
				}
				if s.Quot*s.Ticks+s.Rest != amount || s.Rest >= s.Ticks {
					t.Errorf("%v: %d and %d of %d", window, s.Quot, s.Rest, amount)
				}
				if s.Ticks*s.Rest+2*s.Ticks >= 1<<53 {
					t.Errorf("%v: %d ticks pass a double", window, s.Ticks)
				}
				if s.Burst < 1 || s.Burst*25 < amount {
					t.Errorf("%v: burst %d of %d", window, s.Burst, amount)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		ledger.Requests.String(): "requests", ledger.InFlight.String(): "in_flight", ledger.Unit(9).String(): "unit(9)",
		ledger.Denied.String(): "denied", ledger.Refused.String(): "refused", ledger.Outcome(9).String(): "outcome(9)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		counts                         ledger.Counts
		input, cached, written, output int64
		wantInput, wantOutput          int64
	}{
		{ledger.Counts{}, 100, 60, 10, 7, 100, 7},
		{ledger.Counts{Input: 100, CacheWrite: 100, Output: 500}, 9000, 7000, 1000, 200, 2000, 1000},
		{ledger.Counts{Input: 100, Cached: 10, CacheWrite: 125, Output: 100}, 21, 1, 10, 1, 10 + 1 + 13, 1},
		{ledger.Counts{Input: 10_000, Output: 10_000}, ledger.MaxAmount, 0, 0, ledger.MaxAmount, ledger.MaxAmount, ledger.MaxAmount},
		{ledger.Counts{Input: 100}, 5, 9, 0, 3, 0, 0}, // nonsense never counts below nothing
	} {
		if in, out := c.counts.InputOf(c.input, c.cached, c.written), c.counts.OutputOf(c.output); in != c.wantInput || out != c.wantOutput {
			t.Errorf("%+v: %d and %d, want %d and %d", c, in, out, c.wantInput, c.wantOutput)
		}
	}
}
