package sched_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cost spreads sizes between 100 and about 8,000 tokens, so that the heaps are
// not filled in order.
func cost(now time.Duration) int64 { return 100 + int64(uint64(now/1000)*0x9E3779B97F4A7C15>>51) }

// BenchmarkQueue is the cost of a job (push, next, granted) while a number of
// others wait: one goes, one comes.
func BenchmarkQueue(b *testing.B) {
	for _, size := range []struct{ jobs, lanes int }{
		{1_000, 80}, {1_000_000, 80}, {1_000_000, 1_000_000},
	} {
		b.Run(fmt.Sprintf("jobs=%d/lanes=%d", size.jobs, size.lanes), func(b *testing.B) {
			tenants := make([]string, size.lanes)
			for i := range tenants {
				tenants[i] = "tenant-" + strconv.Itoa(i)
			}
			shared := []string{"account", "model"}
			before := heapBytes()
			q := sched.New(sched.Config{AgingStep: 10 * time.Second})
			now := time.Duration(0)
			push := func(j *sched.Job, tenant string) {
				now += time.Microsecond
				*j = sched.Job{Tenant: tenant, Group: "m", Class: 5, Cost: cost(now), Arrived: now, Shared: shared}
				q.Push(j)
			}
			for i := range size.jobs {
				push(new(sched.Job), tenants[i%size.lanes])
			}
			bytes := heapBytes() - before
			turn := func() {
				j := q.Next(now, 9)
				q.Granted(j)
				push(j, j.Tenant)
			}
			for range 3 * size.lanes / 2 {
				turn()
			}
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(bytes)/float64(size.jobs), "bytes/job")
		})
	}
}
