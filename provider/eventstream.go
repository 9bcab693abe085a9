package provider

import (
	"encoding/binary"
	"net/http"
)

// eventStream is the framing application/vnd.amazon.eventstream: a prelude of 12
// bytes (length of the message, length of its headers, checksum), the headers, the
// payload, and a checksum of 4 bytes; numbers are big-endian. The checksums are not
// looked at, since the connection has its own and nothing here is passed on.
type eventStream struct {
	part    messagePart
	buf     []byte // of the prelude, then of the headers
	payload uint32 // bytes of the payload and the checksum that are to come
	headers uint32
	// Of the message's headers, what tells its kind.
	kind, event, exception string
}

type messagePart uint8

const (
	inPrelude messagePart = iota
	inHeaders
	inPayload
)

const (
	preludeSize  = 12
	checksumSize = 4
	// The largest that AWS allows: 24 MiB of message, 128 KiB of headers.
	maxMessage = 24 << 20
	maxHeaders = 128 << 10
	// maxHeadersKept is far more than Bedrock sends. Longer ones are passed over.
	maxHeadersKept = 4 << 10
)

func (s *eventStream) feed(r *Reader, p []byte) {
	for len(p) > 0 && !r.broken {
		switch s.part {
		case inPrelude:
			n := min(len(p), preludeSize-len(s.buf))
			s.buf = append(s.buf, p[:n]...)
			p = p[n:]
			if len(s.buf) == preludeSize {
				s.prelude(r)
			}
		case inHeaders:
			n := min(len(p), int(s.headers))
			if len(s.buf)+n <= maxHeadersKept {
				s.buf = append(s.buf, p[:n]...)
			}
			s.headers -= uint32(n)
			p = p[n:]
			if s.headers == 0 {
				s.readHeaders(s.buf)
				s.part = inPayload
			}
		default:
			n := min(len(p), int(s.payload))
			if body := min(n, int(s.payload)-checksumSize); body > 0 {
				s.body(r, p[:body])
			}
			s.payload -= uint32(n)
			p = p[n:]
			if s.payload == 0 {
				s.end(r)
			}
		}
	}
}

func (s *eventStream) prelude(r *Reader) {
	total := binary.BigEndian.Uint32(s.buf)
	headers := binary.BigEndian.Uint32(s.buf[4:])
	s.buf = s.buf[:0]
	if total > maxMessage || headers > maxHeaders || total < preludeSize+headers+checksumSize {
		r.broken = true // where the next message begins nobody can say
		return
	}
	s.kind, s.event, s.exception = "", "", ""
	s.headers, s.payload = headers, total-preludeSize-headers
	s.part = inHeaders
	if headers == 0 {
		s.part = inPayload
	}
}

// readHeaders keeps the headers of type string that tell what a message is. One
// that cannot be read ends it.
func (s *eventStream) readHeaders(b []byte) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+1 {
			return
		}
		name, kind := b[1:1+n], b[1+n]
		b = b[1+n+1:]
		size := 0
		switch kind {
		case 0, 1: // true, false
		case 2:
			size = 1
		case 3:
			size = 2
		case 4:
			size = 4
		case 5, 8: // long, timestamp
			size = 8
		case 6, 7: // bytes, string
			if len(b) < 2 {
				return
			}
			size = int(binary.BigEndian.Uint16(b))
			b = b[2:]
		case 9: // UUID
			size = 16
		default:
			return
		}
		if len(b) < size {
			return
		}
		if kind == 7 {
			s.header(name, b[:size])
		}
		b = b[size:]
	}
}

func (s *eventStream) header(name, value []byte) {
	switch string(name) {
	case ":message-type":
		s.kind = intern(value)
	case ":event-type":
		s.event = intern(value)
	case ":exception-type", ":error-code":
		s.exception = intern(value)
	}
}

// intern spares an allocation for the names that nearly all messages have.
func intern(v []byte) string {
	switch string(v) {
	case "event":
		return "event"
	case "contentBlockDelta":
		return "contentBlockDelta"
	case "chunk":
		return "chunk"
	}
	return string(v)
}

func (s *eventStream) failed() bool { return s.kind == "exception" || s.kind == "error" }

// body takes bytes of the payload, which is one JSON document. Of an exception it
// is looked at when the message ends, for its kind decides what it means.
func (s *eventStream) body(r *Reader, p []byte) {
	for len(p) > 0 {
		n, end := r.walk.feed(p)
		p = p[n:]
		if !end {
			continue
		}
		switch {
		case s.failed():
			return
		case s.event == "chunk" && len(r.walk.doc.inner) > 0:
			r.inner()
		default:
			r.any = true
			r.document(s.event)
		}
		r.walk.reset()
	}
}

// end is the end of a message.
func (s *eventStream) end(r *Reader) {
	if s.failed() && r.refusal.Class == "" {
		status := r.p.errorStatus(s.exception)
		if status == 0 {
			status = http.StatusInternalServerError
		}
		// As if the exception had come before the stream began.
		h := http.Header{}
		h.Set(r.p.ErrorTypeHeader, s.exception)
		r.fail(status, h)
	}
	r.walk.reset()
	s.buf, s.part = s.buf[:0], inPrelude
}
