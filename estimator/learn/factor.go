package learn

import (
	"encoding"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
)

// Factor is how many tokens calls really had per token that was estimated. The zero
// Factor has seen nothing. It is a value: a copy is independent, == compares, and two
// that were learnt apart can be merged.
type Factor struct {
	n    float32 // observations, up to memory
	mean float32 // of ln(actual/estimate), weighted
	// ratio counts observations by ln(actual/estimate), from minRatio upwards in
	// steps of 5 %, and loses 1 % with each.
	ratio [ratios]float32
}

// A ratio beyond these is a mistake, or somebody's try to make one: it counts as the
// bound. Hindi has 2.8 times as many tokens in cl100k_base as in o200k_base, and one
// count in three bytes to a token is at most three times too high.
const (
	minRatio = 1. / 3
	maxRatio = 4.
)

const (
	// memory is for how many observations the mean goes back, fewSample for how many
	// the histogram does: a quantile needs more of them.
	memory      = 20
	ratioMemory = 100
	ratioKeep   = 1 - 1./ratioMemory

	ratioStep = 1.05
	ratios    = 51 // ln(maxRatio/minRatio) / ln(ratioStep), rounded up
)

var (
	_ encoding.BinaryMarshaler   = Factor{}
	_ encoding.BinaryUnmarshaler = (*Factor)(nil)
	_ encoding.TextMarshaler     = Factor{}
	_ encoding.TextUnmarshaler   = (*Factor)(nil)
)

// Observe learns from a call that was estimated at a number of tokens, without any
// factor, and had another. Numbers below 1 teach nothing.
func (f *Factor) Observe(estimate, actual int64) {
	if estimate < 1 || actual < 1 {
		return
	}
	r := math.Log(min(max(float64(actual)/float64(estimate), minRatio), maxRatio))
	f.n = min(f.n+1, memory)
	f.mean += (float32(r) - f.mean) / f.n
	for i := range f.ratio {
		f.ratio[i] *= ratioKeep
	}
	i := int((r - math.Log(minRatio)) / math.Log(ratioStep))
	f.ratio[min(i, ratios-1)]++
}

// Seen returns the number of observations behind the factor, from 0 to 20: more do not
// make it better, because it forgets.
func (f Factor) Seen() int { return int(f.n) }

// Mean returns the factor itself, 1 for the zero Factor.
func (f Factor) Mean() float64 { return math.Exp(float64(f.mean)) }

// Quantile returns the ratio that a share q of the calls stay below, at most 5 % too
// high; 4 for the zero Factor.
func (f Factor) Quantile(q float64) float64 {
	total := float32(0)
	for _, n := range f.ratio {
		total += n
	}
	left := float32(q) * total
	for i, n := range f.ratio {
		if left -= n; left <= 0 && n > 0 {
			return min(minRatio*math.Pow(ratioStep, float64(i+1)), maxRatio)
		}
	}
	return maxRatio
}

// Merge returns the factor of what either has seen. The order does not matter, but what
// is merged twice counts twice.
func (f Factor) Merge(g Factor) Factor {
	if f.n+g.n == 0 {
		return f
	}
	m := Factor{n: min(f.n+g.n, memory), mean: (f.n*f.mean + g.n*g.mean) / (f.n + g.n)}
	total := float32(0)
	for i := range m.ratio {
		m.ratio[i] = f.ratio[i] + g.ratio[i]
		total += m.ratio[i]
	}
	if total > ratioMemory {
		for i := range m.ratio {
			m.ratio[i] *= ratioMemory / total
		}
	}
	return m
}

// The binary form is a version, n, the mean, and the counts of the histogram in units
// of 1/16, the latter as varints: 60 to 80 bytes.
const (
	factorVersion = 1
	ratioUnit     = 16
)

var errFactor = errors.New("learn: not an encoded Factor")

// MarshalBinary encodes the factor, with the counts of the quantiles rounded.
func (f Factor) MarshalBinary() ([]byte, error) {
	b := []byte{factorVersion, byte(f.n)}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f.mean))
	for _, n := range f.ratio {
		b = binary.AppendUvarint(b, uint64(n*ratioUnit+.5))
	}
	return b, nil
}

// UnmarshalBinary decodes what MarshalBinary made. It leaves f alone and fails for
// anything else, numbers out of range included.
func (f *Factor) UnmarshalBinary(b []byte) error {
	if len(b) < 6 || b[0] != factorVersion || b[1] > memory {
		return errFactor
	}
	g := Factor{n: float32(b[1]), mean: math.Float32frombits(binary.LittleEndian.Uint32(b[2:]))}
	if !(float64(g.mean) >= math.Log(minRatio)-1e-6 && float64(g.mean) <= math.Log(maxRatio)+1e-6) { // nor NaN
		return errFactor
	}
	b = b[6:]
	for i := range g.ratio {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > (ratioMemory+1)*ratioUnit {
			return errFactor
		}
		g.ratio[i] = float32(n) / ratioUnit
		b = b[size:]
	}
	if len(b) > 0 {
		return errFactor
	}
	*f = g
	return nil
}

// MarshalText encodes the binary form in base64; encoding/json uses it.
func (f Factor) MarshalText() ([]byte, error) {
	b, err := f.MarshalBinary()
	return base64.StdEncoding.AppendEncode(nil, b), err
}

// UnmarshalText decodes what MarshalText made.
func (f *Factor) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return errFactor
	}
	return f.UnmarshalBinary(b)
}
