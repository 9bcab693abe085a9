package sched_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

var benchShared = []string{"account", "model"}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func even(int) int64 { return 800 }

// mixed is between 100 and about 8,300 tokens, in no order: whoever goes next is
// somewhere else in memory each time.
func mixed(i int) int64 { return 100 + int64(uint64(i)*0x9E3779B97F4A7C15>>51) }

// BenchmarkQueue is the cost of one job (push, next, granted) while others wait:
// one goes, and its tenant sends another. The sizes take turns, and of each the
// best turn counts, so that a busy machine slows all alike. "x" is relative to a
// thousand jobs in 80 lanes: at most 3 for a million jobs in as many lanes, and at
// most 8 for a million lanes.
func BenchmarkQueue(b *testing.B) {
	for _, sizes := range []struct {
		name string
		cost func(int) int64
	}{{"even", even}, {"mixed", mixed}} {
		b.Run(sizes.name, func(b *testing.B) {
			queues := []struct {
				name        string
				jobs, lanes int
				turn        func()
				bytes       uint64
				best        time.Duration
			}{
				{name: "1k/80", jobs: 1000, lanes: 80},
				{name: "1M/80", jobs: 1_000_000, lanes: 80},
				{name: "1M/1M", jobs: 1_000_000, lanes: 1_000_000},
			}
			for i := range queues {
				s := &queues[i]
				s.turn, s.bytes = benchQueue(s.jobs, s.lanes, sizes.cost)
				s.best = time.Hour
			}
			const jobs = 1000
			for b.Loop() {
				for i := range queues {
					start := time.Now()
					for range jobs {
						queues[i].turn()
					}
					queues[i].best = min(queues[i].best, time.Since(start))
				}
			}
			for _, s := range queues {
				b.ReportMetric(float64(s.bytes)/float64(s.jobs), "B/job:"+s.name)
				b.ReportMetric(float64(s.best)/jobs, "ns/job:"+s.name)
				b.ReportMetric(float64(s.best)/float64(queues[0].best), "x:"+s.name)
			}
		})
	}
}

// benchQueue fills a queue and turns it over until it is steady.
func benchQueue(jobs, lanes int, cost func(int) int64) (turn func(), bytes uint64) {
	tenants := make([]string, lanes)
	for i := range tenants {
		tenants[i] = "tenant-" + strconv.Itoa(i)
	}
	before := heapBytes()
	q := sched.New(sched.Config{AgingStep: 10 * time.Second})
	n := 0
	push := func(j *sched.Job, tenant string) {
		n++
		*j = sched.Job{
			Tenant: tenant, Group: "model", Class: 5, Cost: cost(n),
			Arrived: time.Duration(n) * time.Microsecond, Shared: benchShared,
		}
		q.Push(j)
	}
	for i := range jobs {
		push(new(sched.Job), tenants[i%lanes])
	}
	bytes = heapBytes() - before
	turn = func() {
		j := q.Next(time.Duration(n)*time.Microsecond, 9)
		q.Granted(j)
		push(j, j.Tenant)
	}
	for range 2 * lanes {
		turn()
	}
	return turn, bytes
}

// BenchmarkAlone is a job in an empty queue: a lane, a tenant and a group come
// and go with it.
func BenchmarkAlone(b *testing.B) {
	q := sched.New(sched.Config{AgingStep: 10 * time.Second})
	j := new(sched.Job)
	b.ReportAllocs()
	for b.Loop() {
		*j = sched.Job{Tenant: "a", Group: "model", Class: 5, Cost: 800, Shared: benchShared}
		q.Push(j)
		q.Granted(q.Next(0, 9))
	}
}

// BenchmarkBlocked is a look at a queue in which all wait behind one holder.
func BenchmarkBlocked(b *testing.B) {
	for _, lanes := range []int{5, 5000, 500_000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			q := sched.New(sched.Config{AgingStep: 10 * time.Second})
			for i := range lanes {
				q.Push(&sched.Job{Tenant: strconv.Itoa(i), Group: "model", Class: 5, Cost: 800, Shared: benchShared})
			}
			q.Denied(q.Next(0, 9), "account", false, time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				q.Next(0, 9)
			}
		})
	}
}

// BenchmarkPark is a flooding tenant that is denied by its own limit, and then
// freed, beside 1,000 others.
func BenchmarkPark(b *testing.B) {
	for _, jobs := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			q := sched.New(sched.Config{AgingStep: 10 * time.Second})
			for range jobs {
				q.Push(&sched.Job{Tenant: "flood", Group: "model", Class: 5, Cost: 800, Shared: benchShared})
			}
			for i := range 1000 {
				q.Push(&sched.Job{Tenant: strconv.Itoa(i), Group: "model", Class: 5, Cost: 800, Shared: benchShared})
			}
			b.ReportAllocs()
			for b.Loop() {
				q.Denied(q.Next(0, 9), "flood's own", true, time.Hour)
				q.Free("flood's own")
			}
		})
	}
}
