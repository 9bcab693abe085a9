package simprovider

import "time"

const (
	slicesPerMinute = 1000
	historyMinutes  = 180
	minutesPerDay   = 1440
)

// history is what was charged when, in slices of a thousandth of a minute, for
// the last 180 minutes. A correction changes the slice of the charge it corrects.
//
// Every charge counts as if made in the middle of its slice, at most half a slice
// from its true time. That can only matter for the charges whose minute crosses
// an end of the measured span: at most 0.05 % of a minute's charge at each end,
// which over the m minutes measured is an error of at most 0.1 %/m of full use.
type history struct {
	slice   time.Duration
	begun   bool
	start   time.Duration // of the first request, and of the first slice ever
	dropped int64         // slices forgotten since
	slices  []amount
}

func (h *history) minute() time.Duration { return slicesPerMinute * h.slice }

// begin starts the history at the first request.
func (h *history) begin(now time.Duration) {
	if !h.begun {
		h.begun, h.start = true, now
	}
}

// add charges at a time that is not before the first request; what is older than
// the history is lost.
func (h *history) add(at time.Duration, a amount) {
	i := int64((at-h.start)/h.slice) - h.dropped
	if i < 0 {
		return
	}
	if over := i + 1 - historyMinutes*slicesPerMinute; over > 0 {
		// A minute at a time, so that the copying is rare.
		over += slicesPerMinute - 1
		kept := copy(h.slices, h.slices[min(over, int64(len(h.slices))):])
		h.slices = h.slices[:kept]
		h.dropped += over
		i -= over
	}
	for i >= int64(len(h.slices)) {
		h.slices = append(h.slices, amount{})
	}
	for d, n := range a {
		h.slices[i][d] += n
	}
}

// average is the time average, between two times, of what was charged in the
// minute before, and the span that it covers. The span begins no earlier than the
// end of the second minute, and no earlier than a minute after the oldest slice
// that is remembered, and ends at to. It is 0 when nothing is left of it.
func (h *history) average(from, to time.Duration) (average [dims]float64, span time.Duration) {
	minute := h.minute()
	oldest := h.start + time.Duration(h.dropped)*h.slice
	from = max(from, h.start+2*minute, oldest+minute)
	if !h.begun || to <= from {
		return average, 0
	}
	for i, a := range h.slices {
		// A charge is part of "the minute before" during the minute after it.
		at := oldest + time.Duration(i)*h.slice + h.slice/2
		if share := min(to, at+minute) - max(from, at); share > 0 {
			for d, n := range a {
				average[d] += float64(n) * float64(share)
			}
		}
	}
	span = to - from
	for d := range average {
		average[d] /= float64(span)
	}
	return average, span
}
