package estimator

import (
	"bytes"
	"strings"
)

// prompt is the part of a request that its input tokens depend on: numbers, and
// the texts one after another in one string, so that a body with 100,000 messages
// makes a few large allocations and not 100,000.
type prompt struct {
	// bare says that the texts stand alone, without the overhead of a chat.
	bare bool
	// messages, names and functionResults are numbers of messages: all, those
	// with a name, those of the legacy role function.
	messages, names, functionResults int64
	// fixed is the sum of the numbers that no model changes: the overhead of
	// tools and calls, common roles, token ids.
	fixed int64
	// priced says that a number in fixed is a rule that errs upwards.
	priced bool

	text   string // all texts, once sealed
	buf    []byte // all texts, before
	ends   []int  // where each text ends
	images []image
	audio  audio
	files  int64 // files, and what else only a flat price can cover
}

// seal ends the reading.
func (p *prompt) seal() { p.text, p.buf = string(p.buf), nil }

// each yields the texts of a sealed prompt.
func (p *prompt) each(yield func(string) bool) {
	start := 0
	for _, end := range p.ends {
		if !yield(p.text[start:end]) {
			return
		}
		start = end
	}
}

// end closes the text that was appended to buf; an empty one is none.
func (p *prompt) end() {
	if n := len(p.ends); len(p.buf) > 0 && (n == 0 || p.ends[n-1] < len(p.buf)) {
		p.ends = append(p.ends, len(p.buf))
	}
}

// string adds a JSON string as a text.
func (p *prompt) string(v []byte) {
	p.buf = appendUnquoted(p.buf, v)
	p.end()
}

// value adds a string as its text, null as nothing, and any other value as its
// JSON: clients send arguments as objects and numbers, and send them again with
// every later turn (BerriAI/litellm#6958, headroomlabs-ai/headroom#2782).
func (p *prompt) value(v []byte) {
	switch kindOf(v) {
	case absent, null:
	case str:
		p.string(v)
	default:
		p.buf = appendCompact(p.buf, v)
		p.end()
	}
}

// role adds a message's role. The common ones are one token in both encodings.
func (p *prompt) role(name []byte) {
	switch string(name) {
	case "system", "user", "assistant", "developer", "tool", "function":
		p.fixed++
	default:
		p.buf = append(p.buf, name...)
		p.end()
	}
}

// unknown adds a part of a type this package does not know: its strings count as
// text, which is more than the content in them, except payloads, which count as
// files. Never an error, which would let the call pass uncounted
// (BerriAI/litellm#14236, #16348, #36604).
func (p *prompt) unknown(v []byte) {
	p.priced = true
	for quoted := range stringsIn(v) {
		s := unquote(quoted)
		if isPayload(s) {
			p.files++
			continue
		}
		p.buf = append(p.buf, s...)
		p.end()
	}
}

// isPayload reports whether a string is encoded data and not text: a data URL, or
// a kilobyte of nothing but base64.
func isPayload(s []byte) bool {
	return bytes.HasPrefix(s, []byte("data:")) || len(s) >= 1024 && !bytes.ContainsFunc(s, notBase64)
}

func notBase64(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("+/=-_", r)
}

// overhead returns the tokens that no text accounts for; first is the one model
// with numbers of its own.
func (p *prompt) overhead(first bool) int64 {
	if p.bare {
		return p.fixed
	}
	perMessage, perName := int64(messageTokens), int64(nameTokens)
	if first {
		perMessage, perName = firstMessageTokens, firstNameTokens
	}
	return replyTokens + perMessage*p.messages + perName*p.names -
		functionResultCredit*p.functionResults + p.fixed
}

// texts adds the input of embeddings or the prompt of a legacy completion and
// returns the number of prompts in it. A number is a token id.
func (p *prompt) texts(v []byte) int64 {
	if kindOf(v) != array {
		p.value(v)
		return 1
	}
	prompts, ids := int64(0), false
	for e := range elements(v) {
		switch kindOf(e) {
		case number:
			p.fixed++
			ids = true
		case array:
			prompts++
			for id := range elements(e) {
				if kindOf(id) == number {
					p.fixed++
				} else {
					p.value(id)
				}
			}
		case object:
			prompts++
			p.unknown(e)
		default:
			prompts++
			p.value(e)
		}
	}
	if ids {
		prompts++
	}
	return max(prompts, 1)
}
