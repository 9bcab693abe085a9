package estimator_test

import (
	"fmt"
	"log/slog"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
)

func Example() {
	e, err := estimator.New(estimator.Config{Outputs: map[string]int64{"gpt-4o": 800}})
	if err != nil {
		panic(err)
	}
	r, err := estimator.ParseChat([]byte(`{
		"model": "gpt-4o", "stream": true,
		"messages": [{"role": "user", "content": "Hello, how are you?"}]}`))
	if err != nil {
		panic(err)
	}
	est, err := e.Estimate(job.Spec{Model: r.Model, Request: r})
	if err != nil {
		panic(err)
	}
	fmt.Println(est.Input, est.Output, est.Declared, est.Method)
	// Output: 13 800 false exact
}

// A model that nobody knows has 1.5 times as many tokens as are counted, and its answers
// are far shorter than what calls declare.
func ExampleEstimator_Learn() {
	lengths, err := learn.NewLengths(learn.LengthsConfig{})
	if err != nil {
		panic(err)
	}
	e, err := estimator.New(estimator.Config{
		Provider: "acme",
		Factors:  learn.NewFactors(0),
		Lengths:  lengths,
		Predict:  func(*job.Spec) bool { return true },
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	r, err := estimator.ParseChat([]byte(`{"model": "acme-1", "max_tokens": 4096,
		"messages": [{"role": "user", "content": "Say something nice about the weather, please."}]}`))
	if err != nil {
		panic(err)
	}
	s := job.Spec{Tenant: "anna", Model: r.Model, Request: r}
	for range 50 {
		before, err := e.Measure(r.Model, r)
		if err != nil {
			panic(err)
		}
		used := job.Used(before.Input*3/2, 200)
		e.Learn(s, used)
	}
	est, err := e.Estimate(s)
	if err != nil {
		panic(err)
	}
	fmt.Println(est.Input, est.Output)
	// Output: 24 204
}
