// Package job holds the words the other packages share: what a job is ([Spec]),
// how urgent it is ([Priority]), what it is expected to cost ([Estimate]), what
// it did cost ([Usage]) and how it ended ([Result]).
//
// It is a leaf: values only, no goroutine, no clock, no I/O.
//
// # Concurrency
//
// All types are plain values. A Spec may be shared between goroutines as long as
// nobody changes it.
package job
