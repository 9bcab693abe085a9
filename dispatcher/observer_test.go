package dispatcher_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
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

// Everything is told once: attempts, results, who was shed and why, and each call
// of a ledger that may block.
func TestObserver(t *testing.T) {
	flight := &ledger.Limit{Key: "flight", Unit: ledger.InFlight, Amount: 1}
	ways(t, func(t *testing.T, a *audit, l ledger.Ledger) {
		n := new(notes)
		d := open(t, dispatcher.Config{Ledger: l, Plan: fixed{flight}, Observer: n, MaxQueue: 2})
		synctest.Wait()
		hold := func(context.Context) (any, job.Usage, error) {
			time.Sleep(10 * time.Second)
			return nil, job.Used(1, 0), nil
		}
		running := must(t, d, spec("t", job.Paid, 1), hold)
		time.Sleep(10 * time.Millisecond)
		s := spec("t", job.Paid, 1)
		s.Deadline = time.Now().Add(time.Second)
		expires := must(t, d, s, hold)
		evicted := must(t, d, spec("t", job.Free, 1), hold)
		time.Sleep(10 * time.Millisecond)
		if e := shed(t, d, spec("t", job.Free, 1)); e.Reason != dispatcher.QueueFull {
			t.Error(e)
		}
		cancelled := must(t, d, spec("t", job.P0, 1), hold)
		<-evicted.Result()
		cancelled.Cancel()
		<-cancelled.Result()
		<-expires.Result()
		<-running.Result()
		nested := func(context.Context) (any, job.Usage, error) { // what another dispatcher said
			return nil, job.Usage{}, &dispatcher.ShedError{Reason: dispatcher.Hopeless}
		}
		if _, err := dispatcher.Do(context.Background(), d, spec("t", job.Paid, 1), nested); err == nil {
			t.Error("no error")
		}
		<-must(t, d, spec("t", job.Paid, 1), nested).Result()
		time.Sleep(time.Minute)

		n.mu.Lock()
		defer n.mu.Unlock()
		if n.started != 3 || n.finished != 6 || n.shed != 3 {
			t.Errorf("%d started, %d finished, %d shed", n.started, n.finished, n.shed)
		}
		for _, reason := range []dispatcher.Reason{dispatcher.QueueFull, dispatcher.Evicted, dispatcher.Expired} {
			if n.reasons[reason] != 1 {
				t.Errorf("%d shed as %v", n.reasons[reason], reason)
			}
		}
		_, direct := l.(ledger.NonBlocking)
		for _, op := range []string{"reserve", "settle"} {
			if calls := a.count(op); direct && n.calls[op] != 0 || !direct && n.calls[op] != calls || calls == 0 {
				t.Errorf("%d calls to %s observed, of %d", n.calls[op], op, calls)
			}
		}
	})
}

func TestReasonNames(t *testing.T) {
	for r, want := range map[dispatcher.Reason]string{
		dispatcher.QueueFull: "queue_full", dispatcher.TenantQueueFull: "tenant_queue_full", dispatcher.Background: "background",
		dispatcher.Evicted: "evicted", dispatcher.Hopeless: "hopeless", dispatcher.Expired: "expired", dispatcher.Closing: "closing",
		99: "reason(99)",
	} {
		if got := r.String(); got != want {
			t.Errorf("%d is %q, want %q", r, got, want)
		}
	}
}
