package provider

import "bytes"

// sse is the framing of server-sent events. It holds no line: the data goes to the
// walker as it comes, and the rest is short or of no interest.
type sse struct {
	part  linePart
	cr    bool // the last byte was \r, which may be half of a line's end
	name  []byte
	event []byte
	// head is the beginning of the data of this line, to know [DONE] by.
	head []byte
}

type linePart uint8

const (
	inName  linePart = iota // the field's name, at the line's beginning
	inSpace                 // the one space that may come before the value
	inData
	inEvent
	inOther // a comment, or a field that nobody needs
)

const (
	maxField = 8  // "data", "event", "id", "retry"
	maxEvent = 64 // of an event's name
)

func (s *sse) feed(r *Reader, p []byte) {
	for len(p) > 0 {
		if s.cr {
			s.cr = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		n := bytes.IndexByte(p, '\n')
		if cr := bytes.IndexByte(p[:max(n, 0)], '\r'); cr >= 0 {
			n = cr
		} else if n < 0 {
			n = bytes.IndexByte(p, '\r')
		}
		if n < 0 {
			s.bytes(r, p)
			return
		}
		s.bytes(r, p[:n])
		s.cr = p[n] == '\r'
		s.lineEnd(r)
		p = p[n+1:]
	}
}

// bytes takes bytes of a line.
func (s *sse) bytes(r *Reader, p []byte) {
	for len(p) > 0 {
		switch s.part {
		case inName:
			n := bytes.IndexByte(p, ':')
			name := p
			if n >= 0 {
				name = p[:n]
			}
			s.name = append(s.name, name[:min(len(name), maxField-len(s.name))]...)
			if n < 0 {
				return
			}
			s.part = inSpace
			p = p[n+1:]
		case inSpace:
			if p[0] == ' ' {
				p = p[1:]
			}
			switch string(s.name) {
			case "data":
				s.part = inData
				s.head = s.head[:0]
			case "event":
				s.part = inEvent
				s.event = s.event[:0]
			default:
				s.part = inOther
			}
		case inData:
			s.head = append(s.head, p[:min(len(p), maxField-len(s.head))]...)
			s.data(r, p)
			return
		case inEvent:
			s.event = append(s.event, p[:min(len(p), maxEvent-len(s.event))]...)
			return
		default:
			return
		}
	}
}

// data takes data of an event. Most events hold one document; servers that forget
// the empty line between events are understood as well.
func (s *sse) data(r *Reader, p []byte) {
	for len(p) > 0 {
		n, end := r.walk.feed(p)
		p = p[n:]
		if end {
			r.any = true
			r.document(string(s.event)) // allocates for long names only
			r.walk.reset()
		}
	}
}

func (s *sse) lineEnd(r *Reader) {
	switch {
	case s.part == inName && len(s.name) == 0: // the empty line: the event is over
		s.event = s.event[:0]
		if r.walk.open() {
			r.walk.reset()
		}
	case s.part == inData:
		s.done(r)
		// The data of one event may go over several lines; between them is a
		// line break, which ends a number and is nothing else to JSON.
		s.data(r, lineBreak)
	}
	s.part, s.name = inName, s.name[:0]
}

var (
	lineBreak = []byte{'\n'}
	doneMark  = []byte("[DONE]")
)

func (s *sse) done(r *Reader) {
	if bytes.Equal(bytes.TrimRight(s.head, " "), doneMark) {
		r.complete, r.finished = true, true
	}
}

func (s *sse) end(r *Reader) {
	if s.part == inData {
		s.done(r)
	}
}
