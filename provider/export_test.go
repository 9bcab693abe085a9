package provider

// Known is how many sets of limits the plan keeps.
func (p *Plan) Known() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.known)
}

// Held is how many bytes a Reader's buffers have room for.
func Held(r *Reader) int {
	d := &r.walk.doc
	n := cap(r.usage)
	for _, b := range [][]byte{d.typ, d.code, d.message, d.scalar, d.usage, d.err, d.inner, r.sse.name, r.sse.event, r.sse.head, r.events.buf} {
		n += cap(b)
	}
	return n
}
