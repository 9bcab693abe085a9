package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":2,\"output_tokens\":1}}}\n\n"
	messageText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"event: message_stop\\n\\n\"}}\n\n"
	messagePing  = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	messageDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n"
	messageStop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	messageError = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"

	responseDelta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":0,\"delta\":\"a\",\"obfuscation\":\"xx\"}\n\n"
	responseDone  = "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":1,\"response\":{\"status\":\"completed\",\"error\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":3}}}\n\n"
	responseFails = "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":1,\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"},\"usage\":null}}\n\n"
)

// Streams are passed on byte for byte, however they arrive, and their usage is read.
func TestPass(t *testing.T) {
	cached := job.Used(9, 5)
	cached.Cached = 2
	long := "event: response.output_text.done\ndata: {\"text\":\"" + strings.Repeat("x", 3*maxHeld) + "\"}\n\n"
	crlf := strings.NewReplacer("\n", "\r\n").Replace
	for _, tt := range []struct {
		name   string
		api    provider.API
		stream string
		usage  job.Usage
		want   string // what is passed on, if not all
		err    error  // nil for none
	}{
		{"a message", provider.Messages, messageStart + messagePing + messageText + messageDelta + messageStop, cached, "", nil},
		{"with CRLF", provider.Messages, crlf(messageStart + messageText + messageDelta + messageStop), cached, "", nil},
		{"without the last empty line", provider.Messages, strings.TrimSuffix(messageStart+messageDelta+messageStop, "\n\n"), cached, "", nil},
		{"with comments", provider.Messages, ": hi\n\n" + messageStart + ": x\n\n" + messageDelta + messageStop, cached, "", nil},
		{"a response", provider.Responses, responseDelta + responseDone, job.Used(7, 3), "", nil},
		{"a response that failed", provider.Responses, responseDelta + responseFails, job.Usage{}, "", nil},
		{"a long event", provider.Responses, long + responseDone, job.Used(7, 3), "", nil},
		{"cut between events", provider.Messages, messageStart + messageText, job.Usage{}, "", errShort},
		{"cut within an event", provider.Messages, messageStart + messageText[:40], job.Usage{}, messageStart, errShort},
		{"cut after the usage", provider.Messages, messageStart + messageDelta, cached, "", errShort},
		{"an error", provider.Messages, messageStart + messageError, job.Usage{}, "", errTold},
		{"an error, cut", provider.Messages, messageStart + strings.TrimSpace(messageError), job.Usage{}, "", errTold},
		{"nothing", provider.Responses, "", job.Usage{}, "", errShort},
	} {
		for i, pieces := range []func(io.Reader) io.Reader{
			iotest.DataErrReader, func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader,
		} {
			var out bytes.Buffer
			over := false
			reader := readerOf(t, tt.api)
			p := &pass{reader, func(b []byte) error { out.Write(b); return nil }}
			err := p.run(pieces(strings.NewReader(tt.stream)), func(last bool) { over = over || last })
			want := tt.want
			if want == "" {
				want = tt.stream
			}
			if !errors.Is(err, tt.err) || tt.err == nil && err != nil || out.String() != want {
				t.Errorf("%s: %v, want %v\ngot  %.300q\nwant %.300q", tt.name, err, tt.err, out.String(), want)
			}
			if got := reader.End().Settles(); got != tt.usage {
				t.Errorf("%s: used %+v, want %+v", tt.name, got, tt.usage)
			}
			if last := tt.err == nil && strings.HasSuffix(tt.stream, "\n"); i > 0 && over != last {
				t.Errorf("%s: the end was seen: %v", tt.name, over)
			}
		}
	}
}

// What is held back at any time is no more than a part of an event, and a client that is
// gone ends the stream.
func TestPassHoldsLittle(t *testing.T) {
	in, feed := io.Pipe()
	got := make(chan string)
	done := make(chan error, 1)
	go func() {
		p := &pass{readerOf(t, provider.Messages), func(b []byte) error {
			if string(b) == messageStop {
				return errGone
			}
			got <- string(b)
			return nil
		}}
		done <- p.run(in, func(bool) {})
	}()
	send := func(text string) {
		if _, err := io.WriteString(feed, text); err != nil {
			t.Error(err)
		}
	}
	send(messageStart + messageText[:10])
	if b := <-got; b != messageStart {
		t.Errorf("%q", b)
	}
	send(messageText[10:])
	if b := <-got; b != messageText {
		t.Errorf("%q", b)
	}
	part := strings.Repeat("x", maxHeld)
	send(part)
	held := len(part)
	for held > mark {
		held -= len(<-got)
	}
	send("\n\n")
	if b := <-got; b != part[:held]+"\n\n" {
		t.Errorf("%q", b)
	}
	send(messageStop)
	if err := <-done; !errors.Is(err, errGone) {
		t.Error(err)
	}
	feed.Close()
}

// FuzzPass feeds any bytes in any pieces: nothing but a cut tail is lost, and nothing
// is added.
func FuzzPass(f *testing.F) {
	f.Add([]byte(messageStart+messageText+messageDelta+messageStop), 3)
	f.Add([]byte(": c\r\n\r\nevent: response.completed\n\ndata: x"), 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		var out bytes.Buffer
		in := iotest.DataErrReader(bytes.NewReader(stream))
		if size%2 == 0 {
			in = iotest.OneByteReader(in)
		}
		p := &pass{readerOf(t, provider.Messages), func(b []byte) error { out.Write(b); return nil }}
		err := p.run(in, func(bool) {})
		if !bytes.HasPrefix(stream, out.Bytes()) {
			t.Errorf("%q became %q", stream, out.Bytes())
		}
		if tail := stream[out.Len():]; len(tail) > 0 && (err == nil || len(tail) > maxHeld || endOfEvents(tail) > 0) {
			t.Errorf("%q is lost: %v", tail, err)
		}
	})
}
