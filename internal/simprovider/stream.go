package simprovider

import (
	"context"
	"net/http"
	"strconv"
)

const (
	streamError = `data: {"error":{"message":"upstream closed the connection","type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"
	streamDone  = "data: [DONE]\n\n"
)

// stream is a completion that is sent in chunks. Its slices are reused.
type stream struct {
	*sse
	head  []byte // of every chunk, up to its choices
	delta []byte
	text  []byte
}

// sendStream answers in chunks, as they are produced.
func (c *completion) sendStream(w http.ResponseWriter, r *http.Request) *apiError {
	e, err := c.open(w, r)
	if err != nil {
		return err
	}
	st := &stream{sse: e, head: c.appendHead([]byte("data: "), "chat.completion.chunk")}
	if !st.body(r.Context()) || c.fault.breaks() {
		st.fail(r.Context(), func() { st.write(append(st.event[:0], streamError...)) })
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
		if !st.reaches(to) {
			return false
		}
		st.text = st.answer.appendText(st.text[:0], from, to)
		return len(st.text) == 0 || st.each(st.appendTextDelta)
	})
}

// each sends a chunk of content for each choice, until the fault says to stop.
func (st *stream) each(delta func(b []byte, choice int64) []byte) bool {
	for i := range st.choices {
		if !st.more() {
			return false
		}
		st.delta = delta(st.delta[:0], i)
		st.chunk(i, st.delta, "")
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
	st.close()
}
