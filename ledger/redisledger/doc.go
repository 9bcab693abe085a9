// Package redisledger is the ledger that a fleet of processes shares in Redis.
//
// # How it works
//
// A batch of reservations, over all their limits, is one Lua script and one
// round trip; a batch of settlements likewise. The scripts do the arithmetic of
// package ledger step by step, in whole microseconds by the server's clock, so
// the skew of the clients' clocks has no effect.
//
// Each limit is a hash with the bucket, the sum of the window and one field per
// slot that holds something; calls in flight are a sorted set by the end of
// their leases; each reservation is a string for as long as someone may ask for
// it again. All keys carry one hash tag, the ledger's name, so any limits may be
// combined in a cluster too, and all expire on their own.
//
// It needs Redis 6.2 or later, or Valkey: single, Sentinel or Cluster. The user
// needs the commands EVAL, EVALSHA, TIME, GET, SET, HMGET, HGETALL, HSET, HDEL,
// HINCRBY, DEL, PEXPIRE, ZADD, ZCARD, ZRANGE, ZREM and ZREMRANGEBYSCORE on keys
// that begin with the ledger's name in braces.
//
// # Concurrency
//
// A Ledger is safe for concurrent use and keeps no goroutine of its own.
//
// # Failure
//
// A call lasts as long as its context allows, which takes a client with
// ContextTimeoutEnabled; New refuses others. The client repeats a command whose
// reply was lost: ids make that harmless. After an error the same request may be
// sent again, or cancelled. A server that was emptied knows nothing of earlier
// charges.
package redisledger
