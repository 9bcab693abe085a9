// Package ledger keeps the balances of limits: it reserves what a call will
// cost before the call leaves, and settles it with what the call did cost.
//
// # How it works
//
// A limit over a window is two things at once. A sliding window holds every
// charge until the provider can no longer count it: in any interval of the
// window's length, however placed, what was granted is at most the limit. A
// pacing bucket before it spreads the grants at the rate that the window
// sustains; a window alone, once full, would repeat its first burst for ever,
// and urgent work would wait for most of a window even in perfect order.
//
// The window is a ring of 256 slots plus a few for the guard. A charge is filed
// under the slot in which it leaves, grant + guard + window rounded up, so a
// call costs the same work whatever its size, and a refund finds the place its
// charge was made in. The guard is there because the provider counts a call
// some time between its grant and the first byte of its answer.
//
// The bucket is a level in whole units with the remainder of the last refill
// beside it, so nothing is lost to rounding however often it is asked. A job
// larger than the bucket goes when the bucket is full and leaves it in debt: the
// same long-run rate as a bucket as large as that job, without having to
// remember how large jobs have been.
//
// A limit of calls in flight is a set of leases.
//
// A ledger that is a [Line] also keeps the order in which the waiting jobs of all
// processes are served, and decides each request that has a [Place] by it. How,
// and why so, is in docs/design.md.
//
// [Memory] is the ledger of one process; package redisledger has the one that a
// fleet shares. Package ledgertest states the contract as tests that both pass.
//
// # Concurrency
//
// A Ledger is safe for concurrent use. Limits are read-only once used.
//
// # Failure
//
// "Not now", "never" and "cannot say" are different answers: Denied, TooLarge,
// and an error. After an error the caller asks again with the same id, or
// settles it with Cancel set, which also refuses a request still under way.
package ledger
