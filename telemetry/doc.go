// Package telemetry shows a dispatcher to Prometheus.
//
// # How it works
//
// [Metrics] is an observer of the dispatcher and a collector: give it to both.
//
//	m := telemetry.New(telemetry.Config{Ledger: l, Limits: plan.Limits})
//	d, err := dispatcher.New(dispatcher.Config{Observer: m, …})
//	m.Watch(d.Stats)
//	registry.MustRegister(m)
//
// What happens is counted when it happens. The state of the queue and of the
// limits is read when it is asked for; balances are at most a second old.
//
// Callers invent tenants, so the first 50 have a label of their own, and all
// others together are "other".
//
// # Concurrency
//
// A Metrics is safe for concurrent use, starts no goroutine and uses no global
// registry.
//
// # Failure
//
// A ledger that does not answer within half a second costs a scrape that time, at
// most once a second, and the balances: an old balance is not shown.
package telemetry
