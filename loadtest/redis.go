package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/ledger"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

const redisProgram = "redis-server"

// errNoRedis says how to get a Redis.
var errNoRedis = errors.New("loadtest: -ledger auto needs redis-server in the PATH " +
	"(Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis; " +
	"or docker run -p 6379:6379 redis, with -ledger redis://127.0.0.1:6379)")

// vault is the Redis that holds the fleet's ledger.
type vault struct {
	address string
	client  redis.UniversalClient
	stop    func()
}

// openVault connects to the Redis at the address, or to one of its own for "auto".
func openVault(ctx context.Context, address string) (*vault, error) {
	v := &vault{address: address, stop: func() {}}
	if address == "auto" {
		var err error
		if v.address, v.stop, err = startRedis(); err != nil {
			return nil, err
		}
	}
	var err error
	if v.client, err = redisledger.Open(v.address); err != nil {
		v.stop()
		return nil, err
	}
	if err := v.ping(ctx); err != nil {
		v.close()
		return nil, fmt.Errorf("loadtest: no answer from Redis: %w", err)
	}
	return v, nil
}

func (v *vault) close() {
	_ = v.client.Close()
	v.stop()
}

// ping waits up to five seconds for an answer: a server needs a moment to start.
func (v *vault) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		err := v.client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// scripts is how many scripts the server has been sent. Commands that scripts
// call are counted under their own names, and are no round trips.
func (v *vault) scripts(ctx context.Context) (int64, error) {
	info, err := v.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("loadtest: Redis: %w", err)
	}
	var n int64
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_eval" && name != "cmdstat_evalsha" {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("loadtest: Redis: commandstats: %w", err)
		}
		n += calls
	}
	return n, nil
}

// ledger is the one of that name.
func (v *vault) ledger(name string) (*redisledger.Ledger, error) {
	return redisledger.New(v.client, redisledger.Config{Name: name})
}

// inFlight is how many calls the ledger of that name believes to be running.
func (v *vault) inFlight(ctx context.Context, name string, l ledger.Limit) (int64, error) {
	led, err := v.ledger(name)
	if err != nil {
		return 0, err
	}
	b, err := led.Snapshot(ctx, []*ledger.Limit{&l})
	if err != nil {
		return 0, err
	}
	return b[0].Used, nil
}

// line is what the ledger of that name counted in its line, nil when it keeps none.
func (v *vault) line(ctx context.Context, name string) (*ledger.LineState, error) {
	led, err := v.ledger(name)
	if err != nil {
		return nil, err
	}
	s, ok, err := inversions(ctx, led)
	if !ok {
		return nil, err
	}
	return &s, nil
}

// startRedis starts a Redis of our own.
func startRedis() (address string, stop func(), err error) {
	if _, err := exec.LookPath(redisProgram); err != nil {
		return "", nil, errNoRedis
	}
	c, err := spawn("redis")
	if err != nil {
		return "", nil, err
	}
	if err := json.NewDecoder(c.out).Decode(&address); err != nil {
		c.stop()
		return "", nil, fmt.Errorf("loadtest: %s did not start: %w", redisProgram, err)
	}
	return address, c.stop, nil
}

// serveRedis runs a server that keeps nothing, writes its address, and ends it with
// its input: a server would outlive a parent that is killed.
func serveRedis(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	dir, err := os.MkdirTemp("", "paceline-loadtest-")
	if err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(redisProgram, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--loglevel", "warning")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("loadtest: %s: %w", redisProgram, err)
	}
	err = json.NewEncoder(out).Encode("redis://127.0.0.1:" + port)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return err
}
