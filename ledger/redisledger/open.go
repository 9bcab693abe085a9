package redisledger

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrURL is wrapped by every complaint about the address of a ledger.
var ErrURL = errors.New("redisledger: bad address")

// Open returns a client for the address:
//
//	redis://[user:password@]host:port[/db]   one server; rediss:// with TLS
//	unix:///path/of/socket
//	redis-sentinel://host:port?master_name=NAME[&addr=host2:port2]
//	redis-cluster://host:port[?addr=host2:port2]
//
// rediss-sentinel:// and rediss-cluster:// are the same with TLS. Options of
// go-redis may follow as parameters, such as pool_size. It does not connect.
func Open(address string) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	// Neither the address nor go-redis's errors, which have it, get into ours: a
	// password may be in any part of it.
	switch scheme {
	case "redis", "rediss", "unix":
		o, err := redis.ParseURL(address)
		if err != nil {
			return nil, fmt.Errorf("%w: not of the form %s://host:port", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClient(o), nil
	case "redis-sentinel", "rediss-sentinel":
		o, err := redis.ParseFailoverURL(strings.TrimSuffix(scheme, "-sentinel") + "://" + rest)
		if err != nil || o.MasterName == "" {
			return nil, fmt.Errorf("%w: not of the form %s://host:port?master_name=NAME", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewFailoverClient(o), nil
	case "redis-cluster", "rediss-cluster":
		plain := strings.TrimSuffix(scheme, "-cluster") + "://" + rest
		o, err := redis.ParseClusterURL(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: not of the form %s://host:port?addr=host2:port2", ErrURL, scheme)
		}
		if u, err := url.Parse(plain); err != nil || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("%w: a cluster has no database to name after %s://host:port", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClusterClient(o), nil
	}
	return nil, fmt.Errorf("%w: unknown scheme; use redis, unix, redis-sentinel or redis-cluster, or rediss, rediss-sentinel or rediss-cluster with TLS", ErrURL)
}
