package main

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/paceline-go/paceline/provider"
)

// maxHeld is how much of an event is held back until it is whole.
const maxHeld = 64 << 10

// errTold is a stream that ended with an error of the provider's own, which the client
// has got.
var errTold = errors.New("the provider told an error in its stream")

// pass passes the events of a stream on byte for byte. What comes is written at once, up
// to the end of its last whole event, so that a comment or an error finds a place between
// two; an event longer than maxHeld is passed on in parts.
type pass struct {
	reader *provider.Reader // is given all that comes
	write  func(events []byte) error
}

// run returns nil when the stream had its last event. alive is called whenever something
// comes, and after the last event.
func (p *pass) run(stream io.Reader, alive func(over bool)) error {
	var held []byte
	last := false // the last event has begun
	for {
		from := max(len(held)-mark, 0) // nothing before it ends an event
		held = slices.Grow(held, 4<<10)
		n, err := stream.Read(held[len(held):cap(held)])
		_, _ = p.reader.Write(held[len(held) : len(held)+n])
		held = held[:len(held)+n]
		alive(false)
		whole := 0
		if end := endOfEvents(held[from:]); end > 0 {
			whole = from + end
		}
		ends := whole == len(held)
		if whole == 0 && len(held) >= maxHeld {
			whole = len(held) - mark // of which an end may need the rest
		}
		var end error
		if err != nil {
			if end = endOf(p.reader.End(), err); end == nil || errors.Is(end, errTold) {
				whole = len(held) // the last event may have no empty line after it
			}
		}
		if whole > 0 {
			if err := p.write(held[:whole]); err != nil {
				return err
			}
			last = last || hasLast(held[:whole])
			held = held[:copy(held, held[whole:])]
		}
		if err != nil {
			return end
		}
		if last && ends {
			alive(true)
		}
	}
}

// endOf says what the end of a stream means. A stream that has had its last event is
// complete, however the connection ended.
func endOf(a provider.Answer, err error) error {
	switch {
	case a.Complete:
		return nil
	case a.Refusal.Class != provider.OK && a.Refusal.Class != provider.Partial:
		return errTold
	case errors.Is(err, io.EOF):
		return broken(errShort)
	default:
		return broken(err)
	}
}

var errShort = errors.New("the stream ended before its last event")

// mark is how much of the empty line after an event may have come before its last byte.
const mark = len("\n\r")

// endOfEvents is where the last whole event ends: after an empty line; 0 for nowhere.
func endOfEvents(text []byte) int {
	end := 0
	for _, line := range [...]string{"\n\n", "\n\r\n"} {
		if i := bytes.LastIndex(text, []byte(line)); i >= 0 {
			end = max(end, i+len(line))
		}
	}
	return end
}

// hasLast says that the last event of its API begins in the text. No string in JSON has
// a line of its own, so this is an event's name.
func hasLast(text []byte) bool {
	for _, name := range [...]string{"message_stop", "response.completed", "response.incomplete", "response.failed"} {
		line := []byte("\nevent: " + name)
		if bytes.HasPrefix(text, line[1:]) || bytes.Contains(text, line) {
			return true
		}
	}
	return false
}
