package provider

// Known is how many sets of limits the plan keeps.
func (p *Plan) Known() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.known)
}
