package estimator

import (
	"bytes"
	"iter"
)

// The functions of this file walk JSON that json.Valid has accepted, so they
// need no error paths; values are slices of the body. Decoding into structs
// would be shorter, but a body of 1 MB can hold 300,000 messages, for which
// encoding/json allocates over 100 MB, and a type that decodes itself is
// scanned again at every level.

// kind is the first byte of a JSON value, with '0' for every number and 0 for
// an absent value.
type kind byte

const (
	absent kind = 0
	null   kind = 'n'
	yes    kind = 't'
	no     kind = 'f'
	number kind = '0'
	str    kind = '"'
	array  kind = '['
	object kind = '{'
)

func kindOf(v []byte) kind {
	switch {
	case len(v) == 0:
		return absent
	case v[0] == '-' || '0' <= v[0] && v[0] <= '9':
		return number
	}
	return kind(v[0])
}

// String returns the name JSON gives to the kind.
func (k kind) String() string {
	switch k {
	case absent:
		return "nothing"
	case null:
		return "null"
	case number:
		return "number"
	case str:
		return "string"
	case array:
		return "array"
	case object:
		return "object"
	case yes, no:
		return "boolean"
	}
	return "unknown"
}

// members yields the members of an object in their order, duplicates included;
// a caller that keeps the last one reads the object as encoding/json does. Keys
// are decoded: an escaped "max_tok\u0065ns" is max_tokens to the provider too.
// Any other kind of value has no members.
func members(v []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if kindOf(v) != object {
			return
		}
		for i := skipSpace(v, 1); v[i] != '}'; i = skipSpace(v, i) {
			end := stringEnd(v, i)
			key := unquote(v[i:end])
			i = skipSpace(v, skipSpace(v, end)+1)
			end = valueEnd(v, i)
			if !yield(key, v[i:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i++
			}
		}
	}
}

// elements yields the elements of an array; any other kind of value has none.
func elements(v []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if kindOf(v) != array {
			return
		}
		for i := skipSpace(v, 1); v[i] != ']'; i = skipSpace(v, i) {
			end := valueEnd(v, i)
			if !yield(v[i:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i++
			}
		}
	}
}

// stringsIn yields every string in a value, keys included and still quoted,
// however deep, without recursion.
func stringsIn(v []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			i := bytes.IndexByte(v, '"')
			if i < 0 {
				return
			}
			end := stringEnd(v, i)
			if !yield(v[i:end]) {
				return
			}
			v = v[end:]
		}
	}
}

func skipSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\r' || v[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that starts at i. It looks for
// quotes, not at every byte, because most bytes of a vision request are base64.
func stringEnd(v []byte, i int) int {
	for j := i + 1; ; j++ {
		j += bytes.IndexByte(v[j:], '"')
		k := j
		for v[k-1] == '\\' {
			k--
		}
		if (j-k)%2 == 0 {
			return j + 1
		}
	}
}

// valueEnd returns the index after the value that starts at i.
func valueEnd(v []byte, i int) int {
	switch v[i] {
	case '"':
		return stringEnd(v, i)
	case '{', '[':
		for depth := 0; ; {
			switch v[i] {
			case '"':
				i = stringEnd(v, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	}
	for i < len(v) {
		switch v[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}
