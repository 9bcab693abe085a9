package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/ledger"
)

// direct is a transport without a network, for virtual time.
type direct struct{ server http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	rec := httptest.NewRecorder()
	d.server.ServeHTTP(rec, r)
	return rec.Result(), r.Context().Err()
}

// inProcess plays a role in a goroutine. Killing it takes its pipes away.
func inProcess(role func(io.Reader, io.Writer) error) *child {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := role(inR, outW)
		outW.Close()
		inR.Close()
		ended <- err
	}()
	return &child{
		in: inW, out: outR,
		kill: func() error { return errors.Join(inW.Close(), outR.Close()) },
		wait: func() error { return <-ended },
	}
}

// runVirtual makes a whole run in virtual time: real workers, protocol, scenarios
// and provider, over pipes, one ledger in memory and no network.
func runVirtual(t *testing.T, args ...string) (*report, []history) {
	o := parse(t, args...)
	server, err := simprovider.New(o.provider())
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.NewMemory()
	sh := shared{l, &memoryBucket{options: o, at: time.Now(), requests: float64(o.RPM), tokens: float64(o.TPM)}}
	f, err := launch(setup{Options: o}, func() (*child, error) {
		return inProcess(func(in io.Reader, out io.Writer) error {
			return serveWorker(in, out, memory(sh), direct{server})
		}), nil
	}, func(time.Duration, counts) {})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := f.start.Add(o.Duration)
	ob := observed{
		histories: f.histories(),
		stats:     server.StatsBetween(f.start.Add(2*o.Minute), end),
		afterKill: server.StatsBetween(f.start.Add(o.KillAt+o.Minute), end).Pools[0].TokenUtilisation,
	}
	if s, ok, err := inversions(t.Context(), l); err != nil {
		t.Fatal(err)
	} else if ok {
		ob.line = &s
	}
	if o.InFlight > 0 {
		lim := o.inFlightLimit()
		b, err := l.Snapshot(t.Context(), []*ledger.Limit{&lim})
		if err != nil {
			t.Fatal(err)
		}
		ob.leasesAfter = b[0].Used
	}
	return o.report(scenarioOf(t, o), ob), ob.histories
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		check func(*testing.T, *report)
	}{
		{"sliding", []string{"-enforcer", "sliding"}, full},
		{"bucket", []string{"-enforcer", "bucket"}, full},
		{"fixed", []string{"-enforcer", "fixed"}, full},
		{"azure", []string{"-enforcer", "azure", "-dispatchers", "2"}, full},
		{"settled as used", []string{"-settle", "actual", "-cap", "4096", "-output-mean", "250"}, nil},
		{"settled as produced", []string{"-settle", "produced", "-cap", "4096", "-output-mean", "250"}, nil},
		{"surge", []string{"-scenario", "surge", "-duration", "3m30s"}, func(t *testing.T, r *report) {
			if r.Surge.Jobs < 50 || r.Surge.Done != r.Surge.Jobs || r.Surge.GrantedMinutes > 1 {
				t.Errorf("surge %+v", r.Surge)
			}
			for _, c := range r.Classes {
				if c.Shed > 0 {
					t.Errorf("shed %d %s", c.Shed, c.Name)
				}
			}
		}},
		{"kill", []string{"-kill-at", "1m30s", "-inflight", "30", "-duration", "3m30s"}, func(t *testing.T, r *report) {
			if r.Killed == nil || r.Killed.Jobs == 0 || r.Killed.Utilisation < 0.92 {
				t.Errorf("killed %+v", r.Killed)
			}
			if r.InFlight.Left != 0 {
				t.Errorf("in flight %+v", r.InFlight)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, _ := runVirtual(t, append([]string{"-procs", "2", "-tpm", "100000", "-rpm", "250", "-duration", "3m"}, tt.args...)...)
				if r.Provider.Accepted < 100 || r.Provider.Refused != 0 {
					t.Errorf("provider %+v", r.Provider)
				}
				if r.Lost != 0 || r.Duplicated != 0 || r.Failed != 0 {
					t.Errorf("lost %d, duplicated %d, failed %d", r.Lost, r.Duplicated, r.Failed)
				}
				for _, c := range r.Classes {
					if sum := c.Done + c.Shed + c.Unfinished + c.Failed + c.Killed; sum != c.Jobs {
						t.Errorf("%s: %d jobs are counted as %d", c.Name, c.Jobs, sum)
					}
				}
				if tt.check != nil {
					tt.check(t, r)
				}
				t.Logf("utilisation %.4f, seed %d", r.Provider.Utilisation, r.Seed)
			})
		})
	}
}

// full allows for what one measured minute is: the largest job is 8 % of it.
func full(t *testing.T, r *report) {
	if r.Provider.Utilisation < 0.92 {
		t.Errorf("utilisation %.4f", r.Provider.Utilisation)
	}
}

// TestProcesses runs real processes, and kills one.
func TestProcesses(t *testing.T) {
	t.Parallel()
	o := parse(t, "-procs", "2", "-minute", "400ms", "-duration", "1200ms", "-kill-at", "700ms")
	j, err := startProvider(o.provider())
	if err != nil {
		t.Fatal(err)
	}
	defer j.child.stop()
	f, err := launch(setup{Options: o, Provider: j.url}, func() (*child, error) { return spawn("memory-worker") }, func(time.Duration, counts) {})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	stats, err := j.stats(t.Context(), f.start.Add(2*o.Minute), f.start.Add(o.Duration))
	if err != nil {
		t.Fatal(err)
	}
	r := o.report(scenarioOf(t, o), observed{histories: f.histories(), stats: stats})
	if r.Provider.Accepted == 0 || r.Lost != 0 || r.Duplicated != 0 || r.Killed == nil || r.Killed.Jobs == 0 {
		t.Errorf("accepted %d, lost %d, duplicated %d, killed %+v", r.Provider.Accepted, r.Lost, r.Duplicated, r.Killed)
	}
}

// TestEarlyEnd lets a worker end by itself: its jobs are lost, and the run says so.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	o := parse(t, "-procs", "1", "-minute", "100ms", "-duration", "300ms")
	f, err := launch(setup{Options: o}, func() (*child, error) {
		return inProcess(func(in io.Reader, out io.Writer) error {
			dec, enc := json.NewDecoder(in), json.NewEncoder(out)
			var x order
			if err := errors.Join(dec.Decode(&x), enc.Encode(news{Ready: true}), dec.Decode(&x)); err != nil {
				return err
			}
			if err := enc.Encode(news{Records: []record{{Seq: 1, Submitted: 1}, {Seq: 1, Submitted: 1, Granted: 2}}}); err != nil {
				return err
			}
			if _, err := io.WriteString(out, `{"records":[{"se`); err != nil {
				return err
			}
			return errors.New("out of memory")
		}), nil
	}, func(time.Duration, counts) {})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.run(t.Context()); !errors.Is(err, errEarly) || !strings.Contains(err.Error(), "process 0: out of memory") {
		t.Errorf("run: %v", err)
	}
	if got, want := f.counts(), (counts{running: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	r := o.report(scenarioOf(t, o), observed{histories: f.histories(), stats: simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)}})
	if r.Lost != 1 {
		t.Errorf("lost %d, want 1", r.Lost)
	}
}

// TestWorkerRefusesNonsense checks that a worker ends when its orders make no sense.
func TestWorkerRefusesNonsense(t *testing.T) {
	for _, orders := range []string{"", "{}", "x", `{"setup":{"options":{"Scenario":"none"}}}`} {
		err := serveWorker(strings.NewReader(orders), io.Discard, memory(shared{ledger: ledger.NewMemory()}), nil)
		if err == nil {
			t.Errorf("orders %q were obeyed", orders)
		}
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := parse(t, "-procs", "2")
		server, err := simprovider.New(o.provider())
		if err != nil {
			t.Fatal(err)
		}
		sh := shared{ledger: ledger.NewMemory()}
		f, err := launch(setup{Options: o}, func() (*child, error) {
			return inProcess(func(in io.Reader, out io.Writer) error {
				return serveWorker(in, out, memory(sh), direct{server})
			}), nil
		}, func(time.Duration, counts) {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := f.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v", err)
		}
		f.close()
	})
}

// TestVault counts the scripts of a Redis of its own.
func TestVault(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Setenv("PATH", t.TempDir())
		if _, err := openVault(t.Context(), "auto"); !errors.Is(err, errNoRedis) {
			t.Errorf("without a redis-server: %v", err)
		}
		return
	}
	v, err := openVault(t.Context(), "auto")
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	before, err := v.scripts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sh, closer, err := openRedis(setup{Ledger: v.address, LedgerName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	l := sh.ledger
	lim := ledger.Limit{Key: "in-flight", Unit: ledger.InFlight, Amount: 3}
	for i := range byte(2) {
		d, err := l.Reserve(t.Context(), []ledger.Request{{ID: ledger.ID{Job: [16]byte{i}}, Charges: []ledger.Charge{{Limit: &lim, Amount: 1}}}})
		if err != nil || d[0].Outcome != ledger.Granted {
			t.Fatal(d, err)
		}
	}
	after, err := v.scripts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The first call finds that the server does not know the script yet.
	if n := after - before; n < 2 || n > 3 {
		t.Errorf("%d scripts were counted, not 2 or 3", n)
	}
	if n, err := v.inFlight(t.Context(), "test", lim); err != nil || n != 2 {
		t.Errorf("%d in flight, %v", n, err)
	}
}
