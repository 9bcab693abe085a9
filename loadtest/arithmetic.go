package main

import (
	"cmp"
	"slices"
	"time"
)

// percentile is the smallest value that at least p percent do not exceed.
func percentile[T cmp.Ordered](sorted []T, p int) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

func quantilesOf(ds []time.Duration) quantiles {
	slices.Sort(ds)
	ms := func(p int) float64 { return milliseconds(percentile(ds, p)) }
	return quantiles{P50: ms(50), P99: ms(99), Max: ms(100)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// jain is Jain's index of fairness: 1 when all get the same, 1/n when one gets
// all. R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
func jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(xs)) * squares)
}

// share is a/b, and 0 of nothing.
func share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
