package main

import (
	"encoding/json"
	"sync"
	"time"
)

// member is one worker process.
type member struct {
	child *child
	send  *json.Encoder // of orders
	ready chan struct{}
	gone  chan struct{} // closed when the process has ended
	ended error         // why; valid when gone is closed

	mu      sync.Mutex
	records map[int64]record
	counts  counts
	bye     bool
	killed  time.Duration // when it was killed on purpose; 0 for never
}

// newMember starts to listen to a worker. Nothing but the end of its output ends
// that.
func newMember(c *child) *member {
	m := &member{
		child: c, send: json.NewEncoder(c.in), records: make(map[int64]record),
		ready: make(chan struct{}), gone: make(chan struct{}),
	}
	go m.listen()
	return m
}

func (m *member) listen() {
	defer close(m.gone)
	dec := json.NewDecoder(m.child.out)
	for {
		var n news
		if dec.Decode(&n) != nil {
			break // it has ended, perhaps in the middle of a line
		}
		m.learn(n)
		if n.Ready {
			close(m.ready)
		}
	}
	m.ended = m.child.wait()
}

func (m *member) learn(n news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range n.Records {
		if old, ok := m.records[r.Seq]; ok {
			m.counts.add(old, -1)
		}
		m.counts.add(r, 1)
		m.records[r.Seq] = r
	}
	m.bye = m.bye || n.Bye
}

// kill ends the process as kill -9 does.
func (m *member) kill(at time.Duration) error {
	m.mu.Lock()
	m.killed = at
	m.mu.Unlock()
	return m.child.kill()
}

// counts is how many jobs are where.
type counts struct{ waiting, running, ended, refused int }

func (c *counts) add(r record, n int) {
	c.refused += n * len(r.Refused)
	switch {
	case r.Ended > 0:
		c.ended += n
	case r.Granted > 0:
		c.running += n
	default:
		c.waiting += n
	}
}
