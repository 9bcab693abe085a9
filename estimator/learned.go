package estimator

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
)

// correct applies what was learnt to an estimate.
func (e *Estimator) correct(s *job.Spec, r *Request, res *Result) {
	if e.cfg.Factors == nil && e.cfg.Lengths == nil {
		return
	}
	k := e.key(s, r)
	if e.cfg.Factors != nil && res.Method != Exact {
		scale := e.cfg.Factors.Scale(k)
		factor := scale.Mean
		if e.cfg.Margin {
			factor = scale.P95
		}
		text := math.Round(float64(res.Input-res.media) * factor)
		res.Input = max(saturatingAdd(int64(min(text, MaxTokens)), res.media), 1)
		res.Upper = max(res.Upper, res.Input)
	}
	if e.cfg.Lengths == nil || r.embeddings {
		return
	}
	alone, limit := e.cfg.Predict != nil && e.cfg.Predict(s), r.declared()
	if r.Declared && limit == 0 {
		return
	}
	n, learnt := e.cfg.Lengths.Predict(k, limit)
	if r.Declared && !alone {
		if learnt && n < limit {
			res.Expected = saturatingMul(n, max(r.Choices, 1))
		}
		return
	}
	switch usual := e.cfg.output(k.Model); {
	case !learnt && r.Declared:
		n = min(usual, limit)
	case !learnt:
		n = usual
	case !alone:
		n = max(n, usual)
	}
	res.Output, res.Declared = saturatingMul(n, max(r.Choices, 1)), false
}

func (e *Estimator) key(s *job.Spec, r *Request) learn.Key {
	k := learn.Key{Provider: e.cfg.Provider, Model: s.Model, Route: e.cfg.Route(s)}
	if k.Model == "" {
		k.Model = r.Model
	}
	return k
}

// Learn teaches Factors and Lengths what a job has used in the end; a dispatcher calls
// it by itself. It counts the request again, which the memo makes cheap, because what
// counts is the estimate before any correction. A call teaches nothing if its usage is not
// known, or its request is none; about input, nothing if it was counted exactly, was
// sampled, or holds images, audio or files.
func (e *Estimator) Learn(s job.Spec, u job.Usage) {
	if e.cfg.Factors == nil && e.cfg.Lengths == nil || u.Known != job.Metered || u.Input < 1 {
		return
	}
	r, err := requestOf(&s)
	if err != nil {
		return
	}
	k := e.key(&s, r)
	if e.cfg.Lengths != nil && !r.embeddings {
		e.cfg.Lengths.Observe(k, r.declared(), ceilDiv(min(u.Output, MaxTokens), max(r.Choices, 1)), u.Cut)
	}
	if e.cfg.Factors == nil {
		return
	}
	res, err := e.Measure(s.Model, r)
	if err == nil && res.media == 0 && res.Method != Exact && res.Method != Sampled {
		e.cfg.Factors.Observe(k, res.Input, u.Input)
	}
}

// declared is the cap on each choice, 0 for none.
func (r *Request) declared() int64 {
	if !r.Declared {
		return 0
	}
	return r.OutputCap
}

// LowerCap returns the cap on each choice to send in the place of the one that a job
// declares, if that is more than so many times what Lengths has learnt to expect: see
// [learn.LowerCap]. It is for providers that count the declared cap at admission. ok is
// false when the declared cap should stay, because it is not so large, or nothing is
// known yet.
func (e *Estimator) LowerCap(s job.Spec, times float64) (n int64, ok bool) {
	r, err := requestOf(&s)
	if err != nil || e.cfg.Lengths == nil || r.declared() == 0 {
		return 0, false
	}
	predicted, learnt := e.cfg.Lengths.Predict(e.key(&s, r), r.OutputCap)
	if !learnt {
		return 0, false
	}
	n = learn.LowerCap(r.OutputCap, predicted, times)
	return n, n < r.OutputCap
}

// capFields are the names that APIs have for the cap on an output.
var capFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// SetOutputCap returns a body of which every cap on the output that is above n is n, and
// all else as it was; and the body itself if it is no JSON object.
func SetOutputCap(body []byte, n int64) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return body
	}
	out, done := make([]byte, 0, len(body)), 0
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return body
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return body
		}
		end := int(d.InputOffset())
		name, _ := key.(string)
		if was, err := strconv.ParseFloat(string(value), 64); err == nil && was > float64(n) && slices.Contains(capFields, name) {
			out = append(out, body[done:end-len(value)]...)
			out = strconv.AppendInt(out, n, 10)
			done = end
		}
	}
	return append(out, body[done:]...)
}
