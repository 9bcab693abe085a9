package bpe

import (
	"errors"
	"hash/maphash"
)

// none is the rank of what is not in the vocabulary. It is above all ranks by far,
// and leaves room for an index of six bits below it in 32 bits.
const none = 1<<26 - 1

// vocabulary knows the rank of each token: an open hash table whose slots hold a tag
// of the hash and the rank. Most of what is asked for is not there: that is seen in a
// filter of a bit per hash, which is small enough for the processor's second cache, or
// else by the tags, because half of the slots and more are empty. The keys of common
// tokens, whose ranks are low, lie next to each other.
type vocabulary struct {
	filter  []uint64 // a bit for each hash of 20 bits, set if a token has it
	slot    []uint32 // tag above rankBits, and 1 + rank; 0 is empty
	shift   uint     // from a hash to an index of slot
	key     []uint64 // of the token, by rank
	pair    []uint32 // the rank of each two bytes, the first in the low half
	longest int      // token, in bytes
	seed    maphash.Seed
}

const (
	rankBits = 18 // more than the 199,998 tokens of o200k_base need
	rankMask = 1<<rankBits - 1
	tagMask  = 1<<32 - 1 - rankMask

	filterBits = 20
)

var errData = errors.New("bpe: the embedded vocabulary is damaged")

// newVocabulary reads the lengths of n tokens, a byte each, and then their bytes.
func newVocabulary(data string, n int) (*vocabulary, error) {
	if n > rankMask || len(data) < n {
		return nil, errData
	}
	bits := uint(1)
	for 1<<bits < 2*n {
		bits++
	}
	v := &vocabulary{
		filter: make([]uint64, 1<<filterBits/64), slot: make([]uint32, 1<<bits), shift: 64 - bits,
		key: make([]uint64, n), pair: make([]uint32, 1<<16), seed: maphash.MakeSeed(),
	}
	for i := range v.pair {
		v.pair[i] = none
	}
	lengths, left := data[:n], data[n:]
	for rank := range n {
		size := int(lengths[rank])
		if size == 0 || size > len(left) {
			return nil, errData
		}
		v.add(left[:size], uint32(rank))
		left = left[size:]
	}
	if left != "" {
		return nil, errData
	}
	return v, nil
}

func (v *vocabulary) add(token string, rank uint32) {
	v.longest = max(v.longest, len(token))
	if len(token) == 2 {
		v.pair[pairOf(token, 0)] = rank
	}
	key := v.keyOf(token)
	v.key[rank] = key
	h := hash(key)
	word, bit := filterAt(h)
	v.filter[word] |= bit
	i, tag := v.place(h)
	for v.slot[i] != 0 {
		i = (i + 1) & (len(v.slot) - 1)
	}
	v.slot[i] = tag | (rank + 1)
}

// rank returns the rank of a token, or none.
func (v *vocabulary) rank(token string) uint32 {
	if len(token) > v.longest {
		return none
	}
	key := v.keyOf(token)
	h := hash(key)
	if word, bit := filterAt(h); v.filter[word]&bit == 0 {
		return none
	}
	for i, tag := v.place(h); ; i = (i + 1) & (len(v.slot) - 1) {
		slot := v.slot[i]
		if slot == 0 {
			return none
		}
		if slot&tagMask == tag {
			if rank := slot&rankMask - 1; v.key[rank] == key {
				return rank
			}
		}
	}
}

// keyOf returns what stands for a token: its bytes and their number, or for one that
// has too many a hash and the highest bit.
func (v *vocabulary) keyOf(token string) uint64 {
	n := len(token)
	if n > 7 {
		return maphash.String(v.seed, token) | 1<<63
	}
	key := uint64(n) << 56
	if n >= 4 {
		// The two halves overlap in bytes that are the same.
		return key | uint64(uint32At(token, 0)) | uint64(uint32At(token, n-4))<<(8*(n-4))
	}
	return key | uint64(token[0]) | uint64(token[n/2])<<(8*(n/2)) | uint64(token[n-1])<<(8*(n-1))
}

// hash spreads a key over 64 bits, of which the highest are the best.
func hash(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 } // 2^64 over the golden ratio

func filterAt(hash uint64) (word int, bit uint64) {
	i := hash >> (64 - filterBits)
	return int(i / 64), 1 << (i % 64)
}

// place returns the first slot to look at for a hash and the tag to look for.
func (v *vocabulary) place(hash uint64) (i int, tag uint32) {
	return int(hash >> v.shift), uint32(hash>>13) & tagMask
}

func uint32At(s string, i int) uint32 {
	_ = s[i+3]
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}

func pairOf(s string, i int) int { return int(s[i]) | int(s[i+1])<<8 }
