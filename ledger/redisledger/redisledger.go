package redisledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/ledger"
)

var (
	//go:embed window.lua
	windowLua string
	//go:embed line.lua
	lineLua string
	//go:embed reserve.lua
	reserveLua string
	//go:embed settle.lua
	settleLua string
	//go:embed renew.lua
	renewLua string
	//go:embed snapshot.lua
	snapshotLua string
	//go:embed withdraw.lua
	withdrawLua string
	//go:embed inspect.lua
	inspectLua string
	//go:embed observe.lua
	observeLua string

	production = compile(windowLua)
)

// scripts are constants: a server keeps every text that it is ever sent.
type scripts struct {
	reserve, settle, renew, snapshot, withdraw, inspect, observe *redis.Script
}

func compile(window string) *scripts {
	line := "\nlocal function line()\n" + lineLua + "end\n"
	return &scripts{
		reserve:  redis.NewScript(window + line + reserveLua),
		settle:   redis.NewScript(window + line + settleLua),
		withdraw: redis.NewScript(window + line + withdrawLua),
		inspect:  redis.NewScript(window + line + inspectLua),
		observe:  redis.NewScript(window + line + observeLua),
		renew:    redis.NewScript(window + renewLua),
		snapshot: redis.NewScript(window + snapshotLua),
	}
}

// Config says which ledger in the Redis it is.
type Config struct {
	// Name keeps ledgers apart that share a Redis: processes with the same name
	// share their limits. It is the hash tag of every key. "" means "paceline".
	Name string
}

// Ledger is a ledger in Redis. Make it with New; it is safe for concurrent use.
type Ledger struct {
	client  redis.UniversalClient
	scripts *scripts
	prefix  string
	// generations are the keys of the reservations, see window.lua, and line those
	// of the line, see line.lua.
	generations [6]string
	line        [6]string
	// guard is that of the last batch, in nanoseconds: a settlement refills the
	// buckets at the pace that the reservations did.
	guard atomic.Int64
}

// ErrConfig is wrapped by every complaint about the configuration.
var ErrConfig = errors.New("redisledger: bad configuration")

// New returns the ledger of that name in the client's Redis. It sends nothing;
// Ping does. The client stays the caller's to close.
func New(client redis.UniversalClient, cfg Config) (*Ledger, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: no client", ErrConfig)
	}
	if cfg.Name == "" {
		cfg.Name = "paceline"
	}
	if strings.ContainsAny(cfg.Name, "{}") {
		return nil, fmt.Errorf("%w: Name %q must not have braces, it is a hash tag", ErrConfig, cfg.Name)
	}
	respects := true
	switch c := client.(type) {
	case *redis.Client:
		respects = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		respects = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		respects = c.Options().ContextTimeoutEnabled
	}
	if !respects {
		return nil, fmt.Errorf("%w: set ContextTimeoutEnabled in the client's options, or a stalled Redis holds calls beyond their deadline", ErrConfig)
	}
	l := &Ledger{client: client, scripts: production, prefix: "{" + cfg.Name + "}:"}
	for i, k := range [...]string{"open:0", "open:1", "open:2", "closed:0", "closed:1", "closed:2"} {
		l.generations[i] = l.prefix + k
	}
	for i, k := range [...]string{"order", "age", "due", "tickets", "tags", "rest"} {
		l.line[i] = l.prefix + "line:" + k
	}
	return l, nil
}

// Ping asks the server for an answer.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redisledger: %w", err)
	}
	return nil
}

// maxBatch is how much goes into one script; more is sent in several.
const maxBatch = 1024

// Reserve implements ledger.Ledger in one round trip per 1024 requests. The demand
// that is held for a denied request is held within these.
func (l *Ledger) Reserve(ctx context.Context, batch []ledger.Request) ([]ledger.Decision, error) {
	if err := ledger.CheckBatch(batch); err != nil {
		return nil, err
	}
	var guard time.Duration
	for i := range batch {
		guard = max(guard, batch[i].Guard)
	}
	l.guard.Store(int64(guard))
	out := make([]ledger.Decision, 0, len(batch))
	for part := range slices.Chunk(batch, maxBatch) {
		c := l.newCall(len(part), guard)
		c.requests(part)
		reply, err := c.run(ctx, l.scripts.reserve)
		if err != nil {
			return nil, err
		}
		if out, err = c.decisions(out, reply, len(part)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Settle implements ledger.Ledger in one round trip per 1024 settlements.
func (l *Ledger) Settle(ctx context.Context, batch []ledger.Settlement) error {
	if err := ledger.CheckSettlements(batch); err != nil {
		return err
	}
	for part := range slices.Chunk(batch, maxBatch) {
		c := l.newCall(len(part), time.Duration(l.guard.Load()))
		for i := range part {
			c.settlement(&part[i])
		}
		if _, err := c.run(ctx, l.scripts.settle); err != nil {
			return err
		}
	}
	return nil
}

// Withdraw implements ledger.Line in one round trip per 1024 requests.
func (l *Ledger) Withdraw(ctx context.Context, batch []ledger.Request) error {
	if err := ledger.CheckBatch(batch); err != nil {
		return err
	}
	for part := range slices.Chunk(batch, maxBatch) {
		c := l.newCall(len(part), time.Duration(l.guard.Load()))
		for i := range part {
			c.withdrawal(&part[i])
		}
		if _, err := c.run(ctx, l.scripts.withdraw); err != nil {
			return err
		}
	}
	return nil
}

// Watch implements ledger.Line by a subscription.
func (l *Ledger) Watch(ctx context.Context, process string, turn func(in time.Duration)) error {
	sub := l.client.Subscribe(ctx, l.prefix+"line:turn:"+process)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		return fmt.Errorf("redisledger: %w", err)
	}
	turn(0) // something may have been missed before
	messages := sub.ChannelWithSubscriptions()
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return fmt.Errorf("redisledger: the subscription ended")
			}
			in := int64(0) // subscribed again
			if m, ok := m.(*redis.Message); ok {
				in, _ = strconv.ParseInt(m.Payload, 10, 64)
			}
			turn(time.Duration(in) * time.Microsecond)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Inspect implements ledger.Line in one round trip.
func (l *Ledger) Inspect(ctx context.Context) (ledger.LineState, error) {
	reply, err := l.newCall(0, 0).run(ctx, l.scripts.inspect)
	if err != nil {
		return ledger.LineState{}, err
	}
	if len(reply) != 4 {
		return ledger.LineState{}, errReply
	}
	return ledger.LineState{Tickets: reply[0], Grants: reply[1], Inversions: reply[2], Messages: reply[3]}, nil
}

// Renew implements ledger.Renewer in one round trip per 1024 leases.
func (l *Ledger) Renew(ctx context.Context, leases []ledger.Lease) error {
	if err := ledger.CheckLeases(leases); err != nil {
		return err
	}
	for part := range slices.Chunk(leases, maxBatch) {
		c := l.newCall(len(part), time.Duration(l.guard.Load()))
		for _, le := range part {
			c.id(le.ID)
			c.add(c.limit(le.Limit))
		}
		if _, err := c.run(ctx, l.scripts.renew); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot implements ledger.Snapshotter in one round trip.
func (l *Ledger) Snapshot(ctx context.Context, limits []*ledger.Limit) ([]ledger.Balance, error) {
	if err := ledger.CheckLimits(limits); err != nil {
		return nil, err
	}
	if len(limits) == 0 {
		return nil, nil
	}
	c := l.newCall(0, time.Duration(l.guard.Load()))
	at := make([]int64, len(limits))
	for i, lim := range limits {
		at[i] = c.limit(lim)
	}
	reply, err := c.run(ctx, l.scripts.snapshot)
	if err != nil {
		return nil, err
	}
	if len(reply) != 3*len(c.limits) {
		return nil, errReply
	}
	out := make([]ledger.Balance, len(limits))
	for i, lim := range limits {
		n := 3 * (at[i] - 1)
		out[i] = ledger.Balance{Limit: lim, Used: reply[n], Available: reply[n+1], Margin: reply[n+2]}
	}
	return out, nil
}

// Observe implements ledger.Feedback in one round trip per 1024 observations.
func (l *Ledger) Observe(ctx context.Context, batch []ledger.Observation) ([]ledger.Standing, error) {
	if err := ledger.CheckObservations(batch); err != nil {
		return nil, err
	}
	out := make([]ledger.Standing, 0, len(batch))
	for part := range slices.Chunk(batch, maxBatch) {
		c := l.newCall(0, time.Duration(l.guard.Load()))
		for i := range part {
			c.observation(&part[i])
		}
		reply, err := c.run(ctx, l.scripts.observe)
		if err != nil {
			return nil, err
		}
		if len(reply) != 5*len(part) {
			return nil, errReply
		}
		for r := range slices.Chunk(reply, 5) {
			out = append(out, ledger.Standing{Amount: r[0], Margin: r[1], Used: r[2], Others: r[3], Unsure: r[4] == 1})
		}
	}
	return out, nil
}

// limitKey names a limit's state. The length of the window is part of what a
// budget is; a lease's is not.
func (l *Ledger) limitKey(lim *ledger.Limit) string {
	if lim.Unit == ledger.InFlight {
		return l.prefix + "f:" + lim.Key
	}
	return l.prefix + "w:" + strconv.FormatInt(lim.Window.Microseconds(), 10) + ":" + lim.Key
}
