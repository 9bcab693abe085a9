package main

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions of this file change single members of a JSON object and leave
// every other byte as it was: decoding and encoding would lose the order, the
// duplicates and the form of the numbers that a client sent. They walk text that
// json.Valid has accepted, so they need no error paths.

// field is one member of an object: its decoded key, and where in the text the
// key begins, the value begins, and the value ends.
type field struct {
	key               []byte
	start, value, end int
}

// fields yields the members of an object in their order, duplicates included. Any
// other value has none.
func fields(text []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		i := skipSpace(text, 0)
		if i == len(text) || text[i] != '{' {
			return
		}
		for i = skipSpace(text, i+1); text[i] != '}'; i = skipSpace(text, i) {
			f := field{start: i}
			keyEnd := stringEnd(text, i)
			f.key = decodeKey(text[i:keyEnd])
			f.value = skipSpace(text, skipSpace(text, keyEnd)+1)
			f.end = valueEnd(text, f.value)
			if !yield(f) {
				return
			}
			if i = skipSpace(text, f.end); text[i] == ',' {
				i = skipSpace(text, i+1)
			}
		}
	}
}

// decodeKey unquotes a key; an escaped "priorit\u0079" is priority to anybody who
// decodes it.
func decodeKey(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

// without returns the object without the members that drop names.
func without(text []byte, drop func(f field) bool) []byte {
	var out []byte
	kept, dropped, last := 0, false, 0
	for f := range fields(text) {
		switch {
		case drop(f):
			if !dropped {
				dropped = true
				out = make([]byte, 0, len(text))
				// All before is kept, and ends where the last member did.
				out = append(out, text[:max(last, bytes.IndexByte(text, '{')+1)]...)
			}
		case dropped:
			if kept > 0 {
				out = append(out, text[last:f.start]...) // the comma, and the space around it
			}
			out = append(out, text[f.start:f.end]...)
			kept++
		default:
			kept++
		}
		last = f.end
	}
	if !dropped {
		return text
	}
	return append(out, text[last:]...)
}

// set returns the object with every member of the key changed to what change makes
// of its value. Without such a member it adds one, of change(nil).
func set(text []byte, key string, change func(value []byte) []byte) []byte {
	out := make([]byte, 0, len(text)+len(key)+64)
	from, members, found := 0, 0, false
	for f := range fields(text) {
		members++
		if string(f.key) == key {
			out = append(out, text[from:f.value]...)
			out = append(out, change(text[f.value:f.end])...)
			from, found = f.end, true
		}
	}
	if found {
		return append(out, text[from:]...)
	}
	end := bytes.LastIndexByte(text, '}')
	out = append(out, text[:end]...)
	if members > 0 {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, key...)
	out = append(out, '"', ':')
	out = append(out, change(nil)...)
	return append(out, text[end:]...)
}

// withUsage returns the body of a streamed chat that asks for the usage chunk.
func withUsage(body []byte) []byte {
	return set(body, "stream_options", func(options []byte) []byte {
		if !isObject(options) {
			return []byte(`{"include_usage":true}`)
		}
		return set(options, "include_usage", func([]byte) []byte { return []byte("true") })
	})
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

func isNull(value []byte) bool { return string(value) == "null" }

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at i. It looks for
// quotes, not at every byte: most of a large body is one long string.
func stringEnd(text []byte, i int) int {
	for j := i + 1; ; j++ {
		j += bytes.IndexByte(text[j:], '"')
		escapes := 0
		for text[j-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return j + 1
		}
	}
}

// valueEnd returns the index after the value that begins at i.
func valueEnd(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // the end of the object around a number
			}
			depth--
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}
