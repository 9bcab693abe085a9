// Package ledgertest states the contract of package ledger as tests.
//
// Every implementation runs the whole of it:
//
//	func TestContract(t *testing.T) {
//		ledgertest.Run(t, ledgertest.Config{Open: open})
//	}
//
// The tests are grouped by the promises they hold a ledger to. A test whose comment
// names an issue shows a fault that somebody's limiter had in public.
//
// # Concurrency
//
// Run uses goroutines inside a test only, and leaves none behind.
package ledgertest

import (
	"testing"
	"testing/synctest"

	"github.com/paceline-go/paceline/ledger"
)

// Ledger is what the suite drives: a ledger with its line, leases, balances and feedback.
type Ledger interface {
	ledger.Line
	ledger.Renewer
	ledger.Snapshotter
	ledger.Feedback
}

// Config says how to get at the ledger under test.
type Config struct {
	// Open returns a handle on the ledger of that name, which is empty when the name
	// is new. Handles of one name share a ledger, as processes do.
	Open func(t testing.TB, name string) Ledger
	// RealTime says that the ledger goes by a clock of its own. The tests then run
	// side by side, wait in earnest, and leave out what takes a clock that stands
	// still between two calls. Otherwise each test is a synctest bubble, and the
	// ledger must go by its time.
	RealTime bool
}

// group is one promise, and the tests of it.
type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(h *harness)
	// exact marks what takes a clock that moves only when the test sleeps.
	exact bool
	// watch marks what listens to the ledger. One that is reached over a connection
	// can not be listened to in a bubble: its time stands still while anybody reads.
	watch bool
}

// runs says whether a ledger in virtual time can run the test.
func (c *test) runs(l Ledger) bool {
	_, local := l.(ledger.NonBlocking)
	return !c.watch || local
}

// Run holds the ledger to the contract.
func Run(t *testing.T, cfg Config) {
	groups := []group{
		{"1 all or nothing", allOrNothing},
		{"2 a batch is decided in order", inOrder},
		{"3 a denial changes no balance and says how long", denials},
		{"4 time is the ledgers own", ownTime},
		{"5 whole numbers without drift", wholeNumbers},
		{"6 a window that slides", windows},
		{"6 a bucket that paces", buckets},
		{"6 leases of calls in flight", leases},
		{"7 settling", settling},
		{"8 once", once},
		{"9 too large is said at once", tooLarge},
		{"10 zero and absent", zeroAndAbsent},
		{"11 limits travel with each call", limitsTravel},
		{"12 nothing stays", nothingStays},
		{"13 any key", anyKey},
		{"14 the line", theLine},
		{"14 the order of the line", lineOrder},
		{"14 overdue work", overdueWork},
		{"14 what waits in line holds its demand", lineHolds},
		{"14 the hint in line is exact", lineHints},
		{"14 the next one is told", lineTold},
		{"14 who is told and does not come", lineLate},
		{"15 what the provider says", heard},
		{"many at once", manyAtOnce},
		{"bad calls", badCalls},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.tests {
				if c.exact && cfg.RealTime {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if cfg.RealTime {
						t.Parallel()
						c.run(newHarness(t, cfg))
						return
					}
					synctest.Test(t, func(t *testing.T) {
						if h := newHarness(t, cfg); c.runs(h.Ledger) {
							c.run(h)
						}
					})
				})
			}
		})
	}
}
