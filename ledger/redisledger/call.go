package redisledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/paceline-go/paceline/ledger"
)

// call collects the keys and arguments of one script over many limits: each
// limit is sent once, and referred to by its number.
type call struct {
	l      *Ledger
	guard  time.Duration
	seen   map[*ledger.Limit]int64 // numbers from 1
	byKey  map[string]int64
	keys   []string
	limits []limit

	// The arguments after the limits: the ids, and per id a part of the body.
	ids, body          []byte
	idCount, bodyCount int
	places             []byte // of the requests, after the body
	placeCount         int
	record             []byte // of one request; reused
}

// limit is what a call needs of a limit that it names.
type limit struct {
	*ledger.Limit
	shape ledger.Shape
	// mark tells the limit from others in the record of a reservation.
	mark int64
	// total is what the requests of the call want of it.
	total int64
}

func (l *Ledger) newCall(items int, guard time.Duration) *call {
	return &call{
		l:     l,
		guard: guard,
		seen:  make(map[*ledger.Limit]int64),
		byKey: make(map[string]int64),
		ids:   make([]byte, 0, 23*items),
		body:  make([]byte, 0, 64*items),
	}
}

// add appends numbers to the body.
func (c *call) add(values ...int64) {
	for _, v := range values {
		c.body = appendNumber(c.body, v)
	}
	c.bodyCount += len(values)
}

func (c *call) id(id ledger.ID) {
	var b [20]byte
	copy(b[:], id.Job[:])
	binary.BigEndian.PutUint32(b[16:], id.Attempt)
	c.ids = appendString(c.ids, b[:])
	c.idCount++
}

// limit returns the number of a limit. Two definitions of the same budget in one
// call count as the first.
func (c *call) limit(l *ledger.Limit) int64 {
	if n, ok := c.seen[l]; ok {
		return n
	}
	key := c.l.limitKey(l)
	n, ok := c.byKey[key]
	if !ok {
		n = int64(len(c.limits) + 1)
		c.byKey[key] = n
		c.keys = append(c.keys, key)
		c.limits = append(c.limits, limit{l, l.Shape(c.guard), int64(crc32.ChecksumIEEE([]byte(key))), 0})
	}
	c.seen[l] = n
	return n
}

// requests appends a batch as reserve.lua reads it.
func (c *call) requests(batch []ledger.Request) {
	plain := int64(1)
	ids := make(map[ledger.ID]struct{}, len(batch))
	for i := range batch {
		ids[batch[i].ID] = struct{}{}
	}
	if len(ids) < len(batch) || slices.ContainsFunc(batch, looked) {
		plain = 0
	}
	c.add(plain)
	for i := range batch {
		c.request(&batch[i])
	}
}

// looked says that the single charges have to be looked at.
func looked(r ledger.Request) bool {
	return slices.ContainsFunc(r.Charges, func(c ledger.Charge) bool { return c.Overdraw || !c.Limit.CanHold(c.Amount) })
}

func (c *call) request(r *ledger.Request) {
	c.id(r.ID)
	c.place(&r.Place)
	for _, ch := range r.Charges {
		if !ch.Overdraw && !ch.Limit.CanHold(ch.Amount) {
			c.add(-c.limit(ch.Limit))
			return
		}
	}
	c.record = appendArray(c.record[:0], 4*len(r.Charges))
	for _, ch := range r.Charges {
		n := c.limit(ch.Limit)
		l := &c.limits[n-1]
		l.total += ch.Amount
		if ch.Overdraw {
			n = -n
		}
		c.record = appendNumber(c.record, n)
		c.record = appendNumber(c.record, l.mark)
		c.record = appendNumber(c.record, ch.Amount)
		c.record = appendNumber(c.record, l.shape.Guard)
	}
	// Redis makes a list of a small hash of short values, and each look-up walks all
	// of it. One value above 64 bytes makes it a table.
	for c.idCount == 1 && len(c.record) < 64 {
		c.record = append(c.record, 0xc0)
	}
	c.body = appendString(c.body, c.record)
	c.bodyCount++
}

// place appends a request's place as line.lua reads it.
func (c *call) place(p *ledger.Place) {
	c.placeCount++
	if p.Process == "" {
		c.places = appendNumber(c.places, 0)
		return
	}
	b := appendArray(c.record[:0], 10)
	b = appendString(b, []byte(p.Process))
	b = appendString(b, []byte(p.Lane))
	b = appendString(b, []byte(p.Tenant))
	ticket := int64(0)
	if p.Ticket {
		ticket = 1
	}
	for _, v := range [...]int64{
		int64(p.Class), p.Weight, p.Cost, p.Waited.Microseconds(), p.AgingStep.Microseconds(), p.AgedShare, ticket,
	} {
		b = appendNumber(b, v)
	}
	c.places = appendString(c.places, b)
	c.record = b
}

// withdrawal appends a ticket to withdraw, and looks at its limits.
func (c *call) withdrawal(r *ledger.Request) {
	for _, ch := range r.Charges {
		c.limit(ch.Limit)
	}
	c.body = appendString(c.body, []byte(r.Place.Process+"\x00"+r.Place.Lane))
	c.bodyCount++
}

// settlement appends a settlement as settle.lua reads it.
func (c *call) settlement(s *ledger.Settlement) {
	c.id(s.ID)
	cancel := int64(0)
	if s.Cancel {
		cancel = 1
	}
	c.add(cancel, s.Counted.Microseconds(), int64(len(s.Final)))
	for _, f := range s.Final {
		c.add(c.limit(f.Limit), f.Admitted, f.Late)
	}
	c.add(s.Extra)
	if s.Extra != 0 {
		c.add(s.Weight, int64(s.Class))
		c.body = appendString(c.body, []byte(s.Tenant))
		c.bodyCount++
	}
}

// observation appends an observation as observe.lua reads it.
func (c *call) observation(o *ledger.Observation) {
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	c.add(c.limit(o.Limit), o.Limit.Amount, o.Amount, max(o.Used, -1), flag(o.Bucket), o.Ago.Microseconds(),
		flag(o.Refused), o.Close.Microseconds(), int64(o.Slower))
}

var errReply = errors.New("redisledger: the script's reply is not of this version")

func (c *call) run(ctx context.Context, script *redis.Script) ([]int64, error) {
	const perLimit = 12
	b := make([]byte, 0, 16+9*perLimit*len(c.limits)+len(c.ids)+len(c.body)+len(c.places))
	b = appendArray(b, 2+perLimit*len(c.limits)+c.idCount+c.bodyCount+c.placeCount)
	b = appendNumber(b, int64(len(c.limits)))
	for i := range c.limits {
		b = c.limits[i].append(b)
	}
	b = append(appendNumber(b, int64(c.idCount)), c.ids...)
	b = append(append(b, c.body...), c.places...)
	keys := append(append(c.keys, c.l.generations[:]...), c.l.line[:]...)
	reply, err := script.Run(ctx, c.l.client, keys, b).Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("redisledger: %w", err)
	}
	return reply, nil
}

// append packs the limit as read_limit in window.lua reads it.
func (l *limit) append(b []byte) []byte {
	s, kind := &l.shape, int64(0)
	if l.Unit == ledger.InFlight {
		kind = 1
	}
	if l.Own {
		kind += 2
	}
	for _, v := range [...]int64{
		kind, l.mark, l.Amount, s.Window, s.Slot, s.Guard, s.Tick, s.Ticks, s.Quot, s.Rest, s.Burst, l.total,
	} {
		b = appendNumber(b, v)
	}
	return b
}

// decisions appends what reserve.lua replied to n requests.
func (c *call) decisions(out []ledger.Decision, reply []int64, n int) ([]ledger.Decision, error) {
	if len(reply) == 0 {
		for range n {
			out = append(out, ledger.Decision{Outcome: ledger.Granted})
		}
		return out, nil
	}
	next := func() int64 {
		if len(reply) == 0 {
			return -1
		}
		v := reply[0]
		reply = reply[1:]
		return v
	}
	limit := func() *ledger.Limit {
		if i := next(); i >= 1 && i <= int64(len(c.limits)) {
			return c.limits[i-1].Limit
		}
		return nil
	}
	for range n {
		var d ledger.Decision
		switch code := next(); code {
		case 0, 4:
			d.Outcome, d.Limit, d.Closed = ledger.Denied, limit(), code == 4
			d.Wait = time.Duration(next()) * time.Microsecond
		case 1:
			d.Outcome = ledger.Granted
		case 2:
			d.Outcome, d.Limit = ledger.TooLarge, limit()
		case 3:
			d.Outcome = ledger.Refused
		default:
			return nil, errReply
		}
		out = append(out, d)
	}
	if len(reply) != 0 {
		return nil, errReply
	}
	return out, nil
}
