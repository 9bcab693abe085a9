package estimator

import (
	"math"

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
	limit := int64(0)
	if r.Declared {
		if limit = r.OutputCap; limit == 0 || e.cfg.Predict == nil || !e.cfg.Predict(s) {
			return
		}
	}
	n, learnt := e.cfg.Lengths.Predict(k, limit)
	if !learnt {
		n = e.cfg.output(k.Model)
		if r.Declared {
			n = min(n, limit)
		}
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

// Learn teaches Factors and Lengths what a job has used in the end; cut says that a
// cap cut its output short (finish_reason length). It counts the request again, which
// the memo makes cheap, because what counts is the estimate before any correction. A
// call teaches nothing if its usage is not known; about input, nothing if it was counted
// exactly, was sampled, or holds images, audio or files; and the error is that of
// Estimate.
func (e *Estimator) Learn(s job.Spec, u job.Usage, cut bool) error {
	if e.cfg.Factors == nil && e.cfg.Lengths == nil || u.Known != job.Metered {
		return nil
	}
	r, err := requestOf(&s)
	if err != nil {
		return err
	}
	k := e.key(&s, r)
	if e.cfg.Lengths != nil && !r.embeddings {
		declared := int64(0)
		if r.Declared {
			declared = r.OutputCap
		}
		e.cfg.Lengths.Observe(k, declared, ceilDiv(min(u.Output, MaxTokens), max(r.Choices, 1)), cut)
	}
	if e.cfg.Factors == nil {
		return nil
	}
	res, err := e.Measure(s.Model, r)
	if err != nil {
		return err
	}
	if res.media == 0 && res.Method != Exact && res.Method != Sampled {
		e.cfg.Factors.Observe(k, res.Input, u.Input)
	}
	return nil
}
