package sched

// pool keeps a few zero values for reuse, so that a tenant that comes and goes
// with every job costs no allocation. It keeps few, so that the memory of a
// flood is given back.
type pool[T any] struct{ free []*T }

const pooled = 1024

func (p *pool[T]) get() *T {
	n := len(p.free) - 1
	if n < 0 {
		return new(T)
	}
	v := p.free[n]
	p.free = p.free[:n]
	return v
}

func (p *pool[T]) put(v *T) {
	if len(p.free) < pooled {
		*v = *new(T)
		p.free = append(p.free, v)
	}
}
