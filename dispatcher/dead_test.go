package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/ledger"
)

// mortal is a process's way to the ledger, until it dies.
type mortal struct {
	*ledger.Memory
	dead atomic.Bool
}

var errDead = errors.New("dead")

func (m *mortal) Reserve(ctx context.Context, b []ledger.Request) ([]ledger.Decision, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Memory.Reserve(ctx, b)
}

func (m *mortal) Settle(ctx context.Context, b []ledger.Settlement) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Memory.Settle(ctx, b)
}

func (m *mortal) Withdraw(ctx context.Context, b []ledger.Request) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Memory.Withdraw(ctx, b)
}

// A machine goes, and with it most of the processes, whose tickets stand in front of all
// others. Nobody calls the ledger any more but those who are told to.
func TestMostProcessesDieAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tpm := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 60_000, Window: time.Minute}
		shared := ledger.NewMemory()
		var all []*mortal
		var o turns
		var last *dispatcher.Dispatcher
		for p := range 6 {
			m := &mortal{Memory: shared}
			all = append(all, m)
			last = open(t, dispatcher.Config{Ledger: m, Plan: fixed{tpm}, MaxWait: 10 * time.Minute})
			for i := range 400 {
				must(t, last, spec(fmt.Sprint("tenant-", i%10), job.Paid, 500), o.job(fmt.Sprint(p), 0))
			}
		}
		time.Sleep(10 * time.Second)
		died := time.Now()
		for _, m := range all[:5] {
			m.dead.Store(true)
		}
		time.Sleep(time.Minute)
		gap, before := time.Duration(0), died
		for _, at := range o.since("5", died) {
			gap = max(gap, at.Sub(before))
			before = at
		}
		if gap = max(gap, time.Since(before)); gap > 4*time.Second { // of six, each looks after 3 s
			t.Errorf("the last process served nobody for %v", gap)
		}
		for _, m := range all {
			m.dead.Store(false)
		}
	})
}
