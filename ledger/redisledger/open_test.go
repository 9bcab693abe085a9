package redisledger_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/ledger/redisledger"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for address, check := range map[string]func(redis.UniversalClient) bool{
		"redis://localhost:6379":                        one(func(o *redis.Options) bool { return o.Addr == "localhost:6379" && o.TLSConfig == nil }),
		"redis://localhost":                             one(func(o *redis.Options) bool { return o.Addr == "localhost:6379" }),
		"redis://u:p%40ss@h:1/3":                        one(func(o *redis.Options) bool { return o.Username == "u" && o.Password == "p@ss" && o.DB == 3 }),
		"redis://h:1?pool_size=7&read_timeout=200ms":    one(func(o *redis.Options) bool { return o.PoolSize == 7 && o.ReadTimeout == 200*time.Millisecond }),
		"rediss://h:1":                                  one(func(o *redis.Options) bool { return o.TLSConfig != nil && o.TLSConfig.ServerName == "h" }),
		"unix:///run/redis.sock":                        one(func(o *redis.Options) bool { return o.Network == "unix" && o.Addr == "/run/redis.sock" }),
		"redis-sentinel://h:1?master_name=m":            one(func(o *redis.Options) bool { return o.Addr == "FailoverClient" && o.TLSConfig == nil }),
		"rediss-sentinel://h:1?master_name=m&addr=h2:2": one(func(o *redis.Options) bool { return o.TLSConfig != nil }),
		"redis-cluster://u:p@h:1?addr=h2:2&addr=h3:3": cluster(func(o *redis.ClusterOptions) bool {
			return reflect.DeepEqual(o.Addrs, []string{"h:1", "h2:2", "h3:3"}) && o.Password == "p" && o.TLSConfig == nil
		}),
		"rediss-cluster://h:1": cluster(func(o *redis.ClusterOptions) bool { return o.TLSConfig != nil }),
	} {
		client, err := redisledger.Open(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !check(client) {
			t.Errorf("%s: %+v", address, client)
		}
		if _, err := redisledger.New(client, redisledger.Config{}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func one(check func(*redis.Options) bool) func(redis.UniversalClient) bool {
	return func(c redis.UniversalClient) bool {
		client, ok := c.(*redis.Client)
		return ok && client.Options().ContextTimeoutEnabled && check(client.Options())
	}
}

func cluster(check func(*redis.ClusterOptions) bool) func(redis.UniversalClient) bool {
	return func(c redis.UniversalClient) bool {
		client, ok := c.(*redis.ClusterClient)
		return ok && client.Options().ContextTimeoutEnabled && check(client.Options())
	}
}

// An address that is wrong says so, and its password is in no message.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"",
		"localhost:6379",
		"http://u:hunter2@h",
		"redis-http://u:hunter2@h",
		"unix-cluster://u:hunter2@h",
		"redis://u:hunter2@h:port",
		"redis://u:hunter2@h:1/db",
		"redis://u:hunter2@h:1?no_such_option=1",
		"redis://u:hunter2@h:1?pool_size=many",
		"redis://u:hunter2@[::1",
		"redis://u:hunter2%zz@h:1",
		"redis-sentinel://u:hunter2@h:1",
		"redis-sentinel://u:hunter2@h:port?master_name=m",
		"redis-cluster://u:hunter2@h:port",
		"redis-cluster://u:hunter2@h:1/3",
		"redis-cluster://u:hunter2@h:1?no_such_option=hunter2",
		"redis-u:hunter2@h://",
		"u:hunter2@h://x",
	} {
		client, err := redisledger.Open(address)
		if !errors.Is(err, redisledger.ErrURL) {
			t.Errorf("%q: %v, %v", address, client, err)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the password is in %q", address, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	patient := redis.NewClient(&redis.Options{})
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"h:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "h:1"}})
	good := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	for _, c := range []redis.UniversalClient{patient, nodes, ring, good} {
		t.Cleanup(func() { _ = c.Close() })
	}
	for name, c := range map[string]struct {
		client redis.UniversalClient
		cfg    redisledger.Config
	}{
		"no client":              {},
		"no deadline":            {client: patient},
		"no deadline in cluster": {client: nodes},
		"no deadline in ring":    {client: ring},
		"braces":                 {good, redisledger.Config{Name: "a{b}"}},
		"brace":                  {good, redisledger.Config{Name: "a}"}},
	} {
		if l, err := redisledger.New(c.client, c.cfg); !errors.Is(err, redisledger.ErrConfig) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if _, err := redisledger.New(good, redisledger.Config{Name: "any name:\n"}); err != nil {
		t.Error(err)
	}
}
