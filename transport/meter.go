package transport

import (
	"io"
	"sync"

	"github.com/paceline-go/paceline/provider"
)

// meter is the body of an answer, which it reads along with the caller: nothing is
// held back.
type meter struct {
	body   io.ReadCloser
	once   sync.Once
	over   chan struct{}
	mu     sync.Mutex // the dispatcher may end it while the caller reads
	reader *provider.Reader
	ended  bool
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.mu.Lock()
	if !m.ended {
		_, _ = m.reader.Write(p[:n])
	}
	m.mu.Unlock()
	if err != nil {
		m.end()
	}
	return n, err
}

func (m *meter) Close() error {
	err := m.body.Close()
	m.end()
	return err
}

// end says that the caller is done with the body.
func (m *meter) end() { m.once.Do(func() { close(m.over) }) }

// answer is what was read of it.
func (m *meter) answer() provider.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return m.reader.End()
}
