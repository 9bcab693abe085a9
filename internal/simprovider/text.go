package simprovider

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// content is what must be known of a message's text. The text itself, which may
// be a megabyte, is kept only when it is to be echoed.
type content struct {
	runes   int64  // code points
	echo    string // what follows "echo:"
	echoes  bool   // the text begins with "echo:"
	words   int64  // N of the first "words=N"; -1 without one
	present bool   // not null
	bad     bool   // neither a string, nor an array of parts, nor null
}

// UnmarshalJSON reads a string, an array of parts, or null. It refuses nothing:
// bad says what is wrong, so that the error can name the message.
func (c *content) UnmarshalJSON(b []byte) error {
	*c = content{words: -1, present: true}
	switch b[0] {
	case '"':
		c.addText(b)
	case '[':
		c.addParts(b)
	case 'n':
		c.present = false
	default:
		c.bad = true
	}
	return nil
}

// addText reads a whole content from a JSON string. "words=" is looked for in the
// string as it is written: no client escapes those characters, and most prompts
// hold a newline, so that unescaping them would copy most prompts.
func (c *content) addText(lit []byte) {
	c.runes = countRunes(lit)
	c.words = findWords(lit)
	if bytes.Contains(lit, []byte("echo:")) {
		var text string
		if json.Unmarshal(lit, &text) == nil {
			c.findEcho(text)
		}
	}
}

// addParts reads the text parts of an array. Images and the like count nothing.
func (c *content) addParts(b []byte) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(b, &parts) != nil {
		c.bad = true
		return
	}
	var text strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text": // the latter two in the Responses API
			text.WriteString(p.Text)
		case "":
			c.bad = true
		}
	}
	parsed := newContent(text.String())
	parsed.bad = c.bad
	*c = parsed
}

// newContent is the content of a text.
func newContent(text string) content {
	c := content{present: true, runes: int64(utf8.RuneCountInString(text)), words: findWords([]byte(text))}
	c.findEcho(text)
	return c
}

func (c *content) findEcho(text string) {
	text, c.echoes = strings.CutPrefix(strings.TrimSpace(text), "echo:")
	if c.echoes {
		c.echo = strings.TrimLeft(text, " \t\r\n")
	}
}

// findWords returns N of the first "words=N", or -1.
func findWords(b []byte) int64 {
	_, rest, found := bytes.Cut(b, []byte("words="))
	digits := 0
	for digits < len(rest) && digits < 9 && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	if !found || digits == 0 {
		return -1
	}
	n, _ := strconv.ParseInt(string(rest[:digits]), 10, 64) // nine digits always parse
	return n
}

// countRunes counts the code points of a valid JSON string, quotes and all,
// without building it. As encoding/json has it, an invalid byte counts as one,
// and so does half a surrogate pair.
func countRunes(lit []byte) int64 {
	n := 0
	s := lit[1 : len(lit)-1]
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return int64(n + utf8.RuneCount(s))
		}
		n += utf8.RuneCount(s[:i]) + 1
		s = s[i:]
		switch {
		case s[1] != 'u':
			s = s[2:]
		case isSurrogate(s, 'b') && isSurrogate(s[6:], 'f'):
			s = s[12:]
		default:
			s = s[6:]
		}
	}
}

// isSurrogate says whether s begins with the escape of a high surrogate (last is
// 'b': \ud800 to \udbff) or of a low one ('f': \udc00 to \udfff).
func isSurrogate(s []byte, last byte) bool {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' || s[2]|0x20 != 'd' {
		return false
	}
	c := s[3] | 0x20 // digits have that bit already
	if last == 'b' {
		return c == '8' || c == '9' || c == 'a' || c == 'b'
	}
	return 'c' <= c && c <= 'f'
}

// tokenCount is what a number of characters is charged as.
func tokenCount(runes int64) int64 { return ceilDiv(runes, 4) }

// quote is s as a JSON string.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return b
}

// appendEscaped appends s as the inside of a JSON string.
func appendEscaped(b []byte, s string) []byte {
	q := quote(s)
	return append(b, q[1:len(q)-1]...)
}
