package ledger

import "encoding/binary"

// recent remembers ids: the last 16,384 or nearly so. Ids fall into 2,048 sets by
// their first bytes, and a full set forgets its oldest, so an id is forgotten only
// when eight more have come to its set: of the last thousand, about one in ten
// million. It allocates nothing and has no pointers for the collector to follow;
// two maps in turn made each reservation a third slower.
type recent [recentSets]recentSet

type recentSet struct {
	ids [8]ID
	n   uint32 // added ever
}

const recentSets = 1 << 11

func (r *recent) set(id *ID) *recentSet {
	h := binary.LittleEndian.Uint64(id.Job[:8]) ^ binary.LittleEndian.Uint64(id.Job[8:])
	h = (h ^ uint64(id.Attempt)) * 0x9e3779b97f4a7c15
	return &r[h>>(64-11)]
}

func (r *recent) has(id *ID) bool {
	s := r.set(id)
	for i := range min(int(s.n), len(s.ids)) {
		if s.ids[i] == *id {
			return true
		}
	}
	return false
}

func (r *recent) add(id *ID) {
	s := r.set(id)
	s.ids[s.n%uint32(len(s.ids))] = *id
	s.n++
	if s.n == 1<<31 {
		s.n = uint32(len(s.ids)) // full, and at the start of the round
	}
}
