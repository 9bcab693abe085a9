package bpe

// maxScan is the length in bytes up to which looking through all neighbours is
// faster than a tree of them.
const maxScan = 32

// count returns the number of tokens of one piece.
func (v *vocabulary) count(piece string) int {
	switch {
	case len(piece) == 1 || v.rank(piece) != none:
		return 1 // every byte is a token
	case len(piece) <= maxScan:
		return v.scan(piece)
	}
	return v.tournament(piece)
}

// scan merges the parts of a piece of at most maxScan bytes, which are kept next to
// each other.
func (v *vocabulary) scan(s string) int {
	var (
		start [maxScan + 1]uint8  // of each part, and where the last one ends
		pair  [maxScan + 1]uint32 // rank of a part and the next, above an index of 6 bits
	)
	n := len(s) // parts
	for i := range n - 1 {
		start[i] = uint8(i)
		pair[i] = v.pair[pairOf(s, i)] << 6
	}
	start[n-1], start[n] = uint8(n-1), uint8(n)
	pair[n-1] = none << 6
	// rank is that of the parts i and i+1 together.
	rank := func(i int) uint32 {
		if i+2 > n {
			return none << 6
		}
		return v.rank(s[start[i]:start[i+2]]) << 6
	}
	for {
		best := uint32(none << 6)
		for i, p := range pair[:n] {
			best = min(best, p|uint32(i)) // the leftmost of equals
		}
		if best >= none<<6 {
			return n
		}
		i := int(best & 63)
		copy(start[i+1:n], start[i+2:n+1])
		copy(pair[i+1:n-1], pair[i+2:n])
		n--
		pair[i] = rank(i)
		if i > 0 {
			pair[i-1] = rank(i - 1)
		}
	}
}
