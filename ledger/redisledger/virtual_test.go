package redisledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// virtual is a ledger whose scripts read the time of the process that calls, which is
// that of a synctest bubble, from a key.
type virtual struct {
	*redisledger.Ledger
	client *redis.Client
	clock  string
}

func newVirtual(t testing.TB, url, name string) virtual {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.ContextTimeoutEnabled = true
	// Goroutines that wait for a connection wait on timers that bubbles share. The
	// notifications come with a ticker, of which a virtual year has too many ticks.
	o.PoolSize = 300
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ConnMaxIdleTime = -1
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	l := newLedger(t, client, name)
	return virtual{l, client, redisledger.FixClock(l)}
}

func (v virtual) tick(ctx context.Context) error {
	return v.client.Set(ctx, v.clock, time.Now().UnixMicro(), time.Hour).Err()
}

func (v virtual) Reserve(ctx context.Context, batch []ledger.Request) ([]ledger.Decision, error) {
	if err := v.tick(ctx); err != nil {
		return nil, err
	}
	return v.Ledger.Reserve(ctx, batch)
}

func (v virtual) Settle(ctx context.Context, batch []ledger.Settlement) error {
	if err := v.tick(ctx); err != nil {
		return err
	}
	return v.Ledger.Settle(ctx, batch)
}

func (v virtual) Renew(ctx context.Context, leases []ledger.Lease) error {
	if err := v.tick(ctx); err != nil {
		return err
	}
	return v.Ledger.Renew(ctx, leases)
}

func (v virtual) Snapshot(ctx context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
	if err := v.tick(ctx); err != nil {
		return nil, err
	}
	return v.Ledger.Snapshot(ctx, limits)
}

func (v virtual) Withdraw(ctx context.Context, batch []ledger.Request) error {
	if err := v.tick(ctx); err != nil {
		return err
	}
	return v.Ledger.Withdraw(ctx, batch)
}

func (v virtual) Inspect(ctx context.Context) (ledger.LineState, error) {
	if err := v.tick(ctx); err != nil {
		return ledger.LineState{}, err
	}
	return v.Ledger.Inspect(ctx)
}

func (v virtual) Observe(ctx context.Context, batch []ledger.Observation) ([]ledger.Standing, error) {
	if err := v.tick(ctx); err != nil {
		return nil, err
	}
	return v.Ledger.Observe(ctx, batch)
}
