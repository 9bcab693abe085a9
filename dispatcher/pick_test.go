package dispatcher

import (
	"testing"

	"github.com/paceline-go/paceline/ledger"
)

// A job that ends while pick holds a worker sees one running, and does not close
// drained: pick has to. What made Shutdown hang is a matter of nanoseconds, so that
// the moment is set up by hand.
func TestPickNoticesTheEnd(t *testing.T) {
	d, err := New(Config{Ledger: ledger.NewMemory(), Plan: noPlan{}})
	if err != nil {
		t.Fatal(err)
	}
	d.closing.Store(true)
	d.mu.Lock()
	batch := d.pick(d.now()).batch
	d.mu.Unlock()
	select {
	case <-d.drained:
	default:
		t.Error("nothing runs or waits, and nobody noticed")
	}
	if len(batch) != 0 || d.running.Load() != 0 {
		t.Errorf("picked %d, %d running", len(batch), d.running.Load())
	}
}
