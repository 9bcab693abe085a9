package redisledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrURL is wrapped by every complaint about the address of a ledger.
var ErrURL = errors.New("redisledger: bad address")

// Open returns a client for the address:
//
//	redis://[user:password@]host:port[/db]   one server; rediss:// with TLS
//	unix://path
//	redis-sentinel://host:port?master_name=NAME[&addr=host2:port2]
//	redis-cluster://host:port[?addr=host2:port2]
//
// rediss-sentinel:// and rediss-cluster:// are the same with TLS. Options of
// go-redis may follow as parameters, such as pool_size. It does not connect.
func Open(address string) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	base, kind, _ := strings.Cut(scheme, "-")
	plain := base + "://" + rest
	if base != "redis" && base != "rediss" && (base != "unix" || kind != "") {
		return nil, fmt.Errorf("%w: unknown scheme %q; use redis, rediss, unix, redis-sentinel or redis-cluster", ErrURL, scheme)
	}
	// go-redis puts the address, and so the password, into its errors: its text
	// is left out.
	switch kind {
	case "":
		o, err := redis.ParseURL(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: not of the form %s://host:port", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: not of the form %s://host:port?master_name=NAME", ErrURL, scheme)
		}
		if o.MasterName == "" {
			return nil, fmt.Errorf("%w: %s needs ?master_name=NAME", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewFailoverClient(o), nil
	case "cluster":
		o, err := redis.ParseClusterURL(plain)
		if err != nil {
			return nil, fmt.Errorf("%w: not of the form %s://host:port?addr=host2:port2", ErrURL, scheme)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClusterClient(o), nil
	}
	return nil, fmt.Errorf("%w: unknown scheme %q; use redis, rediss, unix, redis-sentinel or redis-cluster", ErrURL, scheme)
}
