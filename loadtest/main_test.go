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
		return serveWorker(in, out, memory(ledger.NewMemory()), newTransport())
	}
	if played, err := runRole(); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// memory opens a ledger that exists already.
func memory(l ledger.Ledger) opener {
	return func(setup) (ledger.Ledger, io.Closer, error) { return l, io.NopCloser(nil), nil }
}

func parse(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
