package ledger

// ringSize holds the slots of a window, its longest guard (1/20) and both ends.
const ringSize = Slots + Slots/20 + 4

// window is the sliding window of one limit. Times are microseconds of the
// ledger's clock. It is a plain value of arithmetic: no lock, no clock.
type window struct {
	// used is the sum of slots. Slots up to gone have left; gone never falls, so
	// the time of a window never goes back.
	used, gone int64
	slots      [ringSize]int64
}

// leaves is the slot in which a charge leaves that was counted by the provider
// at most delay after at.
func leaves(at, delay int64, s *Shape) int64 {
	return (at + delay + s.Window + s.Slot - 1) / s.Slot
}

// advance brings w to now: charges whose slot has passed leave.
func (w *window) advance(now int64, s *Shape) {
	cur := now / s.Slot
	if cur-w.gone >= ringSize {
		w.slots = [ringSize]int64{}
		w.used = 0
	} else {
		for i := w.gone + 1; i <= cur; i++ {
			p := &w.slots[i%ringSize]
			w.used -= *p
			*p = 0
		}
	}
	w.gone = max(w.gone, cur)
}

// add files amount under slot; amount may be negative for a refund. A slot that
// has left takes nothing, and gives nothing back.
func (w *window) add(slot, amount int64) bool {
	if slot <= w.gone {
		return false
	}
	w.slots[slot%ringSize] += amount
	w.used += amount
	return true
}

// freed returns the slot by whose end short units have left. What is kept for
// those in front counts as taken, so the last slot may not be enough; then it is
// one window after that.
func (w *window) freed(short int64) int64 {
	for i := w.gone + 1; i < w.gone+ringSize; i++ {
		if short -= w.slots[i%ringSize]; short <= 0 {
			return i
		}
	}
	return w.gone + ringSize
}
