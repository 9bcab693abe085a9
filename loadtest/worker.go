package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// drainMinutes is how long what runs is waited for when the load has ended, in
// minutes of the provider.
const drainMinutes = 3

// maxComplaints is how many failures a process logs: they are mostly the same.
const maxComplaints = 5

// worker is one process of the fleet.
type worker struct {
	setup    setup
	scenario scenario
	log      *slog.Logger
	box      *outbox
	client   *http.Client
	origin   time.Time       // the start of the load
	calls    context.Context // ends when running calls must
	abandon  context.CancelCauseFunc
	over     chan struct{}  // closed when every result must have arrived
	results  sync.WaitGroup // of those who take them
	seq      atomic.Int64
	failures atomic.Int64
	lengths  *learn.Lengths
}

// errOrphan ends a worker whose parent ended.
var errOrphan = errors.New("loadtest: the parent is gone")

// opener opens what the whole fleet shares.
type opener func(setup) (shared, io.Closer, error)

// newTransport keeps every connection that it makes: a new one would delay a call
// that has been granted.
func newTransport() http.RoundTripper {
	return &http.Transport{MaxIdleConnsPerHost: 1 << 16, DisableCompression: true, IdleConnTimeout: time.Minute}
}

func openRedis(s setup) (shared, io.Closer, error) {
	client, err := redisledger.Open(s.Ledger)
	if err != nil {
		return shared{}, nil, err
	}
	l, err := redisledger.New(client, redisledger.Config{Name: s.LedgerName})
	return shared{l, newRedisBucket(client, s)}, client, err
}

// serveWorker is a worker's life. It returns early when the orders end.
func serveWorker(in io.Reader, out io.Writer, open opener, transport http.RoundTripper) error {
	orders := json.NewDecoder(in)
	var first, second order
	if err := orders.Decode(&first); err != nil {
		return fmt.Errorf("loadtest: setup: %w", err)
	}
	if first.Setup == nil {
		return errors.New("loadtest: setup: not the first order")
	}
	w := &worker{setup: *first.Setup, box: newOutbox(), over: make(chan struct{})}
	w.log = slog.Default().With("proc", w.setup.Proc)
	w.client = &http.Client{Transport: transport}
	var err error
	if w.lengths, err = learn.NewLengths(learn.LengthsConfig{}); err != nil {
		return err
	}
	sh, closer, err := open(w.setup)
	if err != nil {
		return err
	}
	defer closer.Close()
	fleet, err := w.build(sh)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(news{Ready: true}); err != nil {
		return fmt.Errorf("loadtest: ready: %w", err)
	}
	if err := orders.Decode(&second); err != nil {
		return fmt.Errorf("loadtest: start: %w", err)
	}
	if second.Start == nil {
		return errors.New("loadtest: start: not the second order")
	}
	// From here on time is monotonic.
	w.origin = time.Now().Add(time.Until(*second.Start))

	w.calls, w.abandon = context.WithCancelCause(context.Background())
	defer w.abandon(nil)
	load, stop := context.WithCancel(w.calls)
	defer stop()
	go func() {
		for {
			var o order
			if orders.Decode(&o) != nil {
				w.abandon(errOrphan)
				return
			}
			if o.Stop {
				stop()
			}
		}
	}()
	return w.run(load, fleet, out)
}

// build makes the strategies, one per dispatcher.
func (w *worker) build(sh shared) ([]strategy, error) {
	var err error
	if w.scenario, err = w.setup.Options.scenario(); err != nil {
		return nil, err
	}
	all := make([]strategy, w.setup.Options.Dispatchers)
	for i := range all {
		if all[i], err = w.setup.strategy(w.scenario, sh); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// run makes the load until it ends, and then waits for what is left.
func (w *worker) run(load context.Context, fleet []strategy, out io.Writer) error {
	told := make(chan struct{})
	var teller, runners, feeders sync.WaitGroup
	teller.Go(func() { w.box.run(out, told) })
	o := w.setup.Options
	for i, s := range fleet {
		runners.Go(func() {
			if err := s.Run(context.Background()); err != nil {
				w.log.Error("loadtest: the dispatcher ended", "error", err)
			}
		})
		for j, st := range w.scenario.streams {
			if !st.in(w.setup.Proc, o.Procs) {
				continue
			}
			f := &feeder{worker: w, strategy: s, arrivals: newArrivals(o, w.scenario, w.setup.Proc, i, j)}
			feeders.Go(func() {
				if w.sleepUntil(load, 0) {
					f.run(load)
				}
			})
		}
	}
	<-load.Done() // what waits is being withdrawn
	feeders.Wait()
	drain, cancel := context.WithTimeout(w.calls, o.minutes(drainMinutes))
	defer cancel()
	for _, s := range fleet {
		if err := s.Shutdown(drain); err != nil {
			w.abandon(fmt.Errorf("loadtest: not drained: %w", err))
		}
	}
	runners.Wait()
	close(w.over)
	w.results.Wait()
	close(told)
	teller.Wait()
	if err := context.Cause(w.calls); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(news{Bye: true})
}

// offer submits a job, and tells what becomes of it.
func (w *worker) offer(ctx context.Context, s strategy, t *task) {
	w.box.add(t.record)
	output, expected := w.expect(t)
	spec := job.Spec{Tenant: t.record.Tenant, Model: t.worker.setup.Options.model(), Priority: t.record.Class, Estimate: t.worker.setup.Options.estimate(t.size, output, expected), Request: t}
	t.spec = spec
	if p, ok := s.(paceline); ok {
		t.feedback = p.feedback
	}
	results, err := s.Submit(ctx, spec, t.call)
	if err != nil {
		w.end(t, err)
		return
	}
	w.results.Go(func() {
		select {
		case r := <-results:
			w.end(t, r.Err)
		case <-w.over:
			select {
			case r := <-results:
				w.end(t, r.Err)
			default: // lost: the parent sees that it has no end
			}
		}
	})
}

// expect is how much is reserved for a job's answer, and what is expected of it if that
// is less; and it lowers the job's cap if it may.
func (w *worker) expect(t *task) (output, expected int64) {
	o, s := w.setup.Options, &t.size
	learnt, known := w.lengths.Predict(w.key(), s.cap)
	if known && learnt < s.cap {
		expected = learnt
	}
	if o.LowerCaps > 0 {
		s.cap = learn.LowerCap(s.cap, learnt, o.LowerCaps)
		t.record.Cut = s.output > s.cap
		s.output = min(s.output, s.cap)
	}
	switch o.Expect {
	case "exact":
		return s.output, 0
	case "learnt":
		return min(learnt, s.cap), 0
	default:
		return s.cap, expected
	}
}

// key is what lengths are learnt for: all jobs are of one kind.
func (w *worker) key() learn.Key { return learn.Key{Model: w.setup.Options.model()} }

func (w *worker) end(t *task, err error) {
	t.record.Ended = max(w.since(time.Now()), 1)
	var why *dispatcher.ShedError
	switch {
	case err == nil:
		t.record.Outcome = done
	case errors.As(err, &why):
		t.record.Outcome, t.record.Reason = shed, why.Reason.String()
	case errors.Is(err, context.Canceled):
		t.record.Outcome = withdrawn
	default:
		t.record.Outcome = failed
		if errors.Is(err, errGaveUp) {
			break // as the SDK does by design
		}
		if w.failures.Add(1) <= maxComplaints {
			w.log.Error("loadtest: a job failed", "seq", t.record.Seq, "error", err)
		}
	}
	t.left()
	w.box.add(t.record)
}

// since is the time since the load started.
func (w *worker) since(t time.Time) time.Duration { return t.Sub(w.origin) }

// sleepUntil waits for a time of the load; false when ctx ended first.
func (w *worker) sleepUntil(ctx context.Context, at time.Duration) bool {
	timer := time.NewTimer(time.Until(w.origin.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
