package dispatcher_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

type fixed []*ledger.Limit

func (f fixed) Charges(_ *job.Spec, e job.Estimate) ([]ledger.Charge, error) {
	out := make([]ledger.Charge, len(f))
	for i, l := range f {
		out[i] = ledger.Charge{Limit: l, Amount: e.Tokens()}
		if l.Unit != ledger.Tokens {
			out[i].Amount = 1
		}
	}
	return out, nil
}

// BenchmarkDo compares a job that does nothing with two bare hand-offs between
// goroutines, which is what any dispatcher needs at least.
func BenchmarkDo(b *testing.B) {
	b.Run("two-hand-offs", func(b *testing.B) {
		requests := make(chan chan int)
		go func() {
			for r := range requests {
				r <- 1
			}
		}()
		defer close(requests)
		reply := make(chan int)
		for b.Loop() {
			requests <- reply
			<-reply
		}
	})
	b.Run("alone", func(b *testing.B) {
		d, stop := start(b)
		defer stop()
		spec := job.Spec{Tenant: "acme", Model: "m", Priority: job.Paid, Estimate: job.Estimate{Input: 10, Output: 10}}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := dispatcher.Do(context.Background(), d, spec, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, tenants := range []int{10, 5000} {
		b.Run(fmt.Sprintf("5000-callers-%d-tenants", tenants), func(b *testing.B) {
			d, stop := start(b)
			defer stop()
			names := make([]string, tenants)
			for i := range names {
				names[i] = fmt.Sprint("tenant", i)
			}
			var n atomic.Int64
			b.SetParallelism(2500)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				i := int(n.Add(1))
				p, _ := job.PriorityOf(i % 8)
				spec := job.Spec{Tenant: names[i%tenants], Model: "m", Priority: p, Estimate: job.Estimate{Input: 10, Output: 10}}
				for pb.Next() {
					if _, err := dispatcher.Do(context.Background(), d, spec, nothing); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func nothing(context.Context) (struct{}, job.Usage, error) {
	return struct{}{}, job.Used(10, 10), nil
}

func start(b *testing.B) (*dispatcher.Dispatcher, func()) {
	limit := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1 << 49, Window: time.Minute}
	d, err := dispatcher.New(dispatcher.Config{Ledger: ledger.NewMemory(), Plan: fixed{limit}})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- d.Run(context.Background()) }()
	return d, func() {
		if err := d.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
