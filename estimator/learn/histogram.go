package learn

import "math"

// histogram is the distribution of the lengths of outputs, in tokens. The zero histogram
// has seen nothing. It takes 2 KB.
type histogram struct {
	// ended and cut count the outputs of a length, in buckets that grow by 5 %: those
	// that ended by themselves, and those that a cap cut, which are at least so long.
	ended, cut [buckets]float32
	// weight is what the next observation counts. It grows in the place of all
	// others getting smaller.
	weight float32
	total  float32 // of all counts
	seen   int     // observations
	misses float64 // share of the outputs that were longer than predicted, lately
}

const (
	bucketStep = 1.05
	buckets    = 256 // up to 1.05^255, 253,000 tokens

	// slowly and fast are how much more an observation counts than the one before:
	// half of the weight is on the last 350, or on the last 35 of those that were missed
	// while too many are.
	slowly, fast = 1.002, 1.02
	maxWeight    = 1 << 16

	// recent is for how many outputs misses goes back.
	recent = 50

	rounding = 1e-3
)

var perBucket = 1 / math.Log(bucketStep)

// bucketOf returns the bucket of a length: bucket b ends at bucketStep^b.
func bucketOf(tokens int64) int {
	b := int(math.Ceil(math.Log(float64(max(tokens, 1)))*perBucket - 1e-9))
	return min(b, buckets-1)
}

func bucketEnd(b int) int64 { return int64(math.Pow(bucketStep, float64(b)) + rounding) }

// observe learns from an output: its tokens, whether it was cut short (finish_reason
// length), and whether it was longer than predicted. wrong is the share of those that
// there should be.
func (h *histogram) observe(tokens int64, cut, missed bool, wrong float64) {
	if h.seen++; h.seen > enough { // before that nothing was predicted
		m := 0.
		if missed || cut {
			m = 1
		}
		h.misses += (m - h.misses) / recent
	}
	grow := float32(slowly)
	if missed && h.misses > 4*wrong { // one that was cut need not have been missed
		grow = fast
	}
	switch {
	case h.weight == 0:
		h.weight = 1
	case h.weight > maxWeight:
		for i := range buckets {
			h.ended[i] /= h.weight
			h.cut[i] /= h.weight
		}
		h.total /= h.weight
		h.weight = grow
	default:
		h.weight *= grow
	}
	h.total += h.weight
	if b := bucketOf(tokens); cut {
		h.cut[b] += h.weight
	} else {
		h.ended[b] += h.weight
	}
}

// quantile returns the length that a share q of the outputs stay within, up to 5 % too
// high. known is false when that is more than any output that was not cut: then the
// length is that of the longest.
func (h *histogram) quantile(q float64) (tokens int64, known bool) {
	longer := 1. // share of the outputs that are longer
	left := float64(h.total)
	last := 0
	for b := range buckets {
		ended, cut := float64(h.ended[b]), float64(h.cut[b])
		if ended+cut == 0 {
			continue
		}
		last = b
		left = max(left, ended+cut) // sums of floats differ in their last digits
		longer *= 1 - ended/left
		if longer <= 1-q+1e-5 {
			return bucketEnd(b), true
		}
		left -= ended + cut
	}
	return bucketEnd(last), false
}
