package redisledger_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/ledgertest"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// BenchmarkJobs compares, on one Redis in one run, a batch of 64 reservations
// over two limits with two calls of redis_rate per job, which is the usual recipe.
// Each reports jobs per second.
func BenchmarkJobs(b *testing.B) {
	client := open(b, redistest.URL(b))
	ctx := context.Background()
	report := func(b *testing.B, jobs int) {
		b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
	}
	name := fmt.Sprint("bench", time.Now().UnixNano())

	b.Run("redis_rate-one-after-another", func(b *testing.B) {
		l := redis_rate.NewLimiter(client)
		per := redis_rate.PerMinute(1 << 30)
		for b.Loop() {
			for _, k := range []string{"tpm", "rpm"} {
				if _, err := l.AllowN(ctx, name+k, per, 1); err != nil {
					b.Fatal(err)
				}
			}
		}
		report(b, b.N)
	})
	b.Run("redis_rate-64-goroutines", func(b *testing.B) {
		l := redis_rate.NewLimiter(client)
		per := redis_rate.PerMinute(1 << 30)
		for b.Loop() {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 4 {
						for _, k := range []string{"tpm", "rpm"} {
							if _, err := l.AllowN(ctx, name+k, per, 1); err != nil {
								b.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
		}
		report(b, b.N*64*4)
	})
	l, err := redisledger.New(client, redisledger.Config{Name: name})
	if err != nil {
		b.Fatal(err)
	}
	tpm := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1 << 49, Window: time.Minute}
	rpm := &ledger.Limit{Key: "rpm", Unit: ledger.Requests, Amount: 1 << 40, Window: time.Minute}
	batch := make([]ledger.Request, 64)
	settle := make([]ledger.Settlement, len(batch))
	for i := range batch {
		batch[i].Charges = []ledger.Charge{{Limit: tpm, Amount: 800}, {Limit: rpm, Amount: 1}}
		settle[i].Final = []ledger.Final{{Limit: tpm, Admitted: 500}, {Limit: rpm, Admitted: 1}}
	}
	n := uint64(0)
	reserve := func(b *testing.B) {
		for i := range batch {
			n++
			binary.LittleEndian.PutUint64(batch[i].ID.Job[:], n)
			settle[i].ID = batch[i].ID
		}
		ds, err := l.Reserve(ctx, batch)
		if err != nil || ds[63].Outcome != ledger.Granted {
			b.Fatal(ds, err)
		}
	}
	// A fleet has hundreds of open reservations, not millions, so they are settled:
	// redis_rate has no such thing, so off the clock, and then on it.
	b.Run("paceline-batch-of-64", func(b *testing.B) {
		for b.Loop() {
			reserve(b)
			b.StopTimer()
			if err := l.Settle(ctx, settle); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		report(b, b.N*64)
	})
	b.Run("paceline-batch-of-64-and-settle", func(b *testing.B) {
		for b.Loop() {
			reserve(b)
			if err := l.Settle(ctx, settle); err != nil {
				b.Fatal(err)
			}
		}
		report(b, b.N*64)
	})
}

func BenchmarkLine(b *testing.B) {
	client := open(b, redistest.URL(b))
	for _, tickets := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("tickets=%d", tickets), func(b *testing.B) {
			ledgertest.BenchmarkLine(b, newLedger(b, client, fmt.Sprintf("line-%x", rand.Uint64())), tickets)
		})
	}
}
