package ledger_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/ledger"
)

// operated are the limits that operations work on.
var operated = []*ledger.Limit{
	{Key: "unpaced", Unit: ledger.Tokens, Amount: 100, Window: time.Minute, Unpaced: true},
	{Key: "paced", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute},
	{Key: "burst", Unit: ledger.Tokens, Amount: 90_001, Window: time.Minute, Burst: 50_000, Guard: 3 * time.Second, MaxCharge: 60_000},
	{Key: "short", Unit: ledger.Requests, Amount: 7, Window: time.Second, Burst: 3},
	{Key: "running", Unit: ledger.InFlight, Amount: 3},
	{Key: "zero", Unit: ledger.Tokens, Window: time.Minute},
}

// operations reads calls from bytes, and holds the ledger to the oracle.
type operations struct {
	*testing.T
	bytes  []byte
	memory *ledger.Memory
	oracle *oracle
	last   uint64
	asked  []ledger.Request
	at     map[ledger.ID]int64 // when each was asked for first
}

func FuzzOperations(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(rand.New(rand.NewPCG(seed, 0)), 600))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { operate(t, bytes[:min(len(bytes), 2000)]) })
}

func TestOperations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		operate(t, randomBytes(rng, 1500))
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func operate(t *testing.T, bytes []byte) {
	synctest.Test(t, func(t *testing.T) {
		o := &operations{T: t, bytes: bytes, memory: ledger.NewMemory(), oracle: newOracle(), at: map[ledger.ID]int64{}}
		for len(o.bytes) > 0 {
			o.step()
		}
	})
}

// next reads a number below n; after the last byte it is 0.
func (o *operations) next(n int) int {
	if len(o.bytes) == 0 {
		return 0
	}
	b := o.bytes[0]
	o.bytes = o.bytes[1:]
	return int(b) * n / 256
}

func (o *operations) step() {
	o.Helper()
	now := time.Now().UnixMicro()
	switch n := o.next(10); {
	case n < 4:
		o.reserve(now)
	case n < 7:
		o.settle(now)
	case n < 8:
		o.renew(now)
	default:
		unit := []time.Duration{1, time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Second}[o.next(5)]
		time.Sleep(unit.Round(time.Microsecond) * time.Duration(o.next(256)))
		time.Sleep(time.Duration(o.next(256)) * time.Microsecond)
	}
	o.check(time.Now().UnixMicro())
}

func (o *operations) charges() []ledger.Charge {
	var cs []ledger.Charge
	for i, l := range operated {
		if o.next(len(operated)) != i {
			continue
		}
		amount := int64(o.next(256)) * max(l.Amount/20, 5) / 200
		if o.next(16) == 0 {
			amount *= 20
		}
		if l.Unit == ledger.InFlight {
			amount = 1
		}
		cs = append(cs, ledger.Charge{Limit: l, Amount: amount})
	}
	return cs
}

// request is a new one, or with a chance of 1 in n one of the last 20, if that is not
// older than age.
func (o *operations) request(n int, age time.Duration) ledger.Request {
	if len(o.asked) > 0 && o.next(n) == 0 {
		r := o.asked[len(o.asked)-1-o.next(min(len(o.asked), 20))]
		if time.Now().UnixMicro()-o.at[r.ID] < age.Microseconds() {
			return r
		}
	}
	o.last++
	r := ledger.Request{Charges: o.charges()}
	binary.BigEndian.PutUint64(r.ID.Job[:], o.last)
	o.asked = append(o.asked, r)
	o.at[r.ID] = time.Now().UnixMicro()
	return r
}

func (o *operations) reserve(now int64) {
	o.Helper()
	batch := make([]ledger.Request, 1+o.next(5))
	for i := range batch {
		batch[i] = o.request(6, 100*time.Second)
	}
	got, err := o.memory.Reserve(o.Context(), batch)
	if err != nil {
		o.Fatal(err)
	}
	if want := o.oracle.reserve(batch, now); !slices.Equal(got, want) {
		o.Fatalf("%+v:\ngot  %+v\nwant %+v", batch, got, want)
	}
	for _, l := range operated {
		if n := o.oracle.granted(l, now); n > l.Amount {
			o.Fatalf("%d of %q granted in a window of %d", n, l.Key, l.Amount)
		}
	}
}

func (o *operations) settle(now int64) {
	o.Helper()
	r := o.request(1, 50*time.Minute)
	s := ledger.Settlement{ID: r.ID, Cancel: o.next(4) == 0, Counted: time.Duration(o.next(30)) * 100 * time.Millisecond}
	for _, c := range r.Charges {
		f := ledger.Final{Limit: c.Limit, Admitted: c.Amount * int64(o.next(5)) / 3}
		if o.next(4) == 0 {
			f.Late = int64(o.next(20))
		}
		s.Final = append(s.Final, f)
	}
	if err := o.memory.Settle(o.Context(), []ledger.Settlement{s}); err != nil {
		o.Fatal(err)
	}
	o.oracle.settle(s, now)
}

func (o *operations) renew(now int64) {
	l := ledger.Lease{ID: o.request(1, 50*time.Minute).ID, Limit: operated[4]}
	if err := o.memory.Renew(o.Context(), []ledger.Lease{l}); err != nil {
		o.Fatal(err)
	}
	o.oracle.renew(l, now)
}

func (o *operations) check(now int64) {
	o.Helper()
	got, err := o.memory.Snapshot(o.Context(), operated)
	if err != nil {
		o.Fatal(err)
	}
	for i, l := range operated {
		if want := o.oracle.balance(l, now); got[i] != want {
			o.Fatalf("%q: got %+v, want %+v", l.Key, got[i], want)
		}
		if burst := l.Shape(0).Burst; burst > 0 && got[i].Available > burst {
			o.Fatalf("%q: %d available, above a burst of %d", l.Key, got[i].Available, burst)
		}
	}
}
