package simprovider

import "time"

// sliding is the list of all charges of the last span. A charge at t counts
// before t+span and no longer at t+span.
type sliding struct {
	limit   int64
	span    time.Duration
	entries []entry // in order of time; those before head have left
	head    int
	dropped int64 // entries that were cut off the front of the slice, ever
	sum     int64 // of entries[head:]
}

type entry struct {
	at time.Duration
	n  int64
}

func (s *sliding) expire(now time.Duration) {
	for s.head < len(s.entries) && s.entries[s.head].at <= now-s.span {
		s.sum -= s.entries[s.head].n
		s.head++
	}
	// Cutting only when half has left makes the copying constant work per entry.
	if s.head > 64 && s.head > len(s.entries)/2 {
		s.dropped += int64(s.head)
		s.entries = s.entries[:copy(s.entries, s.entries[s.head:])]
		s.head = 0
	}
}

func (s *sliding) room(now time.Duration) int64 {
	s.expire(now)
	return s.limit - s.sum
}

func (s *sliding) charge(now time.Duration, n int64) int64 {
	s.expire(now)
	s.entries = append(s.entries, entry{now, n})
	s.sum += n
	return s.dropped + int64(len(s.entries)) - 1
}

func (s *sliding) correct(now time.Duration, mark, delta int64) {
	s.expire(now)
	if i := mark - s.dropped; i >= int64(s.head) {
		s.entries[i].n += delta
		s.sum += delta
	}
}

func (s *sliding) wait(now time.Duration, n int64) time.Duration {
	room := s.room(now)
	until := now
	for _, e := range s.entries[s.head:] {
		if room >= n {
			break
		}
		room += e.n
		until = e.at + s.span
	}
	return until - now
}

func (s *sliding) reset(now time.Duration) time.Duration {
	s.expire(now)
	if len(s.entries) == s.head {
		return 0
	}
	return s.entries[len(s.entries)-1].at + s.span - now
}

func (s *sliding) setLimit(_ time.Duration, limit int64) { s.limit = limit }
