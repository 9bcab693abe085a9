// Command loadtest runs a workload through a fleet of processes against a strict
// simulated provider, and reports what the provider saw and what the jobs waited.
//
//	go run ./loadtest -scenario steady -procs 4 -minute 6s -duration 60s -json out.json
//	go run ./loadtest -scenario flood -minute 6s -compare -html flood.html
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
// # Scenarios
//
// A scenario is an entry in a table: streams of jobs, each a backlog that is kept
// full, or arrivals at random times, which come when they come, however slow the
// service is. A stream is in every dispatcher, or in those of one process. Its load
// is in tokens, in multiples of the limit, and is that of the whole fleet: free work
// at three times the limit in every process means that all of them together send
// three times the limit, evenly. Times of arrival are Poisson and sizes log-normal
// with a mean of 800 tokens, where the scenario says nothing else.
//
// Arrivals depend on the seed, the scenario and the size of the fleet, and not on
// the strategy: each gets the same jobs at the same times. Only a backlog, which is
// the scenario steady, sends the next job when one leaves; its jobs are the same,
// their times are not.
//
// The three tenants send jobs of exactly 3,000, 300 and 1,000 tokens in one class.
// In tenants each offers one and a half times its share by -weights. In neighbours
// the others stay at half of theirs, and the flooder sends one and a half times the
// whole limit: one and a half times its share would leave enough for all.
//
// In aged and fresh the same free work comes at three times the limit, behind paid
// work at half of it. Only the queues differ. With four minutes of the limit in them
// free work is served when it is eight minutes old, which is four times the bound of
// ageing; with half a minute, when it is one minute old. Run both, with -scenario
// aged,fresh, to see the ratio of what paid work waits.
//
// What may wait is bounded, for every strategy alike: four minutes of the limit in
// the fleet where the scenario says nothing else, at least 16 jobs in a dispatcher,
// and 20 minutes for a job. The ageing step is half a minute, so that free work
// behind paid work is overdue after two.
//
// # Strategies
//
// Paceline is measured beside what is done without it: retry sends everything at
// once and lets the provider refuse, local gives each dispatcher its part of the
// limits, poll keeps a token bucket per limit in Redis. Behind each of the three is
// an SDK that tries twice more what was refused, and then the job has failed. They
// know the limits per minute; the sixth of a minute of -enforcer azure, -inflight
// and -settle they do not know.
//
// -compare runs all of them one after another. Times of the rivals scale with
// -minute too: at 6s a dispatcher polls every five milliseconds, and a hundred of
// them take most of a machine with two cores.
//
// # What is measured
//
// Refused counts the 429 answers of the provider. Utilisation is the average over
// time, from the end of the second minute to the end of the load, of what the
// provider charged in the minute before, divided by the limit, whatever rule it
// enforces. A charge that is settled counts as settled.
//
// With -provider, paceline listens to what the provider's answers say of its limits.
// -configured has it begin with other limits than the true ones, or with none, and
// -others has somebody else use a part of the account: utilisation is then also given
// of the rest. Refusals are counted by process, with the time of the last one.
//
// The load ends at -duration. Jobs that are not done then are unfinished: those
// that wait are withdrawn, those that run are waited for. Lost are the jobs of
// processes that were not killed on purpose, and that never got a result.
// Duplicated are the jobs that the provider admitted more than once.
//
// A wait is the time from when a job came to the grant of the attempt that was
// admitted, in seconds and in minutes of the provider. A job of a stream of
// arrivals came at its time, even if the process was late in submitting it. The
// percentiles are of all jobs that came after the first minute, in aged and fresh
// after the fourth. One that was shed, failed or is unfinished counts with its wait
// so far, and at least with the median of those that were granted: a scheduler does
// not look faster for refusing work. Counts of jobs are of the whole run. Token
// shares are of the tokens granted after the same minute; the Jain index is over
// the tenants' shares divided by their weights.
//
// Ageing is reported for starve, over all free jobs that were let in. A violation is
// one that waited for more than the bound and a quarter of a minute, was evicted,
// timed out, or failed. The quarter is there because an overdue job still waits for
// its budget: see agingSlack.
//
// Round trips are the scripts that the ledger's Redis ran, by its own count, per
// job that the provider admitted. The count is of the whole server, so one that
// others use at the same time gives too much. Grants, inversions and wake-ups are
// what the ledger counted in its line, see ledger.LineState; they are absent when
// it keeps none.
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
// The plots of a comparison show the waits at their 95th percentile, of the jobs that
// were granted or gave up in each quarter of a minute, and of those that still waited at
// its end, with their wait so far; and the tokens that were admitted in the minute before
// each instant, as declared.
//
// # Concurrency
//
// Each task is written by one goroutine at a time: who submits it, the
// strategy's, then who runs it, then who takes its result.
//
// # Failure
//
// The exit status is 0 when the measurement was made, whatever it says; 1 when it
// could not be, or a process ended that nobody killed; 2 for bad flags. What was
// measured before is reported also then.
package main
