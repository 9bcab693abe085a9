package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/job"
)

// memoryBucket is the bucket of tests, in virtual time.
type memoryBucket struct {
	options options

	mu               sync.Mutex
	at               time.Time
	requests, tokens float64
}

func (b *memoryBucket) take(_ context.Context, tokens int64) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	passed := float64(now.Sub(b.at)) / float64(b.options.Minute)
	b.at = now
	b.requests = min(b.requests+passed*float64(b.options.RPM), float64(b.options.RPM))
	b.tokens = min(b.tokens+passed*float64(b.options.TPM), float64(b.options.TPM))
	if b.requests < 1 || b.tokens < float64(tokens) {
		return false, nil
	}
	b.requests--
	b.tokens -= float64(tokens)
	return true, nil
}

// offered is a job without what became of it.
type offered struct {
	class     job.Priority
	tenant    string
	charge    int64
	submitted time.Duration
}

// TestStrategies runs the same flood with each, and checks that it was the same.
func TestStrategies(t *testing.T) {
	jobs := make([][][]offered, len(strategies)) // by strategy and process
	t.Run("all", func(t *testing.T) {
		for i, s := range strategies {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { jobs[i] = runFlood(t, s.name) })
			})
		}
	})
	for i, s := range strategies {
		for proc := range jobs[0] {
			if !slices.Equal(jobs[i][proc], jobs[0][proc]) || len(jobs[0][proc]) < 80 {
				t.Errorf("process %d: %s gets other jobs than %s", proc, s.name, strategies[0].name)
			}
		}
	}
}

// runFlood returns what each process was to do, in the order of arrival.
func runFlood(t *testing.T, strategy string) [][]offered {
	r, histories := runVirtual(t, "-scenario", "flood", "-strategy", strategy, "-procs", "2",
		"-tpm", "40000", "-rpm", "120", "-duration", "2m10s")
	jobs := make([][]offered, len(histories))
	for i, h := range histories {
		for _, rec := range h.records {
			jobs[i] = append(jobs[i], offered{rec.Class, rec.Tenant, rec.Charge, rec.Submitted})
		}
		slices.SortFunc(jobs[i], func(a, b offered) int { return int(a.submitted - b.submitted) })
	}
	if r.Strategy != strategy || r.Lost != 0 || r.Duplicated != 0 || r.Provider.Accepted < 50 {
		t.Errorf("%s: lost %d, duplicated %d, accepted %d", r.Strategy, r.Lost, r.Duplicated, r.Provider.Accepted)
	}
	var seen float64
	for _, p := range r.overTime.refusals {
		seen += p.y * binMinutes
	}
	// What was under way when the load ended may be refused after it.
	if late := float64(r.Provider.Refused) - seen; late < -0.01 || late > 0.1*seen {
		t.Errorf("the plot shows %g refusals of %d", seen, r.Provider.Refused)
	}
	if rival := strategy != "paceline"; (r.Provider.Refused > 0) != rival || (r.Failed > 0) != rival {
		t.Errorf("refused %d, failed %d", r.Provider.Refused, r.Failed)
	}
	return jobs
}

func TestPause(t *testing.T) {
	s := sdk{time.Second}
	for _, tt := range []struct {
		retry  int
		after  time.Duration
		random float64
		want   time.Duration
	}{
		{0, 0, 0, 500 * time.Millisecond},
		{1, 0, 0, time.Second},
		{2, 0, 0, 2 * time.Second},
		{4, 0, 0, 8 * time.Second},
		{5, 0, 0, 8 * time.Second},
		{100, 0, 0, 8 * time.Second},
		{0, 0, 1, 375 * time.Millisecond},
		{4, 0, 0.5, 7 * time.Second},
		{0, time.Millisecond, 1, time.Millisecond},
		{0, time.Minute, 1, time.Minute},
		{0, time.Minute + 1, 0, 500 * time.Millisecond},
		{3, -time.Second, 0, 4 * time.Second},
	} {
		if got := s.pause(tt.retry, tt.after, tt.random); got != tt.want {
			t.Errorf("retry %d, asked for %v, random %g: %v, want %v", tt.retry, tt.after, tt.random, got, tt.want)
		}
	}
	if got := (sdk{time.Second / 10}).pause(1, 10*time.Second, 0); got != 100*time.Millisecond {
		t.Errorf("with a minute of 6 s: %v, want 100ms", got)
	}
}

// TestSDKGivesUp counts the attempts of a job that is always refused, and the time
// between them.
func TestSDKGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := &task{worker: &worker{origin: time.Now()}}
		var at []time.Duration
		f := func(context.Context) (any, job.Usage, error) {
			at = append(at, tk.worker.since(time.Now()))
			return nil, job.Usage{}, &job.RetryError{After: 2 * time.Second}
		}
		r := sdk{time.Second}.do(t.Context(), tk, f)
		if want := []time.Duration{0, 2 * time.Second, 4 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if !errors.Is(r.Err, errGaveUp) || r.Attempts != 3 {
			t.Errorf("%d attempts, %v", r.Attempts, r.Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r = (sdk{time.Second}).do(ctx, tk, f); !errors.Is(r.Err, context.DeadlineExceeded) || r.Attempts != 1 {
			t.Errorf("when the load ends: %d attempts, %v", r.Attempts, r.Err)
		}
	})
}

// turnstile lets nobody pass until it is opened.
type turnstile chan struct{}

func (g turnstile) pass(ctx context.Context, _ *task) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g turnstile) run(ctx context.Context) { <-ctx.Done() }

// TestRivalBounds fills the queue and the workers, and lets a job time out.
func TestRivalBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := parse(t, "-procs", "100") // each may hold the least
		sc := scenarioOf(t, o)
		sc.queue = 0.1
		gate := make(turnstile)
		r := newRival(setup{Options: o}, sc, gate)
		r.workers = make(chan struct{}, 2)
		ended := make(chan error)
		go func() { ended <- r.Run(t.Context()) }()

		w := &worker{origin: time.Now()}
		release := make(chan struct{})
		var running atomic.Int32
		submit := func(ctx context.Context) (<-chan job.Result, error) {
			tk := &task{worker: w}
			return r.Submit(ctx, job.Spec{Request: tk}, func(context.Context) (any, job.Usage, error) {
				running.Add(1)
				<-release
				return nil, job.Usage{}, nil
			})
		}
		var results []<-chan job.Result
		for range leastQueue {
			res, err := submit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, res)
		}
		var why *dispatcher.ShedError
		if _, err := submit(t.Context()); !errors.As(err, &why) || why.Reason != dispatcher.QueueFull {
			t.Errorf("a full queue: %v", err)
		}
		for range 3 {
			gate <- struct{}{}
		}
		synctest.Wait()
		if n := running.Load(); n != 2 {
			t.Errorf("%d run, want 2", n)
		}
		time.Sleep(o.maxWait())
		synctest.Wait()
		close(release)
		r.close()
		outcomes := make(map[string]int)
		for _, res := range results {
			switch err := (<-res).Err; {
			case err == nil:
				outcomes["done"]++
			case errors.As(err, &why):
				outcomes[why.Reason.String()]++
			default:
				t.Error(err)
			}
		}
		if outcomes["done"] != 2 || outcomes["expired"] != leastQueue-2 {
			t.Errorf("outcomes %v", outcomes)
		}
		if err := errors.Join(r.Shutdown(t.Context()), <-ended); err != nil {
			t.Error(err)
		}
	})
}

// TestPollOrder lets jobs pass one by one: paid before free, then the oldest.
func TestPollOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &taps{}
		p := &poll{bucket: b, every: 10 * time.Millisecond, wake: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var passed []int64
		for i, class := range []job.Priority{job.Free, job.Paid, job.Free, job.Paid, job.Free} {
			jobContext, leave := context.WithCancel(ctx)
			defer leave()
			go func() {
				err := p.pass(jobContext, &task{record: record{Class: class, Charge: int64(i)}})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					passed = append(passed, -int64(i))
					return
				}
				passed = append(passed, int64(i))
			}()
			synctest.Wait()
			if i == 2 {
				leave() // it does not stand in the way
				synctest.Wait()
			}
		}
		go p.run(ctx)
		time.Sleep(time.Second)
		asked := b.asked()
		if asked < 60 || asked > 150 {
			t.Errorf("asked %d times in a hundred intervals", asked)
		}
		for range 4 {
			b.open(1)
			time.Sleep(time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []int64{-2, 1, 3, 0, 4}; !slices.Equal(passed, want) {
			t.Errorf("passed %v, want %v", passed, want)
		}
		cancel()
		synctest.Wait()
	})
}

// taps is a bucket that gives as often as it was opened.
type taps struct {
	mu       sync.Mutex
	n, calls int
}

func (b *taps) open(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += n
}

func (b *taps) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func (b *taps) take(context.Context, int64) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.n == 0 {
		return false, nil
	}
	b.n--
	return true, nil
}

// TestLocalPart checks that one of four gets a quarter, and the largest job passes.
func TestLocalPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := parse(t, "-procs", "2", "-dispatchers", "2")
		s, err := newLocal(setup{Options: o}, scenarioOf(t, o), shared{})
		if err != nil {
			t.Fatal(err)
		}
		g := s.(*rival).gate.(local)
		start := time.Now()
		for range 100 {
			if err := g.pass(t.Context(), &task{record: record{Charge: maxSize}}); err != nil {
				t.Fatal(err)
			}
		}
		// The first quarter of a minute's worth is there at once.
		within(t, "minutes", time.Since(start).Minutes(), float64(100*maxSize)/(float64(o.TPM)/4)-1, 0.01)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var why *dispatcher.ShedError
		if err := g.pass(ctx, &task{record: record{Charge: maxSize}}); !errors.As(err, &why) || why.Reason != dispatcher.Expired {
			t.Errorf("one that can not be in time: %v", err)
		}
	})
}

// TestRedisBucket takes from the script's buckets in a Redis of its own.
func TestRedisBucket(t *testing.T) {
	t.Parallel()
	address := "redis://" + redistest.Start(t).Addr
	o := parse(t, "-rpm", "6", "-tpm", "32000", "-minute", "2s")
	open := func(name string) bucket {
		sh, closer, err := openRedis(setup{Ledger: address, LedgerName: name, Options: o})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = closer.Close() })
		return sh.bucket
	}
	take := func(b bucket, tokens int64) bool {
		t.Helper()
		ok, err := b.take(t.Context(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	a, b := open("tokens"), open("tokens")
	if !take(a, 32_000) || take(b, 8000) {
		t.Error("two who share a bucket of 32,000 tokens took 40,000")
	}
	start := time.Now()
	for !take(b, 8000) {
		time.Sleep(5 * time.Millisecond) // against the server's clock
	}
	if took := time.Since(start); took < 400*time.Millisecond || took > 2*time.Second {
		t.Errorf("a quarter of a bucket came back in %v, want 500ms", took)
	}
	c := open("requests")
	for i := range 6 {
		if !take(c, 1) {
			t.Errorf("request %d of 6 was refused", i)
		}
	}
	if take(c, 1) {
		t.Error("a seventh request passed")
	}
}
