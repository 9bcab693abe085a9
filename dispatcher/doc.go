// Package dispatcher queues jobs in one process and runs each when its turn and
// its budget have come.
//
// # How it works
//
// [Dispatcher.Run] is one goroutine. It takes jobs from the queue in order, a
// worker for each, asks the ledger for all their budget in one batch, and starts
// what is granted in a pool of workers; what is denied goes back to its place, and
// the goroutine sleeps until something can have changed. A worker is held for the
// ledger's answer and for the run, never while waiting, and a granted job starts
// at once: a grant that waited would be a burst that the provider sees later.
//
// The order is that of package sched: classes by priority, tenants of a class in
// fair shares of tokens, old work in between. A job is queued, reserving, running
// or done, and takes each step once per attempt. However an attempt ends, by
// result, error, panic, Goexit, cancel or shutdown, it is settled once, and the
// job's one result arrives on its own channel.
//
// [Do] is for handlers: it waits for the result. [Dispatcher.Submit] is for work
// that nobody waits for. Both refuse at once, with a typed error that carries an
// honest wait, what can not be served: see [ShedError] and [TooLargeError].
//
// A ledger that declares that it never blocks is called on the dispatcher's own
// goroutine. Any other is called from two more: one asks and one settles, each
// with one batch on its way, so that a slow ledger makes larger batches.
//
// # Concurrency
//
// All methods are safe for concurrent use. New starts nothing; Run owns every
// goroutine and returns when all are gone.
//
// # Failure
//
// When the ledger does not answer, jobs wait in the queue until it does or their
// deadline passes; asking backs off to 2 s. Settlements are repeated until they
// arrive. A function that ignores its context keeps its worker, and Run, until it
// returns.
package dispatcher
