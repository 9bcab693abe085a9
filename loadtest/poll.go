package main

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/job"
)

// poll is the usual recipe: a token bucket per limit in Redis, which every
// dispatcher asks for its first job until it says yes. The first is the oldest of
// the most urgent class. Between dispatchers luck decides.
type poll struct {
	bucket bucket
	every  time.Duration
	wake   chan struct{}

	mu    sync.Mutex
	lines [job.Classes][]*visitor
}

// visitor is a job at the gate.
type visitor struct {
	tokens int64
	turn   chan struct{} // closed when it may call
}

// pollSeconds is how often is asked, in seconds of the provider.
const pollSeconds = 0.05

func newPoll(s setup, sc scenario, sh shared) (strategy, error) {
	return newRival(s, sc, &poll{bucket: sh.bucket, every: s.Options.minutes(pollSeconds / 60), wake: make(chan struct{}, 1)}), nil
}

func (p *poll) pass(ctx context.Context, t *task) error {
	v := &visitor{tokens: t.record.Charge, turn: make(chan struct{})}
	class := t.record.Class.Class()
	p.mu.Lock()
	p.lines[class] = append(p.lines[class], v)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	select {
	case <-v.turn:
		return nil
	case <-ctx.Done():
		p.leave(class, v)
		return context.Cause(ctx)
	}
}

func (p *poll) leave(class int, v *visitor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.lines[class], v); i >= 0 {
		p.lines[class] = slices.Delete(p.lines[class], i, i+1)
	}
}

func (p *poll) first() (class int, v *visitor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for class, line := range p.lines {
		if len(line) > 0 {
			return class, line[0]
		}
	}
	return 0, nil
}

// run asks for the first job, and does not ask sooner because another comes.
func (p *poll) run(ctx context.Context) {
	for ctx.Err() == nil {
		class, v := p.first()
		if v == nil {
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
			continue
		}
		if ok, err := p.bucket.take(ctx, v.tokens); ok && err == nil {
			p.leave(class, v)
			close(v.turn)
			continue
		}
		select {
		// Half as long up to half as long again, so that they do not all ask at
		// once.
		case <-time.After(p.every/2 + rand.N(p.every)):
		case <-ctx.Done():
		}
	}
}

// bucket holds what is left of both limits.
type bucket interface {
	// take takes one request and so many tokens, or nothing.
	take(ctx context.Context, tokens int64) (bool, error)
}

// redisBucket is shared by all who use the same keys.
type redisBucket struct {
	client  redis.UniversalClient
	keys    []string
	options options
}

//go:embed bucket.lua
var bucketLua string

var bucketScript = redis.NewScript(bucketLua)

func newRedisBucket(c redis.UniversalClient, s setup) *redisBucket {
	return &redisBucket{c, []string{"{" + s.LedgerName + "}:requests", "{" + s.LedgerName + "}:tokens"}, s.Options}
}

func (b *redisBucket) take(ctx context.Context, tokens int64) (bool, error) {
	minute := b.options.Minute.Microseconds()
	n, err := bucketScript.Run(ctx, b.client, b.keys, minute, b.options.RPM, 1, b.options.TPM, tokens).Int()
	if err != nil {
		return false, fmt.Errorf("loadtest: bucket: %w", err)
	}
	return n == 1, nil
}
