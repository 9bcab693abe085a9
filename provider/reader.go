package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/paceline-go/paceline/job"
)

// Reader reads an answer as it passes: a JSON body, however long; server-sent
// events; AWS event streams; or a JSON document per line. Which it is, it sees by
// the answer itself. The bytes must be as the API means them, not compressed.
//
// Make one with [Profile.NewReader]. It never blocks, holds no more than about
// 150 KiB whatever the bytes are, and usually less than 4; how the bytes are split
// makes no difference. It is not safe for concurrent use.
type Reader struct {
	p      *Profile
	api    API
	header http.Header

	framing framing
	begun   bool // the first byte that matters has been seen
	// streamed is what the header says, until the first byte decides.
	streamed bool
	broken   bool

	walk   walker
	sse    sse
	events eventStream

	// usage is the last usage object; counts is it, laid over earlier ones where
	// a provider spreads it over several events.
	usage  []byte
	counts map[string]any
	final  bool // the last usage is all that there will be

	chars    int64
	any      bool // a whole document was seen
	finished bool
	complete bool
	cut      bool
	refusal  Refusal
}

type framing uint8

const (
	framedUnknown framing = iota
	framedJSON
	framedLines
	framedSSE
	framedEvents
)

// Answer is what a Reader has found out about an answer.
type Answer struct {
	// Usage is what the provider says was used, when UsageKnown. It is a lower
	// bound of the output when it is not Exact; the input is exact.
	Usage      Usage
	UsageKnown bool
	// Streamed says that the answer was a stream of events.
	Streamed bool
	// Complete says that the answer reached the end that its API defines: the
	// last event of a stream, the last brace of a body.
	Complete bool
	// Cut says that a cap on the output ended it (finish_reason length): it would have
	// been longer.
	Cut bool
	// Chars is how many characters (code points) of generated text were seen,
	// tool calls and visible reasoning among them. Of a stream that was cut, it
	// is what there is to estimate the output from.
	Chars int64
	// Refusal has the class of an error inside the answer, if there was one.
	// Otherwise it is OK, or Partial for an answer that is not Complete.
	Refusal Refusal
}

// Settles is what a call is settled with. An answer that was cut, or told no usage,
// leaves what was reserved: who breaks off gains nothing.
func (a Answer) Settles() job.Usage {
	if !a.UsageKnown || !a.Usage.Exact {
		return job.Usage{}
	}
	u := job.Used(a.Usage.Input, a.Usage.Output)
	u.Cached, u.CacheWrite, u.Cut = a.Usage.Cached, a.Usage.CacheWrite, a.Cut
	return u
}

// NewReader returns a Reader for a successful answer with the header, which may be
// nil. The api is the shape that was asked for, or empty for the provider's usual
// one.
func (p *Profile) NewReader(api API, h http.Header) *Reader {
	r := &Reader{p: p, api: api, header: h}
	r.walk.reset()
	switch kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind {
	case "application/vnd.amazon.eventstream":
		r.framing, r.begun, r.streamed = framedEvents, true, true
	case "text/event-stream":
		r.streamed = true
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines":
		r.framing, r.streamed = framedLines, true
	}
	return r
}

// Write reads the next bytes of the answer. It takes them all, and never fails.
func (r *Reader) Write(p []byte) (int, error) {
	r.feed(p)
	return len(p), nil
}

func (r *Reader) feed(p []byte) {
	if !r.begun {
		p = r.begin(p)
	}
	switch {
	case r.broken || len(p) == 0:
	case r.framing == framedSSE:
		r.sse.feed(r, p)
	case r.framing == framedEvents:
		r.events.feed(r, p)
	default:
		r.json(p)
	}
}

// begin skips what may come before an answer, such as the empty lines that keep a
// connection open, and sees by the first byte what it is.
func (r *Reader) begin(p []byte) []byte {
	for len(p) > 0 && strings.IndexByte(" \t\r\n\xEF\xBB\xBF", p[0]) >= 0 { // and a byte order mark
		p = p[1:]
	}
	if len(p) == 0 {
		return nil
	}
	r.begun = true
	switch c := p[0]; {
	case c == '{' || c == '[':
		if r.framing != framedLines {
			r.framing, r.streamed = framedJSON, false
		}
	case c == 0:
		r.framing, r.streamed = framedEvents, true
	case c == ':' || r.streamed || strings.IndexByte("deir", c) >= 0 && r.framing == framedUnknown:
		r.framing, r.streamed = framedSSE, true
	default: // HTML, for example
		r.broken = true
	}
	return p
}

// json feeds bytes of JSON to the walker, document after document.
func (r *Reader) json(p []byte) {
	for len(p) > 0 {
		n, end := r.walk.feed(p)
		p = p[n:]
		if end {
			r.any = true
			r.document("")
			r.walk.reset()
		}
	}
}

// document takes in what was found in a document. The event is its name beside the
// document, if it has one there.
func (r *Reader) document(event string) {
	d := &r.walk.doc
	switch {
	case !r.streamed:
		r.chars += d.delta + d.whole
	case !bytes.HasSuffix(d.typ, []byte("audio.delta")): // base64
		r.chars += d.delta
	}
	// Text after the end of a choice is another choice's: the answer goes on.
	r.finished = d.finished || r.finished && d.delta == 0
	r.cut = r.cut || d.cut
	failed := false
	switch string(d.typ) {
	case "message_stop", "message-end", "response.completed", "response.incomplete", "response.cancelled":
		d.last = true
	case "response.failed":
		d.last, failed = true, true
	case "error":
		failed = true
	}
	switch {
	case event == "metadata" && r.framing == framedEvents: // ConverseStream's last
		d.last = true
	case event == "error":
		failed = true
	}
	if d.last {
		r.finished = true
		r.complete = r.streamed
	}
	if len(d.usage) > 0 && bytes.ContainsAny(d.usage, "0123456789") {
		r.takeUsage(d)
	}
	if r.refusal.Class == "" && (failed || len(d.err) > len(`""`)) { // an empty one is none
		r.fail(0, nil)
	}
}

func (r *Reader) takeUsage(d *doc) {
	if r.api == Messages || bytes.HasPrefix(d.typ, []byte("message")) {
		r.counts = merge(r.counts, d.usage)
	} else {
		r.usage, d.usage = d.usage, r.usage
	}
	if r.streamed || d.array {
		r.final = r.finished && (d.finished || d.last || d.choices != someChoices)
	} else {
		r.final = true
	}
}

// fail classifies an error inside the answer. Status and header are of an error
// that is framed as one, else 0 and nil.
func (r *Reader) fail(status int, h http.Header) {
	d := &r.walk.doc
	var body []byte
	switch {
	case len(d.err) > 0 && d.long:
		body = append([]byte(`{"error":`), d.err...) // cut, and read as such
	case len(d.err) > 0:
		body = append(append([]byte(`{"error":`), d.err...), '}')
	case h != nil:
		body = append(append([]byte(`{"message":"`), d.message...), `"}`...)
	default:
		body = append([]byte(`{"error":{"code":"`), d.code...)
		body = append(append(append(body, `","message":"`...), d.message...), `"}}`...)
	}
	doc := readDocument(body)
	if status == 0 {
		status = r.p.statusOf(doc)
	}
	r.refusal = r.p.classify(status, h, doc)
}

// statusOf is the HTTP status that an error would have had before the answer began.
func (p *Profile) statusOf(doc document) int {
	if doc.text != "" {
		return p.statusIn(doc.text)
	}
	status := 0
	for _, path := range [...]string{"error.code", "error.type", "error.status", "error.metadata.error_type"} {
		doc.any(path, func(v string) bool {
			if n, err := strconv.Atoi(v); err == nil && n >= 400 && n < 600 {
				status = n
			} else {
				status = p.errorStatus(v)
			}
			return status != 0
		})
		if status != 0 {
			return status
		}
	}
	return http.StatusInternalServerError
}

// statusIn is statusOf for a text that cannot be parsed: the first name counts.
func (p *Profile) statusIn(text string) int {
	status, first := http.StatusInternalServerError, len(text)
	for name, s := range p.ErrorStatus {
		if i := strings.Index(text, `"`+strings.ToLower(name)+`"`); i >= 0 && i < first {
			status, first = s, i
		}
	}
	return status
}

func (p *Profile) errorStatus(name string) int {
	if s := p.ErrorStatus[name]; s != 0 {
		return s
	}
	for k, s := range p.ErrorStatus {
		if strings.EqualFold(k, name) {
			return s
		}
	}
	return 0
}

// inner reads an event that Bedrock's InvokeModelWithResponseStream wraps in
// another one.
func (r *Reader) inner() {
	event := make([]byte, base64.StdEncoding.DecodedLen(len(r.walk.doc.inner)))
	n, err := base64.StdEncoding.Decode(event, r.walk.doc.inner)
	r.walk.reset()
	if err != nil {
		return
	}
	if _, end := r.walk.feed(event[:n]); end {
		r.document("")
	}
}

// End says what was found, once the last byte has been written. A stream's last
// event counts without the empty line after it.
func (r *Reader) End() Answer {
	switch {
	case r.framing == framedSSE:
		r.sse.end(r)
	case !r.streamed && r.walk.open():
		r.document("")
		r.walk.reset()
		r.any = false
	case r.framing == framedLines:
		r.complete = r.complete || r.finished
	}
	a := Answer{Streamed: r.streamed, Complete: r.complete, Cut: r.cut, Chars: r.chars, Refusal: r.refusal}
	if !r.streamed {
		a.Complete = r.any
	} else if r.finished && r.p.EndsWithoutDone {
		a.Complete = true
	}
	if a.Refusal.Class == "" {
		a.Refusal = Refusal{Class: OK, Scope: ScopeNone}
		if !a.Complete {
			a.Refusal.Class = Partial
		}
	}
	if r.counts == nil && len(r.usage) > 0 {
		if json.Unmarshal(r.usage, &r.counts) != nil {
			r.counts = nil
		}
	}
	a.Usage, a.UsageKnown = r.p.usageFrom(r.api, r.counts)
	a.Usage.Exact = a.UsageKnown && (r.final || r.p.ExactOnCut || a.Complete && r.refusal.Class == "")
	if !a.UsageKnown {
		a.Usage.Input, a.Usage.Cached, a.UsageKnown = r.p.usageInHeader(r.header)
	}
	return a
}

func (p *Profile) usageInHeader(h http.Header) (input, cached int64, ok bool) {
	if p.UsageHeaders.Input == "" {
		return 0, 0, false
	}
	input = amount(h.Get(p.UsageHeaders.Input))
	cached = amount(h.Get(p.UsageHeaders.Cached))
	if input == Absent {
		return 0, 0, false
	}
	return input, min(max(cached, 0), input), true
}
