package main

import (
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
)

// report is what a run came to, as it is written in JSON. The package comment says
// what each figure means.
type report struct {
	Scenario    string  `json:"scenario"`
	Strategy    string  `json:"strategy"`
	Procs       int     `json:"procs"`
	Dispatchers int     `json:"dispatchers"`
	MinuteS     float64 `json:"minute_s"`
	DurationS   float64 `json:"duration_s"`
	Limit       struct {
		RPM int64 `json:"rpm"`
		TPM int64 `json:"tpm"`
	} `json:"limit"`
	Imitates string             `json:"imitates,omitempty"`
	Enforcer simprovider.Rule   `json:"enforcer,omitempty"`
	Settle   simprovider.Settle `json:"settle,omitempty"`
	Seed     uint64             `json:"seed"`
	Provider providerReport     `json:"provider"`
	Classes  []groupReport      `json:"classes"`
	Tenants  []tenantReport     `json:"tenants"`
	Jain     float64            `json:"jain"`
	Ledger   struct {
		RoundTripsPerJobServed float64 `json:"round_trips_per_job_served"`
	} `json:"ledger"`
	// What the ledger's line counted, absent when it keeps none. A wake-up is a
	// message that a job may go sooner than it was told.
	Grants              *int64   `json:"grants,omitempty"`
	Inversions          *int64   `json:"inversions,omitempty"`
	WakeupsPerJobServed *float64 `json:"wakeups_per_job_served,omitempty"`

	Lost       int64 `json:"lost"`
	Duplicated int64 `json:"duplicated"`
	Failed     int64 `json:"failed"` // ended with an error other than being shed

	Cut int64 `json:"cut,omitempty"` // answers that a lowered cap cut short

	GrantToSentMS    quantiles       `json:"grant_to_sent_ms"`
	GrantToCountedMS quantiles       `json:"grant_to_counted_ms"`
	GuardMS          float64         `json:"guard_ms"`
	Late             lateReport      `json:"late"`
	Killed           *killReport     `json:"killed,omitempty"`
	InFlight         *inFlightReport `json:"in_flight,omitempty"`
	Surge            *surgeReport    `json:"surge,omitempty"`
	Aged             *agedReport     `json:"aged,omitempty"`
	AgedToFresh      *ratioReport    `json:"aged_to_fresh,omitempty"`

	about    string        // the scenario
	compared []groupReport // what a comparison shows
	overTime overTime
}

type providerReport struct {
	Accepted            int64   `json:"accepted"`
	Refused             int64   `json:"refused"`
	TokensCharged       int64   `json:"tokens_charged"`
	Utilisation         float64 `json:"utilisation"`          // of the token limit, or of Binding
	RequestsUtilisation float64 `json:"requests_utilisation"` // of the request limit
	Binding             string  `json:"binding,omitempty"`    // the limit that was used most, of a provider's own
	// OthersUtilisation is that of other traffic, and RestUtilisation what was used of
	// the rest that it left.
	OthersUtilisation float64 `json:"others_utilisation,omitempty"`
	RestUtilisation   float64 `json:"rest_utilisation,omitempty"`
	// RefusedMost is the largest number of refusals that one process saw, and
	// RefusedLastMinutes when the last one was.
	RefusedMost        int     `json:"refused_most,omitempty"`
	RefusedLastMinutes float64 `json:"refused_last_minutes,omitempty"`
}

// groupReport is about the jobs of a class or a tenant. It counts a job in exactly
// one of done, shed, unfinished, failed and killed.
type groupReport struct {
	Name string `json:"name"`
	Jobs int64  `json:"jobs"`
	Done int64  `json:"done"`
	Shed int64  `json:"shed"`
	// ShedFor counts those by dispatcher.Reason.
	ShedFor    map[string]int64 `json:"shed_for,omitempty"`
	Unfinished int64            `json:"unfinished"`
	Failed     int64            `json:"failed"`
	Killed     int64            `json:"killed"` // with their process
	WaitS      waitReport       `json:"wait_s"`
	// WaitMinutes is the same in minutes of the provider.
	WaitMinutes waitReport `json:"wait_minutes"`
	TokenShare  float64    `json:"token_share"`

	lost, tokens    int64
	granted, others []time.Duration // waits, and those so far of jobs not granted
}

type waitReport struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type tenantReport struct {
	groupReport
	Weight int64 `json:"weight"`
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// lateReport counts the jobs that were admitted later after their grant than the
// guard allows: surely, or perhaps.
type lateReport struct {
	Surely  int64 `json:"surely"`
	Perhaps int64 `json:"perhaps"`
}

// killReport is about the process that was killed on purpose.
type killReport struct {
	AtS  float64 `json:"at_s"`
	Jobs int64   `json:"jobs"` // that it took with it
	// Running is how many of them had been granted.
	Running int64 `json:"running"`
	// Utilisation is as above, from a minute after the kill: all of what it
	// averages came from the others.
	Utilisation float64 `json:"utilisation_after"`
}

type inFlightReport struct {
	Limit int64 `json:"limit"`
	// Left is how many leases the ledger still holds when all have drained.
	Left int64 `json:"left"`
}

// surgeReport is about the jobs that came while the load was above the limit.
type surgeReport struct {
	Jobs int64 `json:"jobs"`
	Done int64 `json:"done"`
	// GrantedMinutes and DoneMinutes are from the end of the surge to when the
	// last of them was granted, and done, in minutes of the provider.
	GrantedMinutes float64 `json:"granted_minutes"`
	DoneMinutes    float64 `json:"done_minutes"`
}
