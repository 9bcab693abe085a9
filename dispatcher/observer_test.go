package dispatcher_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
)

// notes is an observer that remembers.
type notes struct {
	mu                      sync.Mutex
	started, finished, shed int
	results                 map[uuid.UUID][]job.Result
	reasons                 map[dispatcher.Reason]int
	calls                   map[string]int
	failed                  map[string]int
}

func (n *notes) Started(*job.Spec, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started++
}

func (n *notes) Finished(s *job.Spec, r *job.Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finished++
	if n.results == nil {
		n.results = make(map[uuid.UUID][]job.Result)
	}
	n.results[s.ID] = append(n.results[s.ID], *r)
}

func (n *notes) Shed(_ *job.Spec, e *dispatcher.ShedError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shed++
	if n.reasons == nil {
		n.reasons = make(map[dispatcher.Reason]int)
	}
	n.reasons[e.Reason]++
}

func (n *notes) LedgerCalled(op string, _ time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		n.calls, n.failed = make(map[string]int), make(map[string]int)
	}
	n.calls[op]++
	if err != nil {
		n.failed[op]++
	}
}

// called is how often the ledger was called, and how often that failed.
func (n *notes) called(op string) (calls, failed int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[op], n.failed[op]
}

// result is the one result of the job.
func (n *notes) result(t *testing.T, id uuid.UUID) job.Result {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.results[id]
	if len(all) != 1 {
		t.Fatalf("job finished %d times: %+v", len(all), all)
	}
	return all[0]
}
