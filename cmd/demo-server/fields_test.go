package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

func TestWithout(t *testing.T) {
	ours := func(f field) bool { return slices.Contains([]string{"priority", "tier"}, string(f.key)) }
	for _, tt := range []struct{ in, want string }{
		{`{}`, `{}`},
		{`{"a":1}`, `{"a":1}`},
		{`{"priority":1}`, `{}`},
		{` { "priority" : 1 } `, ` { } `},
		{`{"priority":1,"a":2}`, `{"a":2}`},
		{`{"a":2,"priority":1}`, `{"a":2}`},
		{`{"a":1, "priority":2, "b":3}`, `{"a":1, "b":3}`},
		{`{"a":1,"priority":2,"tier":"x","b":3,"priority":4}`, `{"a":1,"b":3}`},
		{`{"priority":1,"tier":"paid"}`, `{}`},
		{"{\n  \"a\": 1.0e+2,\n  \"tier\": \"paid\",\n  \"a\": 1\n}", "{\n  \"a\": 1.0e+2,\n  \"a\": 1\n}"},
		{`{"metadata":{"priority":1},"x":[{"tier":2}],"priority":{"priority":[1,"}"]}}`, `{"metadata":{"priority":1},"x":[{"tier":2}]}`},
		{`{"priorit\u0079":1,"s":"priority\",\\"}`, `{"s":"priority\",\\"}`},
		{`{"Priority":1,"priority ":2}`, `{"Priority":1,"priority ":2}`},
		{`[{"priority":1}]`, `[{"priority":1}]`},
		{`"priority"`, `"priority"`},
	} {
		if got := string(without([]byte(tt.in), ours)); got != tt.want {
			t.Errorf("%s\ngives %s\nwant  %s", tt.in, got, tt.want)
		}
	}
}

func TestWithUsage(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{}`, `{"stream_options":{"include_usage":true}}`},
		{`{"stream":true}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"a":{"b":"}"} } `, `{"a":{"b":"}"} ,"stream_options":{"include_usage":true}} `},
		{`{"stream_options":null,"a":1}`, `{"stream_options":{"include_usage":true},"a":1}`},
		{`{"stream_options":{},"a":1}`, `{"stream_options":{"include_usage":true},"a":1}`},
		{`{"stream_options":{"include_obfuscation":false}}`, `{"stream_options":{"include_obfuscation":false,"include_usage":true}}`},
		{`{"stream_options": {"include_usage": false , "x":[1]}}`, `{"stream_options": {"include_usage": true , "x":[1]}}`},
		{`{"stream_options":null,"stream_options":{"include_usage":false}}`, `{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`},
	} {
		if got := string(withUsage([]byte(tt.in))); got != tt.want {
			t.Errorf("%s\ngives %s\nwant  %s", tt.in, got, tt.want)
		}
	}
}

// member is what encoding/json reads of a field.
type member struct{ key, value string }

// members reads an object by encoding/json; ok is false for anything else.
func members(text []byte) (out []member, ok bool) {
	if !json.Valid(text) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, false
		}
		out = append(out, member{key.(string), string(value)})
	}
	return out, true
}

// FuzzSplice compares the splicing with encoding/json: what is left has the same
// members with the same bytes, in the same order.
func FuzzSplice(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"priority":1}`, `{"a":1,"priority":2}`, `{"priority":[{"priority":1}],"b":"\"\\","stream_options":null}`,
		`{"stream_options":{"include_usage":false,"x":1e-7},"priorit\u0079":0, "c" : [ 1 , {} ] }`, "{\"a\\\\\":\"\\\\\",\t\"priority\":-1.5E3\n}", `[1]`, `{"\ud800":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before, ok := members(text)
		if !ok {
			return
		}
		original := bytes.Clone(text)
		got := without(text, func(f field) bool { return string(f.key) == "priority" })
		after, ok := members(got)
		want := slices.DeleteFunc(slices.Clone(before), func(m member) bool { return m.key == "priority" })
		if !ok || !slices.Equal(after, want) {
			t.Fatalf("%q\nwithout priority is %q", text, got)
		}
		if len(want) == len(before) && !bytes.Equal(got, text) {
			t.Fatalf("%q without anything to drop became %q", text, got)
		}

		got = withUsage(text)
		after, ok = members(got)
		if !ok {
			t.Fatalf("%q with usage is %q", text, got)
		}
		asked := 0
		for i, m := range after {
			if m.key != "stream_options" {
				if i >= len(before) || m != before[i] {
					t.Fatalf("%q with usage is %q", text, got)
				}
				continue
			}
			asked++
			var options struct {
				IncludeUsage bool `json:"include_usage"`
			}
			if err := json.Unmarshal([]byte(m.value), &options); err != nil || !options.IncludeUsage {
				t.Fatalf("%q with usage is %q", text, got)
			}
		}
		if asked == 0 || len(after) > len(before)+1 {
			t.Fatalf("%q with usage is %q", text, got)
		}
		if !bytes.Equal(text, original) {
			t.Fatal("the text was changed")
		}
	})
}
