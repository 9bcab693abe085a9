package redisledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// Steps that fail the test when they do not go as said.
type steps struct {
	*testing.T
	*redisledger.Ledger
	last byte
}

func (s *steps) id() ledger.ID {
	s.last++
	return ledger.ID{Job: [16]byte{15: s.last}, Attempt: 1}
}

func request(id ledger.ID, l *ledger.Limit, amount int64) []ledger.Request {
	return []ledger.Request{{ID: id, Charges: []ledger.Charge{{Limit: l, Amount: amount}}}}
}

func settlement(id ledger.ID, l *ledger.Limit, amount int64) []ledger.Settlement {
	return []ledger.Settlement{{ID: id, Final: []ledger.Final{{Limit: l, Admitted: amount}}}}
}

func (s *steps) reserve(id ledger.ID, l *ledger.Limit, amount int64, want ledger.Outcome) ledger.Decision {
	s.Helper()
	ds, err := s.Reserve(s.Context(), request(id, l, amount))
	if err != nil {
		s.Fatal(err)
	}
	if ds[0].Outcome != want {
		s.Fatalf("%+v, want %v", ds[0], want)
	}
	return ds[0]
}

func (s *steps) used(l *ledger.Limit, want int64) {
	s.Helper()
	bs, err := s.Snapshot(s.Context(), []*ledger.Limit{l})
	if err != nil {
		s.Fatal(err)
	}
	if bs[0].Used != want {
		s.Fatalf("%d used of %q, want %d", bs[0].Used, l.Key, want)
	}
}

func tokens(key string, amount int64) *ledger.Limit {
	return &ledger.Limit{Key: key, Unit: ledger.Tokens, Amount: amount, Window: time.Minute, Unpaced: true}
}

// redis/go-redis#2339, express-rate-limit/rate-limit-redis#251: the client repeats a
// command whose reply was lost, up to three times, and each counts.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	s := &steps{T: t, Ledger: newLedger(t, open(t, p.url()), "lost")}
	tpm := tokens("tpm", 1000)
	s.reserve(s.id(), tpm, 0, ledger.Granted) // the script is there
	used := int64(0)
	for lost := range int64(4) {
		id := s.id()
		p.lose.Store(lost)
		s.reserve(id, tpm, 100, ledger.Granted)
		used += 100
		s.used(tpm, used)
		p.lose.Store(lost)
		if err := s.Settle(t.Context(), settlement(id, tpm, 30)); err != nil {
			t.Fatal(err)
		}
		used -= 70
		s.used(tpm, used)
	}
	// More than the client repeats: the caller gets an error, and asks again.
	id := s.id()
	p.lose.Store(5)
	if ds, err := s.Reserve(t.Context(), request(id, tpm, 100)); err == nil {
		t.Fatal(ds)
	}
	p.lose.Store(0)
	s.used(tpm, used+100)
	s.reserve(id, tpm, 100, ledger.Granted)
	s.used(tpm, used+100)
	p.lose.Store(5)
	if err := s.Settle(t.Context(), settlement(id, tpm, 40)); err == nil {
		t.Fatal("no error")
	}
	p.lose.Store(0)
	if err := s.Settle(t.Context(), settlement(id, tpm, 40)); err != nil {
		t.Fatal(err)
	}
	s.used(tpm, used+40)
	// Or it gives up and cancels, once it can.
	id = s.id()
	p.lose.Store(5)
	if ds, err := s.Reserve(t.Context(), request(id, tpm, 100)); err == nil {
		t.Fatal(ds)
	}
	p.lose.Store(0)
	cancel := settlement(id, tpm, 0)
	cancel[0].Cancel = true
	if err := s.Settle(t.Context(), cancel); err != nil {
		t.Fatal(err)
	}
	s.used(tpm, used+40)
	s.reserve(id, tpm, 100, ledger.Refused)
}

// A batch of which some are denied, repeated after a lost reply.
func TestLostReplyToBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	s := &steps{T: t, Ledger: newLedger(t, open(t, p.url()), "lost")}
	tpm := tokens("tpm", 1000)
	s.reserve(s.id(), tpm, 0, ledger.Granted)
	var batch []ledger.Request
	for range 16 {
		batch = append(batch, request(s.id(), tpm, 100)...)
	}
	p.lose.Store(2)
	ds, err := s.Reserve(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if want := i < 10; want != (d.Outcome == ledger.Granted) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	s.used(tpm, 1000)
}

// alive checks that each call gets the reply to itself: redis/go-redis#1568, where a
// connection whose context had ended gave the next call the last one's reply.
func (s *steps) alive(tpm *ledger.Limit) {
	s.Helper()
	a, b := s.id(), s.id()
	s.reserve(a, tpm, tpm.Amount+1, ledger.TooLarge)
	s.reserve(b, tpm, 1, ledger.Granted)
	s.reserve(a, tpm, tpm.Amount, ledger.Denied)
	if err := s.Settle(s.Context(), settlement(b, tpm, 0)); err != nil {
		s.Fatal(err)
	}
	s.reserve(b, tpm, 1, ledger.Refused)
}

const patience = 250 * time.Millisecond

// bounded runs calls that have 250 ms each, and says that they failed in time. A busy
// machine is late now and then, but not as late as the client's own 3 s.
func bounded(t *testing.T, calls ...func(ctx context.Context) error) {
	t.Helper()
	for i, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		start := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(start); err == nil || took > patience+2*time.Second {
			t.Errorf("call %d: %v after %v", i, err, took)
		}
	}
}

func (s *steps) calls(tpm *ledger.Limit) []func(ctx context.Context) error {
	running := &ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 10, Window: time.Minute}
	id := s.id()
	return []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := s.Reserve(ctx, request(id, tpm, 100)); return err },
		func(ctx context.Context) error { return s.Settle(ctx, settlement(id, tpm, 100)) },
		func(ctx context.Context) error { return s.Renew(ctx, []ledger.Lease{{ID: id, Limit: running}}) },
		func(ctx context.Context) error { _, err := s.Snapshot(ctx, []*ledger.Limit{tpm}); return err },
		s.Ping,
	}
}

// BerriAI/litellm#35273, redis/go-redis#2243 and #2682, erpc/erpc#1113: Redis is frozen,
// connections stay open, and every call hangs.
func TestFrozen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := &steps{T: t, Ledger: newLedger(t, open(t, server.URL()), "frozen")}
	tpm := tokens("tpm", 5000)
	s.reserve(s.id(), tpm, 900, ledger.Granted)
	s.alive(tpm)

	server.Freeze()
	bounded(t, s.calls(tpm)...)
	failed := make(chan error, 32)
	for i := range cap(failed) {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := s.Reserve(ctx, request(ledger.ID{Attempt: 100 + uint32(i)}, tpm, 1))
			failed <- err
		}()
	}
	for range cap(failed) {
		select {
		case err := <-failed:
			if err == nil {
				t.Error("a frozen server answered")
			}
		case <-time.After(5 * time.Second):
			t.Fatal("a call hangs")
		}
	}

	server.Thaw()
	s.alive(tpm)
	// What was sent before has been done by now, or never will be: ids tell. So many
	// cancels as there were reserves, and nothing of them is left.
	var cancel []ledger.Settlement
	for i := range cap(failed) {
		cancel = append(cancel, settlement(ledger.ID{Attempt: 100 + uint32(i)}, tpm, 0)...)
	}
	for i := range s.last {
		if i > 0 { // the first took 900
			cancel = append(cancel, settlement(ledger.ID{Job: [16]byte{15: i + 1}, Attempt: 1}, tpm, 0)...)
		}
	}
	for i := range cancel {
		cancel[i].Cancel = true
	}
	if err := s.Settle(t.Context(), cancel); err != nil {
		t.Fatal(err)
	}
	// The frozen settlement of 100 found no reservation, or made it 100 before.
	bs, err := s.Snapshot(t.Context(), []*ledger.Limit{tpm})
	if err != nil {
		t.Fatal(err)
	}
	if used := bs[0].Used; used != 900 && used != 1000 {
		t.Fatalf("%d used", used)
	}
}

// redis/go-redis#2145, openlinker-project/openlinker#2019: refused and black-holed
// connections are both bounded.
func TestNoServer(t *testing.T) {
	t.Parallel()
	refused, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	server.Freeze() // the kernel takes connections, nobody answers
	for name, addr := range map[string]string{"refused": refused, "black hole": server.Addr} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &steps{T: t, Ledger: newLedger(t, open(t, "redis://"+addr), "gone")}
			bounded(t, s.calls(tokens("tpm", 1000))...)
		})
	}
}

// SweetSophia/noosphere#276 and the like start over after an outage; a server that comes
// back with its data must not. asynq: a script is not known after a failover.
func TestFailover(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 "+master.Port())
	s := &steps{T: t, Ledger: newLedger(t, open(t, master.URL()), "failover")}
	tpm, bucket := tokens("tpm", 1000), &ledger.Limit{Key: "bucket", Unit: ledger.Tokens, Amount: 1000, Window: 20 * 24 * time.Hour}
	a, b, c := s.id(), s.id(), s.id()
	s.reserve(a, tpm, 700, ledger.Granted)
	s.reserve(b, bucket, 40, ledger.Granted)
	s.reserve(c, tpm, 100, ledger.Granted)
	if err := s.Settle(t.Context(), settlement(c, tpm, 50)); err != nil {
		t.Fatal(err)
	}
	admin := open(t, master.URL())
	for start := time.Now(); ; {
		n, err := admin.Do(t.Context(), "WAIT", 1, 1000).Int()
		if err == nil && n == 1 {
			break
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("the replica does not follow: %d, %v", n, err)
		}
	}
	master.Kill()
	promoted := open(t, replica.URL())
	if err := promoted.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	s.Ledger = newLedger(t, promoted, "failover")
	s.used(tpm, 750)
	s.reserve(a, tpm, 700, ledger.Granted)
	s.reserve(c, tpm, 100, ledger.Refused)
	s.reserve(s.id(), bucket, 1, ledger.Denied)
	s.reserve(s.id(), tpm, 251, ledger.Denied)
	if err := s.Settle(t.Context(), settlement(a, tpm, 10)); err != nil {
		t.Fatal(err)
	}
	s.used(tpm, 60)
}
