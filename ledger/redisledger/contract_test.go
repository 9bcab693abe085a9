package redisledger_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger/ledgertest"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // of servers that are gone on purpose
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// open returns a client that is closed with the test.
func open(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisledger.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newLedger(t testing.TB, client redis.UniversalClient, name string) *redisledger.Ledger {
	t.Helper()
	l, err := redisledger.New(client, redisledger.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The scripts as production runs them, by the server's clock.
func TestContractOnOneServer(t *testing.T) {
	testRealTime(t, redistest.URL(t))
}

// Of CROSSSLOT, and of keys that a script makes up, one server shows nothing:
// mennanov/limiters#48, apache/shenyu#2808, vutran1710/PyrateLimiter#126,
// ulule/limiter#190.
func TestContractOnCluster(t *testing.T) {
	testRealTime(t, redistest.ClusterURL(t))
}

func testRealTime(t *testing.T, url string) {
	t.Parallel()
	client := open(t, url)
	ledgertest.Run(t, ledgertest.Config{
		RealTime: true,
		Open:     func(t testing.TB, name string) ledgertest.Ledger { return newLedger(t, client, name) },
	})
}

// The same scripts, but by the clock of a synctest bubble.
func TestContractInVirtualTime(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	ledgertest.Run(t, ledgertest.Config{
		Open: func(t testing.TB, name string) ledgertest.Ledger { return newVirtual(t, url, name) },
	})
}
