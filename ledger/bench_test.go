package ledger_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/paceline-go/paceline/ledger"
)

// BenchmarkReserve compares the whole contract (window, bucket, idempotency,
// settle) with the bucket of x/time/rate, in one run.
func BenchmarkReserve(b *testing.B) {
	b.Run("x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(1e12, 1e12)
		for b.Loop() {
			l.ReserveN(time.Now(), 100)
		}
	})
	limit := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1 << 49, Window: time.Minute}
	// A process has hundreds of open reservations, not millions: they are settled
	// off the clock.
	b.Run("memory", func(b *testing.B) {
		m := ledger.NewMemory()
		batch := []ledger.Request{{Charges: []ledger.Charge{{Limit: limit, Amount: 100}}}}
		settle := make([]ledger.Settlement, 1024)
		for i := range settle {
			settle[i].Final = []ledger.Final{{Limit: limit, Admitted: 50}}
		}
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			binary.LittleEndian.PutUint64(batch[0].ID.Job[:], uint64(n))
			if d, err := m.Reserve(context.Background(), batch); err != nil || d[0].Outcome != ledger.Granted {
				b.Fatal(d, err)
			}
			settle[n%len(settle)].ID = batch[0].ID
			n++
			if n%len(settle) == 0 {
				b.StopTimer()
				if err := m.Settle(context.Background(), settle); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		}
	})
	b.Run("memory-settled", func(b *testing.B) {
		m := ledger.NewMemory()
		batch := []ledger.Request{{Charges: []ledger.Charge{{Limit: limit, Amount: 100}}}}
		settle := []ledger.Settlement{{Final: []ledger.Final{{Limit: limit, Admitted: 50}}}}
		n := uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			n++
			binary.LittleEndian.PutUint64(batch[0].ID.Job[:], n)
			settle[0].ID = batch[0].ID
			if d, err := m.Reserve(context.Background(), batch); err != nil || d[0].Outcome != ledger.Granted {
				b.Fatal(d, err)
			}
			if err := m.Settle(context.Background(), settle); err != nil {
				b.Fatal(err)
			}
		}
	})
}
