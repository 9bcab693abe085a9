package ledger_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	var shared sync.Map
	ledgertest.Run(t, ledgertest.Config{Open: func(_ testing.TB, name string) ledgertest.Ledger {
		l, ok := shared.Load(name)
		if !ok {
			l, _ = shared.LoadOrStore(name, ledger.NewMemory())
		}
		return l.(*ledger.Memory)
	}})
}
