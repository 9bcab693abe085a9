package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/ledger"
)

// TestMain lets the tests start this program again, as the load test does.
func TestMain(m *testing.M) {
	roles["memory-worker"] = func(in io.Reader, out io.Writer) error {
		return serveWorker(in, out, memory(shared{ledger: ledger.NewMemory()}), newTransport())
	}
	if played, err := runRole(); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The race detector sleeps for a second when a process ends; the parts need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// memory opens what exists already.
func memory(sh shared) opener {
	return func(setup) (shared, io.Closer, error) { return sh, io.NopCloser(nil), nil }
}

// parse is the options of the first run that the flags ask for.
func parse(t *testing.T, args ...string) options {
	t.Helper()
	runs, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

func scenarioOf(t *testing.T, o options) scenario {
	t.Helper()
	sc, err := o.scenario()
	if err != nil {
		t.Fatal(err)
	}
	return sc
}
