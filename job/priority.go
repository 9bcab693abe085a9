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

var (
	// ErrPriority is returned for a class outside 0 to 9.
	ErrPriority = errors.New("job: priority must be from 0 (most urgent) to 9")
	// ErrTier is returned for a tier that has no class.
	ErrTier = errors.New("job: tier must be paid, free or background")
)

// PriorityOf returns the priority of class n, 0 to 9.
func PriorityOf(n int) (Priority, error) {
	if n < 0 || n >= Classes {
		return Unset, fmt.Errorf("%w, not %d", ErrPriority, n)
	}
	return Priority(n + 1), nil
}

// ParseClass reads the number of a class: one digit.
func ParseClass(digit string) (Priority, error) {
	if len(digit) != 1 || digit[0] < '0' || digit[0] > '9' {
		return Unset, fmt.Errorf("%w, not %.16q", ErrPriority, digit)
	}
	return PriorityOf(int(digit[0] - '0'))
}

// ParseTier reads the name of a class that has one: paid, free or background.
func ParseTier(name string) (Priority, error) {
	switch name {
	case "paid":
		return Paid, nil
	case "free":
		return Free, nil
	case "background":
		return Background, nil
	}
	return Unset, fmt.Errorf("%w, not %.16q", ErrTier, name)
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
