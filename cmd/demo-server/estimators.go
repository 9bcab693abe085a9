package main

import (
	"cmp"
	"log/slog"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
)

// estimators are those of the accounts, by the names that the jobs' models have here.
// They estimate by the model that a request names.
type estimators map[string]*estimator.Estimator

// newEstimators makes them, which learn together: by the provider, and from there by the
// model and the tenant.
func newEstimators(accounts []*account, factors *learn.Factors, lengths *learn.Lengths, log *slog.Logger) (estimators, error) {
	all := make(estimators)
	for _, a := range accounts {
		predicts := !a.profile.ReservesOutput()
		e, err := estimator.New(estimator.Config{
			DefaultOutput: cmp.Or(a.profile.Admission.DefaultOutput, defaultOutput), Logger: log.With("account", a.name),
			Provider: a.profile.Name, Factors: factors, Margin: true, Lengths: lengths,
			Predict: func(*job.Spec) bool { return predicts },
		})
		if err != nil {
			return nil, err
		}
		all[a.name] = e
	}
	return all, nil
}

// of returns the estimator of a job, and the job with the model that its request names.
func (e estimators) of(s job.Spec) (*estimator.Estimator, job.Spec) {
	one := e[s.Model] // the plan has no other models
	s.Model = ""
	return one, s
}

// Estimate implements dispatcher.Estimator.
func (e estimators) Estimate(s job.Spec) (job.Estimate, error) {
	one, s := e.of(s)
	return one.Estimate(s)
}

// Learn implements dispatcher.Learner.
func (e estimators) Learn(s job.Spec, u job.Usage) {
	one, s := e.of(s)
	one.Learn(s, u)
}

// lowerCap is the cap to send in the place of one that is so many times too large.
func (e estimators) lowerCap(s job.Spec, times float64) (int64, bool) {
	if times == 0 {
		return 0, false
	}
	one, s := e.of(s)
	return one.LowerCap(s, times)
}

// load loads the vocabularies of the accounts' models.
func (e estimators) load(accounts []*account) error {
	for _, a := range accounts {
		if err := e[a.name].Load(a.models...); err != nil {
			return err
		}
	}
	return nil
}
