// Package provider says how providers count: which limits a call is charged to,
// and how much.
//
// # How it works
//
// A [Plan] is made from rules. Each rule has a limit and says whose it is: the
// account's, a model's, a tenant's, or any mix of them. For one job the rules that
// match give all the charges of its one reservation. What a limit is charged
// follows from its unit and from the estimate.
//
// # Concurrency
//
// A Plan is safe for concurrent use and starts nothing.
//
// # Failure
//
// A plan that contradicts itself is refused when it is made. A job whose model is
// not in the plan is refused with [ErrUnknownModel]: no call goes out unlimited
// because of a misspelt name.
package provider
