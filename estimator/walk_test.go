package estimator

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode reads a valid document with the walker, as encoding/json would.
func decode(t *testing.T, v []byte) any {
	t.Helper()
	switch kindOf(v) {
	case object:
		m := map[string]any{}
		for key, f := range members(v) {
			m[string(key)] = decode(t, f)
		}
		return m
	case array:
		a := []any{}
		for e := range elements(v) {
			a = append(a, decode(t, e))
		}
		return a
	case str:
		return string(unquote(v))
	case yes:
		return true
	case no:
		return false
	case null:
		return nil
	}
	return json.Number(v)
}

func checkWalk(t *testing.T, doc []byte) {
	t.Helper()
	if !json.Valid(doc) {
		return
	}
	v := doc[skipSpace(doc, 0):]
	v = v[:valueEnd(v, 0)]
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var want any
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if got := decode(t, v); !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got %v, want %v", doc, got, want)
	}
	n := 0
	for s := range stringsIn(v) {
		n++
		if kindOf(s) != str {
			t.Errorf("%q: %q is no string", doc, s)
		}
	}
	// Compact JSON is the same document, apart from the escapes it decodes.
	if c := appendCompact(nil, v); !utf8.Valid(c) || len(c) > 3*len(v) {
		t.Errorf("%q: compact %q", doc, c)
	} else if !bytes.Contains(v, []byte(`\u`)) && utf8.Valid(v) {
		var std bytes.Buffer
		if err := json.Compact(&std, v); err != nil {
			t.Fatal(err)
		}
		if std.String() != string(c) {
			t.Errorf("%q: compact %q, want %q", doc, c, std.String())
		}
	}
}

var documents = []string{
	`{}`, `[]`, ` [ ] `, `null`, `true`, `-1.5e3`, `""`, `"a\"b\\"`, `"\\\\\"\\"`, `"\u00e9\ud83d\ude00"`,
	`"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\udc00\ud83d"`, `"\b\f\n\r\t\/"`,
	"\"\xff\xfe a\xe4\xb8\"", `{"a":1,"a":2}`, `{"max_tok\u0065ns" : 1 , "x":[ {} , [ ] , "]}" ] }`,
	` { "a" : [ 1 , 2 , { "b" : null } ] , "c" : false }` + "\n", `[1,-2,3.0,"x",true]`,
	strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200), `{"\"":{"\\":"\\\""}}`,
}

func TestWalk(t *testing.T) {
	for _, d := range documents {
		checkWalk(t, []byte(d))
	}
}

func FuzzWalk(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, doc []byte) { checkWalk(t, doc) })
}
