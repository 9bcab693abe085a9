package estimator

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote returns the content of a JSON string, which may share its memory.
func unquote(v []byte) []byte {
	content := v[1 : len(v)-1]
	if bytes.IndexByte(content, '\\') < 0 && utf8.Valid(content) {
		return content
	}
	return appendUnquoted(nil, v)
}

// appendUnquoted appends the content of a JSON string as encoding/json decodes it
// (which would allocate for every string): bad UTF-8 and lone surrogates become
// U+FFFD, as they do for the provider (openai/tiktoken#82, #541).
func appendUnquoted(dst, v []byte) []byte {
	for s := v[1 : len(v)-1]; len(s) > 0; {
		i := bytes.IndexByte(s, '\\')
		if i != 0 {
			if i < 0 {
				i = len(s)
			}
			dst, s = appendValid(dst, s[:i]), s[i:]
			continue
		}
		n := 2
		switch s[1] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(s[2:])
			n = 6
			if utf16.IsSurrogate(r) {
				second := utf8.RuneError
				if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
					second = hex4(s[8:])
				}
				if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
					n = 12
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, s[1])
		}
		s = s[n:]
	}
	return dst
}

// hex4 reads the four hexadecimal digits of an escape.
func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendValid appends s with U+FFFD in the place of each byte that is not UTF-8.
func appendValid(dst, s []byte) []byte {
	if utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		dst, s = utf8.AppendRune(dst, r), s[size:]
	}
	return dst
}

// appendCompact appends a value without the space between its tokens. Strings
// with \u escapes are decoded: Python clients send all of a Chinese description
// that way, which would count at four times its tokens.
func appendCompact(dst, v []byte) []byte {
	for len(v) > 0 {
		switch v[0] {
		case ' ', '\n', '\r', '\t':
			v = v[1:]
		case '"':
			end := stringEnd(v, 0)
			if bytes.Contains(v[:end], []byte(`\u`)) || !utf8.Valid(v[:end]) {
				dst = append(dst, '"')
				dst = appendUnquoted(dst, v[:end])
				dst = append(dst, '"')
			} else {
				dst = append(dst, v[:end]...)
			}
			v = v[end:]
		default:
			dst = append(dst, v[0])
			v = v[1:]
		}
	}
	return dst
}
