// Command loadtest runs a workload through a fleet of processes against a strict
// simulated provider, and reports what the provider saw and what the jobs waited.
//
//	go run ./loadtest -scenario steady -procs 4 -minute 6s -duration 60s -json out.json
//
// # How it works
//
// The command starts itself again: once as the provider (package simprovider over
// HTTP), so that the workers can not starve it of its clock, once per process of
// the fleet, and with -ledger auto once to mind a redis-server without persistence.
// Workers are told what to do, and tell what becomes of each job, in JSON lines over
// stdin and stdout; every change of a job is told when it happens, so a process
// that is killed takes little knowledge with it. All of them end when their stdin
// does, so nothing outlives the command, however it ends.
//
// Limits, windows, latencies and workloads all scale with -minute, the length of
// the provider's minute: at 6s, ten of them pass in real time in one. Jobs cost
// what the provider will charge, exactly: ceil(characters/4) of the prompt plus
// the declared cap, so what is measured is the scheduling, not the estimating.
//
// A scenario is an entry in a table: streams of jobs that every dispatcher has,
// each a backlog that is kept full or arrivals at random times, which come when
// they come, however slow the service is.
//
// # What is measured
//
// Refused counts the 429 answers of the provider. Utilisation is the average over
// time, from the end of the second minute to the end of the load, of what the
// provider charged in the minute before, divided by the limit, whatever rule it
// enforces. A charge that is settled counts as settled.
//
// The load ends at -duration. Jobs that are not done then are unfinished: those
// that wait are withdrawn, those that run are waited for. Lost are the jobs of
// processes that were not killed on purpose, and that never got a result.
// Duplicated are the jobs that the provider admitted more than once.
//
// A wait is the time from submission to grant. The percentiles are of all jobs
// submitted after the first minute. One that was shed or is unfinished counts with
// its wait so far, and at least with the median of those that were granted: a
// scheduler does not look faster for refusing work. Counts of jobs are of the
// whole run. Token shares are of the tokens granted after the first minute; the
// Jain index is over the tenants' shares divided by their weights.
//
// Round trips are the scripts that the ledger's Redis ran, by its own count, per
// job that the provider admitted. The count is of the whole server, so one that
// others use at the same time gives too much.
//
// From grant to sent is the time from when a grant was known to when its request
// was written; it is part of the time from the grant to the provider's admission.
// From grant to counted is surely all of it: from when the reservation was asked
// for to the latest time at which the provider can have admitted the call, which is
// when the answer came less what the answer takes to make. A job that took longer
// than the guard of the ledger was counted later than the ledger reckons with:
// surely if the first figure says so, perhaps if only the second does. When
// something is refused, look here first, and then for complaints about the ledger:
// a reservation whose first answer was lost is older than its last asking.
//
// # Concurrency
//
// Each task is written by one goroutine at a time: who submits it, the
// dispatcher's, then who runs it, then who takes its result.
//
// # Failure
//
// The exit status is 0 when the measurement was made, whatever it says; 1 when it
// could not be, or a process ended that nobody killed; 2 for bad flags.
package main
