package dispatcher

import (
	"math"
	"time"
)

// guard measures the time between a grant and the first byte of the answer, by
// which the provider has surely counted the call. Its p99.9 raises the guard of
// the limits. It is a histogram of 5 % steps that forgets: half of a
// measurement's weight is gone after about 7,000 more.
type guard struct {
	weight float64 // of the next measurement
	total  float64
	steps  [guardSteps]float64
}

const (
	guardSteps  = 256
	guardGrowth = 1.05
	guardFirst  = float64(100 * time.Microsecond)
	guardLeast  = 1000 // measurements before a p99.9 says anything
)

func (g *guard) add(d time.Duration) {
	if g.weight == 0 {
		g.weight = 1
	}
	i := int(math.Ceil(math.Log(max(float64(d), guardFirst)/guardFirst) / math.Log(guardGrowth)))
	g.steps[min(i, guardSteps-1)] += g.weight
	g.total += g.weight
	g.weight *= 1.0001
	if g.weight > 1e100 {
		for i := range g.steps {
			g.steps[i] /= g.weight
		}
		g.total /= g.weight
		g.weight = 1
	}
}

// p999 is the measured p99.9, or 0 when too little was measured.
func (g *guard) p999() time.Duration {
	if g.weight == 0 || g.total/g.weight < guardLeast*0.9 {
		return 0
	}
	beyond := g.total / 1000
	for i := guardSteps - 1; i >= 0; i-- {
		if beyond -= g.steps[i]; beyond < 0 {
			return time.Duration(guardFirst * math.Pow(guardGrowth, float64(i)))
		}
	}
	return 0
}
