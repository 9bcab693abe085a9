package ledgertest

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// BenchmarkLine measures what a reservation costs while so many tickets are in line,
// eight of each process: one after the other asks, and is denied.
func BenchmarkLine(b *testing.B, l ledger.Line, tickets int) {
	tpm := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 200_000, Window: time.Minute, Burst: 10}
	rpm := &ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 1 << 40, Window: time.Minute}
	next := uint64(0)
	ask := func(lane, class int, amount int64) ledger.Outcome {
		next++
		r := ledger.Request{
			Charges: []ledger.Charge{{Limit: tpm, Amount: amount}, {Limit: rpm, Amount: 1}},
			Place: ledger.Place{
				Process: fmt.Sprint("process", lane/8), Lane: fmt.Sprint(lane, class), Tenant: fmt.Sprint("tenant", lane%8),
				Class: class, Weight: 1, Cost: amount, AgingStep: 10 * time.Second, AgedShare: 20, Ticket: true,
			},
		}
		binary.BigEndian.PutUint64(r.ID.Job[:], next)
		ds, err := l.Reserve(b.Context(), []ledger.Request{r})
		if err != nil {
			b.Fatal(err)
		}
		return ds[0].Outcome
	}
	ask(0, 0, 100_000) // the bucket is in debt for longer than this lasts
	for lane := range tickets {
		if ask(lane, 5, 800) != ledger.Denied {
			b.Fatal("not denied")
		}
	}
	for i := 0; b.Loop(); i++ {
		if ask(i%tickets, 5, 800) != ledger.Denied {
			b.Fatal("not denied")
		}
	}
}
