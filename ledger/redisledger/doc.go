// Package redisledger is the ledger that a fleet of processes shares in Redis.
//
// # How it works
//
// A batch of reservations, over all their limits, is one Lua script and one
// round trip; a batch of settlements likewise. The scripts do the arithmetic of
// package ledger step by step, in whole microseconds by the server's clock, so
// the skew of the clients' clocks has no effect.
//
// Each limit is a hash with its bucket, the sum of the window and one field per
// slot that holds something; calls in flight are a sorted set by the end of their
// leases; reservations are fields of a hash until they are settled, and for a
// minute or two after that members of a set, for as long as someone may ask for
// them again. All keys carry one hash tag, the ledger's name, so any limits may be
// combined in a cluster too, and all expire on their own. The server must not evict
// them before that: its maxmemory-policy has to be noeviction.
//
// It needs Redis 6.2 or later, or Valkey: single, Sentinel or Cluster. The user
// needs the commands DEL, EVAL, EVALSHA, EXISTS, HDEL, HGET, HGETALL, HINCRBY, HLEN,
// HMGET, HRANDFIELD, HSET, PEXPIRE, PING, PTTL, PUBLISH, SADD, SMISMEMBER, SUBSCRIBE,
// TIME, ZADD, ZCOUNT, ZRANGE, ZRANGEBYLEX, ZRANGEBYSCORE, ZREM and ZREMRANGEBYSCORE on keys
// and channels that begin with the ledger's name in braces; the client itself asks a
// cluster for CLUSTER SLOTS.
//
// # Concurrency
//
// A Ledger is safe for concurrent use and keeps no goroutine of its own.
//
// # Failure
//
// A call lasts until the deadline of its context, which takes a client with
// ContextTimeoutEnabled; New refuses others. Cancelling the context does not
// interrupt a call that waits for the server, only a deadline does. The client repeats a command whose
// reply was lost: ids make that harmless. After an error the same request may be
// sent again, or cancelled. A server that was emptied knows nothing of earlier
// charges.
package redisledger
