// Package provider says how providers count: which limits a call is charged to,
// and how much; and reads what they answer: limits, refusals and usage.
//
// # How it works
//
// A [Plan] is made from rules. Each rule has a limit and says whose it is: the
// account's, a model's, a tenant's, or any mix of them. For one job the rules that
// match give all the charges of its one reservation. What a limit is charged
// follows from its unit and from the estimate.
//
// A [Profile] is one provider's ways, as data. It reads an answer's limits from the
// headers ([Profile.Limits]), what a refusal means and how long to wait
// ([Profile.Refusal]), and what was used: [Profile.Usage] from a body,
// [Profile.NewReader] from an answer of any shape while it passes. What is billed
// and what counts against the limits are two numbers; [Profile.QuotaCharge] gives
// the second.
//
// # Concurrency
//
// A Plan is safe for concurrent use and starts nothing. So is a Profile that nobody
// changes any more. A [Reader] is one goroutine's.
//
// # Failure
//
// A plan that contradicts itself is refused when it is made. A job whose model is
// not in the plan is refused with [ErrUnknownModel]: no call goes out unlimited
// because of a misspelt name.
//
// What a provider answers is trusted in nothing: a number that cannot be is absent,
// a body that is cut is read as far as it goes, and no bytes make a Reader hold more
// than its bound.
package provider
