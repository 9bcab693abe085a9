package dispatcher

import "container/heap"

// timers is a heap of the jobs that something happens to at a time: a deadline,
// or the end of a pause before the next attempt.
type timers []*task

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i+1, j+1
}

func (h *timers) Push(x any) {
	t := x.(*task)
	*h = append(*h, t)
	t.timer = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.timer = 0
	return t
}

func (h *timers) remove(t *task) {
	if t.timer > 0 {
		heap.Remove(h, t.timer-1)
	}
}
