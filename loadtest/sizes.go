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

// size is what one job asks for and gets, in tokens.
type size struct {
	input  int64
	cap    int64 // declared
	output int64 // of the answer, at most cap
}

// charge is what the provider charges at admission.
func (s size) charge() int64 { return s.input + s.cap }

// sizes draws sizes.
type sizes struct {
	cap        int64   // declared by every job; 0 for outputPercent of the job
	outputMean float64 // of the answers; 0 for as long as the cap
}

func (o options) sizes() sizes { return sizes{cap: o.Cap, outputMean: o.OutputMean} }

func (s sizes) draw(r *rand.Rand) size {
	total := min(max(logNormal(r, meanSize), minSize), maxSize)
	sz := s.of(total)
	if s.outputMean > 0 {
		sz.output = min(max(logNormal(r, s.outputMean), 1), sz.cap)
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

func (s sizes) meanCharge() float64 { return float64(s.of(meanSize).charge()) }

// logNormal draws a whole number with that mean; with this location the mean does
// not depend on sigma.
func logNormal(r *rand.Rand, mean float64) int64 {
	return int64(math.Round(math.Exp(math.Log(mean) - sigmaSize*sigmaSize/2 + sigmaSize*r.NormFloat64())))
}
