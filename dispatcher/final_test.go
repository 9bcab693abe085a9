package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// TestFinal works out what each sort of limit is charged in the end, for a job that
// reserved 60 in and 40 out.
func TestFinal(t *testing.T) {
	limit := func(u ledger.Unit, r ledger.Rule) *ledger.Limit {
		return &ledger.Limit{Key: "k", Unit: u, Settle: r, Amount: 1000, Window: time.Minute}
	}
	type f struct{ admitted, late int64 }
	metered := job.Used(50, 20)
	for _, test := range []struct {
		name   string
		limit  *ledger.Limit
		amount int64
		usage  job.Usage
		want   f
	}{
		{"tokens", limit(ledger.Tokens, ledger.SettleActual), 100, metered, f{70, 0}},
		{"tokens stay", limit(ledger.Tokens, ledger.SettleFinal), 100, metered, f{100, 0}},
		{"tokens as produced", limit(ledger.Tokens, ledger.SettleProduced), 100, metered, f{50, 20}},
		{"tokens of nobody knows", limit(ledger.Tokens, ledger.SettleActual), 100, job.Usage{}, f{100, 0}},
		{"input", limit(ledger.InputTokens, ledger.SettleActual), 60, metered, f{50, 0}},
		{"input stays", limit(ledger.InputTokens, ledger.SettleFinal), 60, metered, f{60, 0}},
		{"output", limit(ledger.OutputTokens, ledger.SettleActual), 40, metered, f{20, 0}},
		{"output as produced", limit(ledger.OutputTokens, ledger.SettleProduced), 40, metered, f{0, 20}},
		{"a request was sent", limit(ledger.Requests, ledger.SettleActual), 1, metered, f{1, 0}},
		{"money that nobody worked out", limit(ledger.MicroUSD, ledger.SettleActual), 7, metered, f{7, 0}},
		{"in flight", limit(ledger.InFlight, ledger.SettleActual), 1, metered, f{1, 0}},
		{"negative", limit(ledger.Tokens, ledger.SettleProduced), 100, job.Used(-50, -20), f{0, 0}},
		{"too much to be true", limit(ledger.Tokens, ledger.SettleActual), 100, job.Used(1<<60, 1<<60), f{ledger.MaxAmount, 0}},
	} {
		for _, room := range [][]ledger.Final{nil, make([]ledger.Final, 1), make([]ledger.Final, 4)} {
			got := final(room, []ledger.Charge{{Limit: test.limit, Amount: test.amount}}, test.usage)
			if want := (ledger.Final{Limit: test.limit, Admitted: test.want.admitted, Late: test.want.late}); !slices.Equal(got, []ledger.Final{want}) {
				t.Errorf("%s: %+v, want %+v", test.name, got, want)
			}
			if err := ledger.CheckSettlements([]ledger.Settlement{{Final: got}}); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

// What a ledger is away for too long for is given up, and said, and the rest is not.
func TestTooManySettlements(t *testing.T) {
	d, err := New(Config{Ledger: ledger.NewMemory(), Plan: noPlan{}})
	if err != nil {
		t.Fatal(err)
	}
	for range maxUnsettled + 3 {
		d.settler.add(unsettled{})
	}
	if n := d.Stats().Settling; n != maxUnsettled || d.settler.lost != 3 {
		t.Errorf("%d wait, %d were given up", n, d.settler.lost)
	}
	d.settler.drain(t.Context())
	if n := d.Stats().Settling; n != 0 || d.settler.lost != 0 {
		t.Errorf("%d wait, %d are not told", n, d.settler.lost)
	}
}
