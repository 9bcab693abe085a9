package redisledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

// ulule/limiter#124, upstash/ratelimit-js#122, Effect-TS/effect-smol#2328: after a flush
// or a failover the wrong script runs, or its arguments are gone.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.Start(t).URL())
	l := newLedger(t, client, "flush")
	tpm, running := tokens("tpm", 100_000), &ledger.Limit{Key: "running", Unit: ledger.InFlight, Amount: 32, Window: time.Minute}
	ctx := t.Context()
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for n := range 6 {
				id := ledger.ID{Job: [16]byte{0: byte(g)}, Attempt: uint32(n)}
				r := ledger.Request{ID: id, Charges: []ledger.Charge{{Limit: tpm, Amount: 100}, {Limit: running, Amount: 1}}}
				client.ScriptFlush(ctx)
				ds, err := l.Reserve(ctx, []ledger.Request{r, r})
				if err != nil || ds[0].Outcome != ledger.Granted || ds[1].Outcome != ledger.Granted {
					t.Errorf("%+v, %v", ds, err)
					return
				}
				client.ScriptFlush(ctx)
				if err := l.Renew(ctx, []ledger.Lease{{ID: id, Limit: running}}); err != nil {
					t.Error(err)
				}
				client.ScriptFlush(ctx)
				s := ledger.Settlement{ID: id, Final: []ledger.Final{{Limit: tpm, Admitted: 7}, {Limit: running, Admitted: 1}}}
				if err := l.Settle(ctx, []ledger.Settlement{s}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := &steps{T: t, Ledger: l}
	s.used(tpm, 32*6*7)
	s.used(running, 0)
}

// redis/redis#1688: a script text that differs from call to call fills the server.
func TestFourScripts(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.Start(t).URL())
	for _, name := range []string{"a", "b"} {
		s := &steps{T: t, Ledger: newLedger(t, client, name)}
		for _, key := range []string{"x", "y", "z"} {
			s.everything(key)
		}
	}
	info := client.Info(t.Context(), "memory").Val()
	if !strings.Contains(info, "number_of_cached_scripts:4\r\n") {
		t.Fatal(regexp.MustCompile("number_of_cached_scripts.*").FindString(info))
	}
}

// counter counts the commands that go to the server.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// BerriAI/litellm#30211: reserving loads Redis so much that users want it off. A job is
// one round trip to reserve and one to settle, and a batch is no more.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.Start(t).URL())
	s := &steps{T: t, Ledger: newLedger(t, client, "trips")}
	s.everything("x") // the scripts are there
	var c counter
	client.AddHook(&c)
	s.everything("x")
	if n := c.n.Load(); n != 4 {
		t.Fatalf("%d commands for a reserve, a renewal, a settle and a snapshot", n)
	}
}

// developerz-ai/wurk#91, vutran1710/PyrateLimiter#151: a script that makes up its keys
// fails in a cluster and on other servers. Ours name none but those they are given.
func TestScriptsTouchDeclaredKeysOnly(t *testing.T) {
	given := []string{"key", "w.key", "gen.current", "open.current", "open.before", "closed.current", "closed.before", "KEYS[#KEYS - 5]", "ORDER", "AGE", "DUE", "hash", "TICKETS", "TAGS", "REST", "VALUES"}
	call := regexp.MustCompile(`redis\.p?call\(\s*([^,)]+)(?:,\s*([^,)]+))?`)
	for name, text := range luaFiles(t) {
		// Whoever may not publish must not lose the script's writes.
		text = strings.Replace(text, "redis.pcall('PUBLISH', channel,", "", 1)
		if strings.Contains(text, "redis.pcall") || strings.Contains(text, "loadstring") {
			t.Errorf("%s hides a call", name)
		}
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			if command, key := m[1], m[2]; command != "'TIME'" && !slices.Contains(given, key) {
				t.Errorf("%s: %s on %q", name, command, key)
			}
		}
	}
	if line := luaFiles(t)["line.lua"]; strings.Contains(line, "KEYS[") || strings.Count(line, "= unpack(KEYS, #KEYS - 5)") != 1 {
		t.Error("line.lua: keys come from elsewhere than the end of KEYS")
	}
	window := luaFiles(t)["window.lua"]
	for _, from := range []string{"limits[i] = read_limit(KEYS[i])", "current = KEYS[", "before = KEYS["} {
		if strings.Count(window, from) != 1 {
			t.Errorf("window.lua: keys come from elsewhere than %s", from)
		}
	}
}

func luaFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range []string{"window.lua", "line.lua", "reserve.lua", "settle.lua", "renew.lua", "snapshot.lua", "withdraw.lua", "inspect.lua", "observe.lua", "swap.lua"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

// documented returns the commands that doc.go says the user needs.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	one := regexp.MustCompile(`\n// ?`).ReplaceAllString(string(text), " ")
	list := regexp.MustCompile(`needs the commands ([A-Z, ]+) and ([A-Z]+)`).FindStringSubmatch(one)
	if list == nil {
		t.Fatal("doc.go lists no commands")
	}
	return append(strings.Split(list[1], ", "), list[2])
}

func TestDocumentedCommands(t *testing.T) {
	used := map[string]bool{"PING": true, "SUBSCRIBE": true, "EVAL": true, "EVALSHA": true, "HSET": true, "SADD": true}
	for _, text := range luaFiles(t) {
		for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
	}
	listed := documented(t)
	for _, c := range listed {
		if !used[c] {
			t.Errorf("%s is not needed", c)
		}
		delete(used, c)
	}
	for c := range used {
		t.Errorf("%s is not listed", c)
	}
}

// A user with the rights of the documentation, and no other.
func TestACL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := open(t, server.URL())
	rules := []any{"ACL", "SETUSER", "paceline", "on", ">secret", "resetkeys", "~{acl}:*", "resetchannels", "&{acl}:*", "-@all"}
	for _, c := range documented(t) {
		rules = append(rules, "+"+strings.ToLower(c))
	}
	if err := admin.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	client := open(t, "redis://paceline:secret@"+server.Addr)
	s := &steps{T: t, Ledger: newLedger(t, client, "acl")}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.everything("x")
	}
	if ok, err := s.SwapValue(t.Context(), "n", nil, []byte("v")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if v, err := s.Values(t.Context()); len(v) != 1 || err != nil {
		t.Fatal(v, err)
	}
	full := tokens("full", 10)
	if _, err := s.Observe(t.Context(), []ledger.Observation{{Limit: full, Used: ledger.Untold, Close: time.Nanosecond}}); err != nil {
		t.Fatal(err)
	}
	s.reserve(s.id(), full, 10, ledger.Granted)
	s.reserve(s.id(), full, 1, ledger.Denied)
	running := &ledger.Limit{Key: "one", Unit: ledger.InFlight, Amount: 1, Window: time.Minute}
	s.reserve(s.id(), running, 1, ledger.Granted)
	s.reserve(s.id(), running, 1, ledger.Denied)
	time.Sleep(300 * time.Millisecond) // a slot of the minute
	s.reserve(s.id(), tokens("x", 1000), 1, ledger.Granted)
	testTurn(t, s.Ledger)
	if err := client.Get(t.Context(), "other").Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Fatalf("the user may more: %v", err)
	}
}

// rueidislimiter's AllowN and others take the client's time: one fast clock resets
// everybody's window. The clock of a synctest bubble is decades behind.
func TestClientsClockDoesNotMatter(t *testing.T) {
	t.Parallel()
	url, name := redistest.URL(t), fmt.Sprintf("skew-%x", rand.Uint64())
	tpm := tokens("tpm", 100)
	id := ledger.ID{Attempt: 77}
	synctest.Test(t, func(t *testing.T) {
		s := &steps{T: t, Ledger: newLedger(t, open(t, url), name)}
		s.reserve(id, tpm, 100, ledger.Granted)
		time.Sleep(10 * time.Minute) // for nobody else
		s.used(tpm, 100)
		s.reserve(s.id(), tpm, 1, ledger.Denied)
	})
	s := &steps{T: t, Ledger: newLedger(t, open(t, url), name), last: 100}
	s.used(tpm, 100)
	if d := s.reserve(s.id(), tpm, 1, ledger.Denied); d.Wait > 62*time.Second {
		t.Fatalf("wait %v", d.Wait)
	}
	s.reserve(id, tpm, 100, ledger.Granted)
	if err := s.Settle(t.Context(), settlement(id, tpm, 60)); err != nil {
		t.Fatal(err)
	}
	s.reserve(s.id(), tpm, 40, ledger.Granted)
}

// spring-cloud/spring-cloud-gateway#2412, x/time/rate's TestLimiterJumpBackwards: a
// server whose clock goes back, as after a failover, refills the same second again.
func TestServersClockGoesBack(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.URL(t))
	name := fmt.Sprintf("back-%x", rand.Uint64())
	s := &steps{T: t, Ledger: newLedger(t, client, name)}
	clock := redisledger.FixClock(s.Ledger)
	l := &ledger.Limit{Key: "tpm", Unit: ledger.Tokens, Amount: 6100, Window: time.Minute, Burst: 1000, Guard: 765625 * time.Microsecond} // 100 a second
	start := time.Now().UnixMicro()
	at := func(seconds float64, available int64) {
		t.Helper()
		client.Set(t.Context(), clock, start+int64(seconds*1e6), time.Minute)
		bs, err := s.Snapshot(t.Context(), []*ledger.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		if got := bs[0].Available; got != available {
			t.Fatalf("%d available at %v s, want %d", got, seconds, available)
		}
	}
	take := func(n int64) { t.Helper(); s.reserve(s.id(), l, n, ledger.Granted) }
	at(10, 1000)
	take(1000)
	at(11, 100)
	take(20)
	at(10, 80)
	if d := s.reserve(s.id(), l, 81, ledger.Denied); d.Wait > time.Second {
		t.Fatalf("wait %v", d.Wait)
	}
	take(10)
	at(10, 70)
	at(11, 70)
	take(10)
	at(9, 60)
	id := s.id()
	s.reserve(id, l, 60, ledger.Granted)
	if err := s.Settle(t.Context(), settlement(id, l, 40)); err != nil {
		t.Fatal(err)
	}
	at(9, 20)
	at(11, 20)
	at(12, 120)
	take(120)
	at(11, 0)
	s.used(l, 1000+20+10+10+40+120)
	at(73, 1000)
}
