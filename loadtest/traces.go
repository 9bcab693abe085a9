package main

import (
	"fmt"
	"math/rand/v2"
)

// trace is what was recorded at a provider, boiled down to how the gaps between
// arrivals and the sizes of requests are distributed. Their order is lost: a gap
// says nothing about the next one, although the long silences and the bursts
// between them stay.
type trace struct{ gaps, sizes curve }

// curve is a distribution by its quantiles at levels, with straight lines between
// them. Its unit does not matter where it is divided by its mean.
type curve [len(levels)]float64

// levels are the parts of all values that are at most the quantile. The largest
// thousandth is cut off: the last quantile counts as the largest value.
var levels = [...]float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1}

// The quantiles of gaps are in milliseconds, and those of sizes (input and output)
// in tokens until scaled.
//
// Chat and code are made from AzureLLMInferenceTrace_conv.csv and _code.csv in
// Azure/AzurePublicDataset, commit b469a113: Patel et al., "Splitwise: Efficient
// generative LLM inference using phase splitting", ISCA 2024. They are licensed
// under CC BY 4.0, https://creativecommons.org/licenses/by/4.0/; changed: reduced
// to quantiles, and sizes scaled. Batches are made from
// FAST25-release/traces/conversation_trace.jsonl in kvcache-ai/Mooncake, commit
// 3b5a5941, Apache-2.0, where arrivals are told in steps of three seconds; changed
// in the same way.
var (
	chat = trace{
		gaps:  curve{0, 16, 37, 61, 87, 119, 159, 214, 289, 421, 565, 749, 890, 1034, 1411},
		sizes: curve{64, 368, 473, 506, 800, 1412, 1469, 1522, 1628, 2820, 4136, 4186, 4259, 4915, 6301}.scaled(maxSize),
	}
	code = trace{
		gaps:  curve{0, 0, 1, 3, 15, 64, 95, 100, 160, 273, 401, 799, 2205, 9979, 79232},
		sizes: curve{12, 167, 411, 798, 1099, 1493, 1937, 2455, 3223, 5208, 7331, 7449, 7462, 7479, 7566}.scaled(maxSize),
	}
	batches = trace{
		gaps:  curve{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3000, 3001, 3001, 3001, 3001},
		sizes: curve{895, 1343, 2038, 3635, 5291, 7255, 9886, 13574, 18246, 27723, 40052, 66760, 85851, 101068, 121894}.scaled(maxSize),
	}
)

// chatOutputs are the lengths of the answers in the same trace as chat, in tokens.
var chatOutputs = curve{7, 54, 77, 91, 103, 129, 176, 383, 400, 424, 450, 536, 596, 630, 954}

// skewed are tenants of whom one sends two fifths of the requests and three send
// three fifths. They are the largest of data/reason/deepseek-r1 in alibaba/ServeGen,
// commit f891d118, Apache-2.0, and ten in place of its many small ones.
var skewed = func() []tenant {
	var all []tenant
	for i, percent := range []float64{42, 9, 8, 6, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3} {
		all = append(all, tenant{fmt.Sprintf("tenant-%02d", i), 1, percent / 100})
	}
	return all
}()

func (c curve) draw(r *rand.Rand) float64 {
	x := r.Float64()
	i := 1
	for x > levels[i] {
		i++
	}
	return c[i-1] + (c[i]-c[i-1])*(x-levels[i-1])/(levels[i]-levels[i-1])
}

func (c curve) mean() float64 {
	var sum float64
	for i := 1; i < len(c); i++ {
		sum += (levels[i] - levels[i-1]) * (c[i-1] + c[i]) / 2
	}
	return sum
}

// scaled makes the largest value the one given.
func (c curve) scaled(largest float64) curve {
	last := c[len(c)-1]
	for i := range c {
		c[i] *= largest / last
	}
	return c
}
