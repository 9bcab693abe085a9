package estimator_test

import (
	"fmt"

	"github.com/paceline-go/paceline/estimator"
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
