package main

import (
	"math"
	"math/rand/v2"
)

// The sizes of jobs, in tokens as charged at admission: log-normal, so that most
// are small and a few cost a twentieth of a minute's budget.
const (
	meanSize      = 800 // before the bounds, which take less than 1 % off
	sigmaSize     = 0.8
	minSize       = 50
	maxSize       = 8000
	outputPercent = 30 // of a job is the cap it declares, and the rest its prompt
)

// lengths is where the sizes of jobs come from, in tokens.
type lengths interface {
	draw(r *rand.Rand) float64
	mean() float64
}

// usual is for streams that say nothing else.
var usual = logNormal(meanSize)

// logNormal draws sizes with that mean; with this location the mean does not
// depend on sigma.
type logNormal float64

func (m logNormal) draw(r *rand.Rand) float64 {
	return math.Exp(math.Log(float64(m)) - sigmaSize*sigmaSize/2 + sigmaSize*r.NormFloat64())
}

func (m logNormal) mean() float64 { return float64(m) }

// exactly makes all jobs the same.
type exactly int64

func (n exactly) draw(*rand.Rand) float64 { return float64(n) }

func (n exactly) mean() float64 { return float64(n) }

// size is what one job asks for and gets, in tokens.
type size struct {
	input  int64
	cap    int64 // declared
	output int64 // of the answer, at most cap
}

// charge is what the provider charges at admission.
func (s size) charge() int64 { return s.input + s.cap }

// sizes makes sizes of lengths.
type sizes struct {
	cap     int64   // declared by every job; 0 for outputPercent of the job
	outputs lengths // of the answers; nil for as long as the cap
}

func (o options) sizes() sizes {
	s := sizes{cap: o.Cap}
	switch {
	case o.Outputs == "chat":
		s.outputs = chatOutputs
	case o.OutputMean > 0:
		s.outputs = logNormal(o.OutputMean)
	}
	return s
}

func (s sizes) draw(r *rand.Rand, l lengths) size {
	sz := s.of(min(max(whole(l.draw(r)), minSize), maxSize))
	if s.outputs != nil {
		sz.output = min(max(whole(s.outputs.draw(r)), 1), sz.cap)
	}
	return sz
}

// of is the size of a job of that many tokens whose answer is as long as declared.
func (s sizes) of(total int64) size {
	output := max(total*outputPercent/100, 1)
	sz := size{input: total - output, cap: output}
	if s.cap > 0 {
		sz.cap = s.cap
	}
	sz.output = sz.cap
	return sz
}

func (s sizes) largest() size { return s.of(maxSize) }

func (s sizes) meanCharge(l lengths) float64 { return float64(s.of(whole(l.mean())).charge()) }

func whole(x float64) int64 { return int64(math.Round(x)) }
