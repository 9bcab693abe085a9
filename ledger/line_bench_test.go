package ledger_test

import (
	"fmt"
	"testing"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/ledgertest"
)

func BenchmarkLine(b *testing.B) {
	for _, tickets := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("tickets=%d", tickets), func(b *testing.B) {
			ledgertest.BenchmarkLine(b, ledger.NewMemory(), tickets)
		})
	}
}
