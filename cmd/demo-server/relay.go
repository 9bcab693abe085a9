package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/paceline-go/paceline/provider"
)

// maxEvent bounds one event of a provider; clients take far less.
const maxEvent = 8 << 20

var (
	errLongEvent = errors.New("an event of the stream is too long")
	errCutOff    = errors.New("the stream ended without [DONE]")
	done         = []byte("[DONE]")
)

const doneEvent = "data: [DONE]\n\n"

// relay passes the events of a chat completion on.
type relay struct {
	reader *provider.Reader // is given all that comes
	write  func(event []byte) error
	// usageAsked says that the client asked for the usage. Otherwise it sees
	// nothing of it, as if we had not asked either.
	usageAsked bool
}

// run relays until [DONE], and returns nil after that alone. A provider that is known
// to end without it is helped out. alive is called for each event, and after the last.
func (r *relay) run(stream io.Reader, alive func(over bool)) error {
	in := bufio.NewReaderSize(stream, 16<<10)
	var event []byte
	for {
		var err error
		if event, err = readEvent(in, event[:0]); err != nil {
			if errors.Is(err, errCutOff) && r.reader.End().Complete {
				return r.write([]byte(doneEvent))
			}
			return broken(err)
		}
		alive(false)
		_, _ = r.reader.Write(event)
		over, err := r.event(event)
		if err != nil {
			return err
		}
		if over {
			alive(true)
			_, _ = io.CopyN(io.Discard, in, 64<<10)
			return nil
		}
	}
}

// event relays one event, and reports whether it was the last.
func (r *relay) event(event []byte) (over bool, err error) {
	from, to, ok := dataOf(event)
	data := event[from:to]
	switch {
	case !ok: // a comment, or nothing that a chat completion has
		return false, r.write(event)
	case bytes.Equal(data, done):
		return true, r.write([]byte(doneEvent))
	case !bytes.Contains(data, []byte(`"usage"`)) && !bytes.Contains(data, []byte(`"error"`)) || !json.Valid(data):
		return false, r.write(event)
	}
	var empty, used bool // no choices, and a usage
	for f := range fields(data) {
		value := data[f.value:f.end]
		switch string(f.key) {
		case "error":
			if !isNull(value) {
				return false, inStream(data)
			}
		case "usage":
			used = isObject(value)
		case "choices":
			empty = value[0] == '[' && value[skipSpace(value, 1)] == ']'
		}
	}
	if !r.usageAsked && used && empty {
		return false, nil // the chunk that we asked for
	}
	isNullError := isNullError(data)
	kept := without(data, func(f field) bool {
		return isNullError(f) || !r.usageAsked && string(f.key) == "usage"
	})
	if len(kept) == len(data) {
		return false, r.write(event)
	}
	out := make([]byte, 0, len(event))
	out = append(out, event[:from]...)
	out = append(out, kept...)
	return false, r.write(append(out, event[to:]...))
}

// readEvent appends the next event, with the blank line that ends it, to event.
func readEvent(in *bufio.Reader, event []byte) ([]byte, error) {
	for {
		line, err := in.ReadSlice('\n')
		start := len(event)
		event = append(event, line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(event) > maxEvent {
				return nil, errLongEvent
			}
			line, err = in.ReadSlice('\n')
			event = append(event, line...)
		}
		switch {
		case errors.Is(err, io.EOF):
			if from, to, ok := dataOf(event); ok && bytes.Equal(event[from:to], done) {
				return event, nil // its blank line is all that is missing
			}
			return nil, errCutOff
		case err != nil:
			return nil, err
		case len(event) > maxEvent:
			return nil, errLongEvent
		}
		if blank := len(bytes.TrimRight(event[start:], "\r\n")) == 0; !blank {
			continue
		}
		if start > 0 {
			return event, nil
		}
		event = event[:0] // a blank line between events
	}
}

// dataOf finds the payload of an event that has one line of data.
func dataOf(event []byte) (from, to int, ok bool) {
	for i := 0; i < len(event); {
		end := len(event)
		if n := bytes.IndexByte(event[i:], '\n'); n >= 0 {
			end = i + n
		}
		if bytes.HasPrefix(event[i:end], []byte("data:")) {
			if ok {
				return 0, 0, false
			}
			from, to, ok = i+len("data:"), end, true
			if from < to && event[from] == ' ' {
				from++
			}
			if from < to && event[to-1] == '\r' {
				to--
			}
		}
		i = end + 1
	}
	return from, to, ok
}
