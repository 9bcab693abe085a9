package job

import (
	"errors"
	"fmt"
)

// Priority is a job's class: class 0 is the most urgent, class 9 the least.
//
// The zero value says nothing about urgency and counts as [Free], so that a
// caller who forgets it can not overtake those who paid. That is why the
// constants are named and class 0 is not the number 0.
type Priority uint8

// The ten classes, from the most urgent to the least, and the names most callers
// use for three of them.
const (
	Unset Priority = iota
	P0
	P1
	P2
	P3
	P4
	P5
	P6
	P7
	P8
	P9

	Paid       = P1
	Free       = P5
	Background = P8
)

// Classes is the number of classes.
const Classes = 10

// ErrPriority is returned for a class outside 0 to 9.
var ErrPriority = errors.New("job: priority must be from 0 (most urgent) to 9")

// PriorityOf returns the priority of class n, 0 to 9.
func PriorityOf(n int) (Priority, error) {
	if n < 0 || n >= Classes {
		return Unset, fmt.Errorf("%w, not %d", ErrPriority, n)
	}
	return Priority(n + 1), nil
}

// Class returns the class, 0 to 9; lower runs sooner.
func (p Priority) Class() int {
	if p == Unset {
		p = Free
	}
	return int(p) - 1
}

// Valid reports whether p is one of the ten classes or Unset.
func (p Priority) Valid() bool { return p <= P9 }

// String returns "paid", "free", "background" or "p3" and the like.
func (p Priority) String() string {
	switch p {
	case Unset, Free:
		return "free"
	case Paid:
		return "paid"
	case Background:
		return "background"
	}
	return fmt.Sprintf("p%d", p.Class())
}
