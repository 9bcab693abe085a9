package redisledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
)

// everything calls all that a ledger can do, on limits of all kinds.
func (s *steps) everything(key string) {
	s.Helper()
	limits := []*ledger.Limit{
		{Key: key, Unit: ledger.Tokens, Amount: 1000, Window: time.Minute},
		{Key: key, Unit: ledger.MicroUSD, Amount: 1000, Window: 24 * time.Hour, Unpaced: true},
		{Key: key, Unit: ledger.InFlight, Amount: 10, Window: time.Second},
		{Key: key + "short", Unit: ledger.Requests, Amount: 10, Window: 10 * time.Millisecond, Unpaced: true},
	}
	batch := make([]ledger.Request, 12)
	settlements := make([]ledger.Settlement, len(batch))
	leases := make([]ledger.Lease, len(batch))
	for i := range batch {
		id := s.id()
		batch[i].ID, settlements[i].ID, settlements[i].Cancel = id, id, i%2 == 0
		leases[i] = ledger.Lease{ID: id, Limit: limits[2]}
		for _, l := range limits {
			batch[i].Charges = append(batch[i].Charges, ledger.Charge{Limit: l, Amount: 1})
			settlements[i].Final = append(settlements[i].Final, ledger.Final{Limit: l, Admitted: 2, Late: 1})
		}
	}
	if _, err := s.Reserve(s.Context(), batch); err != nil {
		s.Fatal(err)
	}
	if err := s.Renew(s.Context(), leases); err != nil {
		s.Fatal(err)
	}
	if err := s.Settle(s.Context(), settlements[:4]); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Snapshot(s.Context(), limits); err != nil {
		s.Fatal(err)
	}
}

// Every key has the ledger's hash tag, whatever is in the limit's own name, and a time
// to live, so that nothing is left for ever: etalab-ia/OpenGateLLM#608, cozy-stack#2250.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.Start(t).URL())
	s := &steps{T: t, Ledger: newLedger(t, client, "keys")}
	for _, key := range []string{"tpm", "}x", "{y}", "a\nb\x00"} {
		s.everything(key)
	}
	keys := client.Keys(t.Context(), "*").Val()
	if len(keys) != 4*4+2 {
		t.Fatalf("%d keys: %q", len(keys), keys)
	}
	for _, k := range keys {
		if !strings.HasPrefix(k, "{keys}:") {
			t.Errorf("key %q", k)
		}
		most := map[bool]time.Duration{true: 2 * time.Hour, false: 65*time.Second + time.Second/2}[strings.Contains(k, ":open:")]
		switch {
		case strings.Contains(k, ":w:86400000000:"):
			most = 24*time.Hour + 2*time.Hour
		case strings.Contains(k, ":closed:"):
			most = 2 * time.Minute
		}
		if ttl := client.PTTL(t.Context(), k).Val(); ttl <= 0 || ttl > most {
			t.Errorf("key %q lives %v, at most %v", k, ttl, most)
		}
	}
	// Limits of a moment are gone in a moment, also the one in flight that nobody gave
	// back.
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := append(client.Keys(t.Context(), "*short").Val(), client.Keys(t.Context(), "{keys}:f:*").Val()...)
		if len(left) == 0 {
			break
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("still there: %q", left)
		}
	}
	if n := client.Exists(t.Context(), "{keys}:w:60000000:tpm").Val(); n != 1 {
		t.Fatal("a limit is gone while it matters")
	}
}

// redis/redis#15093, throttled/throttled#26: at high rates or short windows the time to
// live rounds to 0, and the charge is gone as soon as it is made.
func TestKeysLiveLongEnough(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.URL(t))
	name := fmt.Sprintf("live-%x", rand.Uint64())
	s := &steps{T: t, Ledger: newLedger(t, client, name)}
	for _, l := range []*ledger.Limit{
		{Key: "short", Unit: ledger.Tokens, Amount: 1, Window: 10 * time.Millisecond},
		{Key: "fast", Unit: ledger.Tokens, Amount: ledger.MaxAmount, Window: 10 * time.Millisecond},
		{Key: "minute", Unit: ledger.Tokens, Amount: 1, Window: time.Minute},
		{Key: "month", Unit: ledger.Tokens, Amount: 1000, Window: 32 * 24 * time.Hour},
	} {
		s.reserve(s.id(), l, 1, ledger.Granted)
		key := fmt.Sprintf("{%s}:w:%d:%s", name, l.Window.Microseconds(), l.Key)
		shape := l.Shape(0)
		least := time.Duration(shape.Window+shape.Guard+shape.Slot)*time.Microsecond - time.Second
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl < least {
			t.Errorf("%s lives %v, at least %v", l.Key, ttl, least)
		}
	}
	// A debt is remembered until it is paid, though the window is over long before.
	debt := &ledger.Limit{Key: "debt", Unit: ledger.Tokens, Amount: 100, Window: time.Minute}
	id := s.id()
	s.reserve(id, debt, 1, ledger.Granted)
	if err := s.Settle(t.Context(), settlement(id, debt, 1000)); err != nil {
		t.Fatal(err)
	}
	if ttl := client.PTTL(t.Context(), "{"+name+"}:w:60000000:debt").Val(); ttl < 10*time.Minute || ttl > 11*time.Minute {
		t.Errorf("a debt of ten minutes lives %v", ttl)
	}
	// A key without a time to live gets one with the next charge.
	key := "{" + name + "}:w:60000000:minute2"
	minute := &ledger.Limit{Key: "minute2", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute}
	s.reserve(s.id(), minute, 1, ledger.Granted)
	client.Persist(t.Context(), key)
	s.reserve(s.id(), minute, 1, ledger.Granted)
	if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
		t.Errorf("a key lives %v", ttl)
	}
	// A shorter lease of another process does not end the longer ones.
	long := &ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 10, Window: time.Minute}
	short := &ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 10, Window: time.Second}
	s.reserve(s.id(), long, 1, ledger.Granted)
	s.reserve(s.id(), short, 1, ledger.Granted)
	if ttl := client.PTTL(t.Context(), "{"+name+"}:f:running").Val(); ttl < time.Minute {
		t.Errorf("leases of a minute live %v", ttl)
	}
}

// BerriAI/litellm#14204, apache/shenyu#6649: every call renews the key, so the count
// never ends and the limit is full for ever. Half of the limit is asked for.
func TestSteadyTraffic(t *testing.T) {
	t.Parallel()
	s := &steps{T: t, Ledger: newLedger(t, open(t, redistest.URL(t)), fmt.Sprintf("steady-%x", rand.Uint64()))}
	l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 100, Window: 200 * time.Millisecond, Unpaced: true}
	for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		s.reserve(s.id(), l, 5, ledger.Granted)
	}
}

// Steady traffic leaves no more behind than a window's slots, and the leases that run.
func TestWindowsStaySmall(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	synctest.Test(t, func(t *testing.T) {
		name := fmt.Sprintf("small-%x", rand.Uint64())
		v := newVirtual(t, url, name)
		l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 1000, Window: time.Minute, Unpaced: true}
		running := &ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 10, Window: time.Minute}
		grant := func(i int) {
			t.Helper()
			r := ledger.Request{ID: ledger.ID{Attempt: uint32(i)}, Charges: []ledger.Charge{{Limit: l, Amount: 1}}}
			if i%25 == 0 {
				r.Charges = append(r.Charges, ledger.Charge{Limit: running, Amount: 1})
			}
			ds, err := v.Reserve(t.Context(), []ledger.Request{r})
			if err != nil || ds[0].Outcome != ledger.Granted {
				t.Fatal(ds, err)
			}
			fields := v.client.HLen(t.Context(), "{"+name+"}:w:60000000:tpm").Val()
			if fields < 2 || fields > 1+272 {
				t.Fatalf("%d fields after %d grants", fields, i)
			}
			if n := v.client.ZCard(t.Context(), "{"+name+"}:f:running").Val(); n > 12 {
				t.Fatalf("%d leases after %d grants", n, i)
			}
		}
		for i := range 1000 {
			grant(i)
			time.Sleep(240 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		grant(1001)
		if fields := v.client.HLen(t.Context(), "{"+name+"}:w:60000000:tpm").Val(); fields != 2 {
			t.Fatalf("%d fields after an idle hour", fields)
		}
	})
}

// FuzzKeys uses a limit with any name in two ledgers with any name.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"tpm", "}x", "{}", "{", "a\nb", "a\r\n$1\r\nb", "\x00", "\xff", strings.Repeat("k", 4096), "*", "w:60000000:x"} {
		f.Add(key, "name")
		f.Add("tpm", key)
	}
	url := redistest.URL(f)
	f.Fuzz(func(t *testing.T, key, name string) {
		if strings.ContainsAny(name, "{}") || key == "" || len(key) > 4096 || len(name) > 4096 {
			return
		}
		client := open(t, url)
		name += fmt.Sprint(rand.Uint64())
		s := &steps{T: t, Ledger: newLedger(t, client, name)}
		other := &steps{T: t, Ledger: newLedger(t, client, name+"x")}
		l, longer := tokens(key, 100), tokens(key+"x", 100)
		if len(key) == 4096 {
			longer = tokens(key[1:], 100)
		}
		id := s.id()
		s.reserve(id, l, 60, ledger.Granted)
		s.reserve(s.id(), l, 41, ledger.Denied)
		s.used(longer, 0)
		other.used(l, 0)
		if err := s.Settle(t.Context(), settlement(id, l, 7)); err != nil {
			t.Fatal(err)
		}
		s.used(l, 7)
	})
}
