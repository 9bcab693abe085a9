package simprovider

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// errorPause is the time between an error event and the break of the
	// connection: a client that finds both at once may drop the event.
	errorPause = 100 * time.Millisecond
	// writeTimeout is how long a client may leave an event unread.
	writeTimeout = 30 * time.Second

	keepAlive   = ": keep-alive\n\n"
	streamError = `data: {"error":{"message":"upstream closed the connection","type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"
	streamDone  = "data: [DONE]\n\n"
)

// stream is a completion that is sent in chunks. Its slices are reused.
type stream struct {
	*completion
	w       http.ResponseWriter
	ctl     *http.ResponseController
	err     error  // of the first write that failed; nothing is written after it
	head    []byte // of every chunk, up to its choices
	event   []byte
	delta   []byte
	text    []byte
	content int // chunks sent with text or part of a tool call
}

// sendStream answers in chunks, as they are produced. Nothing is sent before the first
// byte is due, so that until then a cancelled request gets a proper answer;
// afterwards the only honest end of an unfinished stream is a broken connection,
// because clients take a clean one for the end of the answer.
func (c *completion) sendStream(w http.ResponseWriter, r *http.Request) *apiError {
	ctx := r.Context()
	if !c.server.sleep(ctx, c.pace.first) {
		return errGone
	}
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	st := &stream{completion: c, w: w, ctl: http.NewResponseController(w), head: c.appendHead([]byte("data: "), "chat.completion.chunk")}
	for range c.fault.keepAlive {
		st.write(append(st.event[:0], keepAlive...))
	}
	if !st.body(ctx) || c.fault.streamErrorAfter >= 0 {
		st.fail(ctx)
	}
	c.server.finish(c.grant)
	st.end()
	return nil
}

// body sends the answer, and returns false if it could not, or was not to, be
// sent whole.
func (st *stream) body(ctx context.Context) bool {
	opening := `{"role":"assistant","content":""}`
	if st.answer.tool != "" {
		opening = `{"role":"assistant","content":null}`
	}
	for i := range st.choices {
		st.chunk(i, append(st.delta[:0], opening...), "")
	}
	if st.answer.tool != "" && !st.each(st.appendCallDelta) {
		return false
	}
	return st.generate(ctx, st.pace.step(), func(from, to int64) bool {
		st.text = st.answer.appendText(st.text[:0], from, to)
		return len(st.text) == 0 || st.each(st.appendTextDelta)
	})
}

// each sends a chunk of content for each choice, until the fault says to stop.
func (st *stream) each(delta func(b []byte, choice int64) []byte) bool {
	for i := range st.choices {
		if st.content == st.fault.streamErrorAfter {
			return false
		}
		st.delta = delta(st.delta[:0], i)
		st.chunk(i, st.delta, "")
		st.content++
	}
	return st.err == nil
}

// appendCallDelta is the first piece of a tool call. The later ones hold nothing
// but their index and more arguments: clients start a new call at a repeated type.
func (st *stream) appendCallDelta(b []byte, choice int64) []byte {
	b = append(b, `{"tool_calls":[{"index":0,`...)
	b = st.appendCall(b, choice)
	return append(b, `"}}]}`...)
}

func (st *stream) appendTextDelta(b []byte, _ int64) []byte {
	if st.answer.tool != "" {
		b = append(b, `{"tool_calls":[{"index":0,"function":{"arguments":"`...)
		b = append(b, st.text...)
		return append(b, `"}}]}`...)
	}
	b = append(b, `{"content":"`...)
	b = append(b, st.text...)
	return append(b, `"}`...)
}

func (st *stream) chunk(choice int64, delta []byte, finish string) {
	b := st.event[:0]
	b = append(b, st.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, choice, 10)
	b = append(b, `,"delta":`...)
	b = append(b, delta...)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		b = append(b, `null}]`...)
	} else {
		b = append(b, '"')
		b = append(b, finish...)
		b = append(b, `"}]`...)
	}
	if st.includeUsage {
		b = append(b, `,"usage":null`...)
	}
	st.write(append(b, "}\n\n"...))
}

// end sends what follows the content of a complete answer.
func (st *stream) end() {
	for i := range st.choices {
		st.chunk(i, append(st.delta[:0], "{}"...), st.answer.finish)
	}
	if st.includeUsage {
		b := st.event[:0]
		b = append(b, st.head...)
		b = append(b, `],"usage":`...)
		b = st.appendUsage(b)
		st.write(append(b, "}\n\n"...))
	}
	st.write(append(st.event[:0], streamDone...))
	st.ctl.SetWriteDeadline(time.Time{}) // it must not outlive the answer on a kept connection
}

// fail breaks the connection, after the error event if a fault is the reason.
func (st *stream) fail(ctx context.Context) {
	st.server.finish(st.grant)
	if st.fault.streamErrorAfter >= 0 {
		st.write(append(st.event[:0], streamError...))
		st.server.sleep(ctx, st.server.clock()+errorPause)
	}
	panic(http.ErrAbortHandler)
}

// write sends one event at once, and keeps its memory for the next.
func (st *stream) write(event []byte) {
	st.event = event
	if st.err != nil {
		return
	}
	st.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)) // an error means a writer that never blocks
	if _, st.err = st.w.Write(event); st.err == nil {
		st.err = st.ctl.Flush()
	}
}
