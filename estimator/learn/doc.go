// Package learn remembers what calls used in the end, to say better what the next
// one will use: [Factors] corrects counts of input that were made with another
// model's vocabulary, and [Lengths] predicts outputs, which are most often far
// shorter than what calls declare.
//
// # How it works
//
// A [Factor] is a moving average of ln(actual/estimate) and a histogram of the same
// ratio. [Factors] keeps one per provider, one per model and one per route, and
// trusts the more special one the more it has seen.
//
// [Lengths] keeps a histogram of the lengths of outputs per model and one per route. An
// output that was cut is only known to be at least that long, which is what the
// Kaplan-Meier estimator is for. While too many outputs are longer than predicted, a
// higher quantile is used and the past is forgotten faster.
//
// [Factors.Share] keeps the factors of several processes alike, through a [Store] such as
// the one of package redisledger.
//
// Both forget: what changed a while ago counts for more than what has always been.
//
// # Concurrency
//
// Factors and Lengths are safe for concurrent use, and start no goroutine. A Factor is a
// value.
//
// # Failure
//
// Names of models and routes may come from outside, so the memory is bounded: of
// names that are made up each takes the place of another, and those that have been
// seen often stay.
package learn
