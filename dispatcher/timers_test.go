package dispatcher

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// temporalio/temporal#9370, netresearch/go-cron#51, smartcontractkit/chainlink#12121:
// heaps whose items did not know their place gave wrong ones, and removed others.
func TestTimers(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	d := &Dispatcher{}
	var in []*task
	for step := range 5000 {
		switch n := rnd.IntN(10); {
		case n < 4 || len(in) == 0:
			x := new(task)
			d.watch(x, time.Duration(rnd.IntN(1000)))
			in = append(in, x)
		case n < 7:
			d.watch(in[rnd.IntN(len(in))], time.Duration(rnd.IntN(1000)))
		case n < 9:
			i := rnd.IntN(len(in))
			x := in[i]
			in = slices.Delete(in, i, i+1)
			d.timers.remove(x)
			d.timers.remove(x) // twice is as good as once
		default:
			x := heap.Pop(&d.timers).(*task)
			for _, o := range in {
				if o.at < x.at {
					t.Fatalf("seed %d: %v came out before %v", seed, x.at, o.at)
				}
			}
			in = slices.DeleteFunc(in, func(o *task) bool { return o == x })
		}
		if len(d.timers) != len(in) {
			t.Fatalf("seed %d, step %d: %d timers for %d jobs", seed, step, len(d.timers), len(in))
		}
		for i, x := range d.timers {
			if x.timer != i+1 {
				t.Fatalf("seed %d, step %d: place %d, and it says %d", seed, step, i+1, x.timer)
			}
		}
	}
}
