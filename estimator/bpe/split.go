package bpe

// The functions of this file return where the first piece of a text, or a part of
// one, ends. The text is not empty, and i is where to go on.

// splitO200k splits by the expression of o200k_base, the first that matches of
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitO200k(s string) int {
	c, n := classAt(s, 0)
	switch {
	case c&letter != 0:
		end, _ := word(s, 0)
		return contraction(s, end)
	case c == number:
		return digits(s, n)
	case c != newline && n < len(s):
		next, _ := classAt(s, n)
		if next&(letter|mark) != 0 {
			// A mark before capitals alone is a word of its own: the first line matches
			// it without what may come before a word.
			if end, first := word(s, n); first || c != mark {
				return contraction(s, end)
			}
		} else if s[0] == ' ' && next == other {
			return symbols(s, n, true)
		}
	}
	switch c {
	case mark:
		return contraction(s, n)
	case other:
		return symbols(s, n, true)
	}
	return blank(s)
}

// splitCl100k splits by the expression of cl100k_base, the first that matches of
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitCl100k(s string) int {
	if end := contraction(s, 0); end > 0 {
		return end
	}
	c, n := classAt(s, 0)
	switch {
	case c&letter != 0:
		return run(s, n, letter)
	case c == number:
		return digits(s, n)
	case c != newline && n < len(s):
		next, _ := classAt(s, n)
		if next&letter != 0 {
			return run(s, n, letter)
		}
		if s[0] == ' ' && next&(mark|other) != 0 {
			return symbols(s, n, false)
		}
	}
	if c&(mark|other) != 0 {
		return symbols(s, n, false)
	}
	return blank(s)
}

// run goes on while the classes are of a set.
func run(s string, i int, set class) int {
	for i < len(s) {
		c, n := classAt(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// word matches the letters of the first two lines of o200k_base at a letter or a
// mark, and says whether the first line does: capitals, if any, and then letters
// that are none. Capitals that no small letter follows end at the last letter among
// them that is in both sets.
func word(s string, i int) (end int, first bool) {
	for i < len(s) {
		c, n := classAt(s, i)
		if c == lower {
			return run(s, i+n, lower|caseless|mark), true
		}
		if c&(upper|caseless|mark) == 0 {
			break
		}
		i += n
		if c != upper {
			end = i
		}
	}
	if end > 0 {
		return end, true
	}
	return i, false
}

// contraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d)?
func contraction(s string, i int) int {
	if len(s)-i < 2 || s[i] != '\'' {
		return i
	}
	const toLower = 'a' - 'A'
	a, b := s[i+1]|toLower, byte(0)
	if len(s)-i > 2 {
		b = s[i+2] | toLower
	}
	switch {
	case a == 's', a == 't', a == 'm', a == 'd':
		return i + 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return i + 3
	}
	return i
}

// digits matches the rest of \p{N}{1,3}.
func digits(s string, i int) int {
	for range 2 {
		if i == len(s) {
			break
		}
		c, n := classAt(s, i)
		if c != number {
			break
		}
		i += n
	}
	return i
}

// symbols matches the rest of [^\s\p{L}\p{N}]+[\r\n]*, the latter with slashes if
// they count.
func symbols(s string, i int, slashes bool) int {
	i = run(s, i, mark|other)
	for i < len(s) && (s[i] == '\n' || s[i] == '\r' || slashes && s[i] == '/') {
		i++
	}
	return i
}

// blank matches the last three lines of both: white space up to its last line
// break, or else without the rune before what follows, unless it is the only one.
func blank(s string) int {
	end, last, line := 0, 0, 0
	for end < len(s) {
		c, n := classAt(s, end)
		if c&(space|newline) == 0 {
			break
		}
		last = end
		end += n
		if c == newline {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end == len(s) || last == 0:
		return end
	}
	return last
}
