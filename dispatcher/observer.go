package dispatcher

import (
	"time"

	"github.com/paceline-go/paceline/job"
)

// Observer is told what happens, for metrics and logs. It is called on the
// goroutine where it happens, never with a lock held, and must be fast and safe
// for concurrent use. What it is given it may read until it returns.
type Observer interface {
	// Started is called when an attempt was granted and is about to run.
	Started(s *job.Spec, wait time.Duration)
	// Finished is called once for each accepted job, with its result.
	Finished(s *job.Spec, r *job.Result)
	// Shed is called for a job that was refused, accepted before or not.
	Shed(s *job.Spec, e *ShedError)
	// LedgerCalled is called after each call of a ledger that may block: op is
	// "reserve", "settle" or "renew".
	LedgerCalled(op string, took time.Duration, err error)
}

// Stats is the state of a dispatcher at one time.
type Stats struct {
	// Waiting counts the jobs that wait, also those for their next attempt, by
	// class. Those whose reservation is on its way are in Running as well.
	Waiting [job.Classes]int
	// Running counts the jobs that hold a worker.
	Running int
	// Settling counts the settlements that have not reached the ledger yet.
	Settling int
}

// Stats returns the current state.
func (d *Dispatcher) Stats() Stats {
	d.mu.Lock()
	defer d.unlock()
	var s Stats
	for c := range s.Waiting {
		s.Waiting[c] = d.queue.LenClass(c) + d.paused[c]
	}
	s.Running = int(d.running.Load())
	s.Settling = d.settler.pending()
	return s
}
