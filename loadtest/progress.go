package main

import (
	"fmt"
	"os"
	"time"
)

// progress is one line on a terminal, written over and over. It has no colours,
// so NO_COLOR changes nothing.
type progress struct {
	w       *os.File // nil shows nothing
	options options
}

// newProgress shows nothing unless stderr is a terminal that can go back to the
// start of a line.
func newProgress(stderr *os.File, o options) *progress {
	p := &progress{options: o}
	info, err := stderr.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && !o.Quiet {
		p.w = stderr
	}
	return p
}

func (p *progress) show(elapsed time.Duration, now counts) {
	if p.w == nil {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s with %s, %v of %v: %d ended, %d running, %d waiting, %d refused",
		p.options.Scenario, p.options.Strategy, elapsed.Round(time.Second), p.options.Duration, now.ended, now.running, now.waiting, now.refused)
}

// clear removes the line.
func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
