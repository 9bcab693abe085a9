package sched

// lengths finds the longest lane of a class in constant time. Row n lists the
// lanes in which n jobs wait, the one that came to that length last in front;
// the last row is never empty. Every step is by one job, so that a top row that
// empties has left its lane in the row below.
type lengths struct {
	rows []*lane // row 0 is always empty
}

// grow and shrink follow a lane's waiting jobs, one at a time.
func (s *lengths) grow(l *lane) {
	s.leave(l)
	l.waiting++
	s.enter(l)
}

func (s *lengths) shrink(l *lane) {
	s.leave(l)
	l.waiting--
	s.enter(l)
	if n := len(s.rows) - 1; s.rows[n] == nil {
		s.rows = s.rows[:n]
	}
}

func (s *lengths) enter(l *lane) {
	n := int(l.waiting)
	if n == 0 {
		return
	}
	for len(s.rows) <= n {
		s.rows = append(s.rows, nil)
	}
	l.rowPrev, l.rowNext = nil, s.rows[n]
	if l.rowNext != nil {
		l.rowNext.rowPrev = l
	}
	s.rows[n] = l
}

func (s *lengths) leave(l *lane) {
	if l.waiting == 0 {
		return
	}
	if l.rowPrev != nil {
		l.rowPrev.rowNext = l.rowNext
	} else {
		s.rows[l.waiting] = l.rowNext
	}
	if l.rowNext != nil {
		l.rowNext.rowPrev = l.rowPrev
	}
	l.rowPrev, l.rowNext = nil, nil
}

func (s *lengths) longest() *lane {
	if len(s.rows) == 0 {
		return nil
	}
	return s.rows[len(s.rows)-1]
}
