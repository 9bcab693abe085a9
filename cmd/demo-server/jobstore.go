package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

const (
	// keepJobs is how long a job can be asked for after it ended.
	keepJobs = 10 * time.Minute
	maxJobs  = 10_000
	// maxJobBytes bounds the bodies of jobs that are not done and the answers of
	// those that are.
	maxJobBytes = 256 << 20
	// tenantShare is the part of all jobs that one tenant may have: a quarter.
	tenantShare = 4
)

type jobStatus string

const (
	jobQueued    jobStatus = "queued"
	jobRunning   jobStatus = "running"
	jobDone      jobStatus = "done"
	jobFailed    jobStatus = "failed"
	jobCancelled jobStatus = "cancelled"
)

// storedJob is a job that somebody may ask for. What is below the line is guarded
// by the store's mutex.
type storedJob struct {
	id, tenant string
	created    time.Time

	status  jobStatus
	ticket  *dispatcher.Ticket // nil before it was submitted and once it ended
	bytes   int64
	answer  []byte // the completion, when it is done
	failure []byte // OpenAI's error object, when it failed
	expires time.Time
}

// jobView is the state of a job at one time.
type jobView struct {
	status          jobStatus
	answer, failure []byte
}

// jobStore keeps jobs in memory. They end with the process.
type jobStore struct {
	running sync.WaitGroup // one per job that has not ended

	mu      sync.Mutex
	jobs    map[string]*storedJob
	tenants map[string]int // jobs by tenant
	ended   []*storedJob   // in the order in which they expire
	bytes   int64
}

func newJobStore() *jobStore {
	return &jobStore{jobs: make(map[string]*storedJob), tenants: make(map[string]int)}
}

// add makes room for a job, or says that there is none. Its id can not be guessed:
// it has 128 random bits.
func (s *jobStore) add(tenant string, bytes int64) (*storedJob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweepLocked(now)
	if s.tenants[tenant] >= maxJobs/tenantShare {
		return nil, &transport.Error{Status: http.StatusTooManyRequests, Type: "requests", Code: "rate_limit_exceeded", Wait: s.roomLocked(now),
			Message: "Too many of your jobs are kept. Please retry later."}
	}
	if len(s.jobs) >= maxJobs || s.bytes+bytes > maxJobBytes {
		e := overloaded("Too many jobs are kept. Please retry later.")
		e.Wait = s.roomLocked(now)
		return nil, e
	}
	j := &storedJob{id: "job_" + rand.Text(), tenant: tenant, created: now, status: jobQueued, bytes: bytes}
	s.jobs[j.id] = j
	s.tenants[tenant]++
	s.bytes += bytes
	return j, nil
}

// roomLocked is when the next job expires.
func (s *jobStore) roomLocked(now time.Time) time.Duration {
	if len(s.ended) == 0 {
		return keepJobs
	}
	return s.ended[0].expires.Sub(now)
}

// submitted watches a job until it ends. outcome reads the dispatcher's result.
func (s *jobStore) submitted(j *storedJob, t *dispatcher.Ticket, outcome func(job.Result) ([]byte, *transport.Error)) {
	s.mu.Lock()
	if j.status == jobQueued || j.status == jobRunning {
		j.ticket = t
	}
	s.mu.Unlock()
	s.running.Go(func() { s.end(j, outcome, <-t.Result()) })
}

func (s *jobStore) started(j *storedJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.status == jobQueued {
		j.status = jobRunning
	}
}

// end keeps how a job ended.
func (s *jobStore) end(j *storedJob, outcome func(job.Result) ([]byte, *transport.Error), r job.Result) {
	var answer []byte
	var e *transport.Error
	if s.view(j).status != jobCancelled {
		answer, e = outcome(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.status == jobCancelled:
	case e != nil:
		j.status, j.failure = jobFailed, errorObject(e)
	default:
		j.status, j.answer = jobDone, answer
	}
	j.ticket = nil
	s.bytes += int64(len(j.answer)+len(j.failure)) - j.bytes
	j.bytes = int64(len(j.answer) + len(j.failure))
	j.expires = time.Now().Add(keepJobs)
	s.ended = append(s.ended, j)
	// Answers that are larger than their requests push the oldest ones out.
	for s.bytes > maxJobBytes && len(s.ended) > 0 {
		s.dropLocked()
	}
}

// errorObject is what OpenAI's errors have under "error".
func errorObject(e *transport.Error) []byte {
	var v struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(e.OpenAI(), &v) // it is an object with that key
	return v.Error
}

// cancel takes a job that has not ended out of the queue, or ends its call.
func (s *jobStore) cancel(j *storedJob) {
	s.mu.Lock()
	t := j.ticket
	if t != nil {
		j.status, j.ticket = jobCancelled, nil
	}
	s.mu.Unlock()
	if t != nil {
		t.Cancel()
	}
}

// remove forgets a job that was not submitted.
func (s *jobStore) remove(j *storedJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(j)
}

// find returns the tenant's job of that id, or nil.
func (s *jobStore) find(id, tenant string) *storedJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(time.Now())
	j := s.jobs[id]
	if j == nil || j.tenant != tenant {
		return nil
	}
	return j
}

func (s *jobStore) view(j *storedJob) jobView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return jobView{j.status, j.answer, j.failure}
}

func (s *jobStore) sweepLocked(now time.Time) {
	for len(s.ended) > 0 && !s.ended[0].expires.After(now) {
		s.dropLocked()
	}
}

// dropLocked forgets the job that ended first.
func (s *jobStore) dropLocked() {
	j := s.ended[0]
	s.ended[0] = nil
	s.ended = s.ended[1:]
	s.forgetLocked(j)
}

func (s *jobStore) forgetLocked(j *storedJob) {
	delete(s.jobs, j.id)
	s.bytes -= j.bytes
	if s.tenants[j.tenant]--; s.tenants[j.tenant] == 0 {
		delete(s.tenants, j.tenant)
	}
}
