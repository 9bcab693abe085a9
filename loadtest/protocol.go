package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/paceline-go/paceline/job"
)

// Parent and worker talk in JSON values, one a line. The parent says setup, then
// start, then stop. The worker says ready, then what becomes of its jobs, then bye.

// order is what a worker is told; one of its fields is set.
type order struct {
	Setup *setup     `json:"setup,omitempty"`
	Start *time.Time `json:"start,omitempty"`
	Stop  bool       `json:"stop,omitempty"`
}

// setup is all that a worker has to know.
type setup struct {
	Options    options `json:"options"`
	Proc       int     `json:"proc"`        // from 0
	Ledger     string  `json:"ledger"`      // address
	LedgerName string  `json:"ledger_name"` // a new one for each run
	Provider   string  `json:"provider"`    // base URL
}

// news is what a worker tells; one of its fields is set.
type news struct {
	Ready   bool     `json:"ready,omitempty"`
	Records []record `json:"records,omitempty"`
	// Bye says that nothing is left: every job that has no result is lost.
	Bye bool `json:"bye,omitempty"`
}

// outcome is how a job ended.
type outcome string

const (
	done outcome = "done"
	shed outcome = "shed"
	// withdrawn jobs still waited when the load ended.
	withdrawn outcome = "withdrawn"
	failed    outcome = "failed"
)

// record is what is known of a job. A later record with the same Seq replaces an
// earlier one. Times are since the start of the load; zero means not yet.
type record struct {
	Seq       int64         `json:"seq"` // unique in its process
	Class     job.Priority  `json:"class"`
	Tenant    string        `json:"tenant"`
	Charge    int64         `json:"charge"` // tokens at admission
	Submitted time.Duration `json:"submitted"`
	Granted   time.Duration `json:"granted,omitempty"` // the last attempt
	Ended     time.Duration `json:"ended,omitempty"`
	Outcome   outcome       `json:"outcome,omitempty"`
	// Reason is why it was shed, as dispatcher.Reason says it.
	Reason string `json:"reason,omitempty"`
	// Cut says that its cap was lowered below the length of its answer.
	Cut bool `json:"cut,omitempty"`
	// Refused is when its attempts got a 429.
	Refused []time.Duration `json:"refused,omitempty"`
	// Sent and Counted are, for the last attempt, the least and the most time from
	// its grant to its admission: from when the grant was known to when the request
	// was written, and from when the reservation was asked for to the latest time
	// at which the provider can have admitted it.
	Sent    time.Duration `json:"sent,omitempty"`
	Counted time.Duration `json:"counted,omitempty"`
}

// outbox writes records from a goroutine of its own: a parent that reads slowly
// must not hold up a call that has been granted.
type outbox struct {
	mu      sync.Mutex
	records []record
	wake    chan struct{}
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (b *outbox) add(r record) {
	b.mu.Lock()
	b.records = append(b.records, r)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *outbox) take() []record {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records
	b.records = nil
	return r
}

// run writes what there is as it comes, and the rest when stop is closed. A
// parent that is gone is noticed by its orders ending: errors need no answer here.
func (b *outbox) run(w io.Writer, stop <-chan struct{}) {
	enc := json.NewEncoder(w)
	for {
		stopped := false
		select {
		case <-b.wake:
		case <-stop:
			stopped = true
		}
		if r := b.take(); len(r) > 0 {
			_ = enc.Encode(news{Records: r})
		}
		if stopped {
			return
		}
	}
}
