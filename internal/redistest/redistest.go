// Package redistest gives tests a real Redis.
//
// Most tests share the servers that scripts/with-redis.sh starts; one that freezes or
// kills a server starts its own with Start.
package redistest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// URL returns the address of the shared server.
func URL(t testing.TB) string { return env(t, "PACELINE_TEST_REDIS") }

// ClusterURL returns the address of the shared cluster of three masters.
func ClusterURL(t testing.TB) string { return env(t, "PACELINE_TEST_REDIS_CLUSTER") }

func env(t testing.TB, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("no %s: run make test, or scripts/with-redis.sh go test ./...", name)
	}
	return v
}

// Server is a test's own redis-server, which ends with the test.
type Server struct {
	// Addr is host:port.
	Addr string
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// Start starts an empty server on a free port, with further options of redis-server.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	for range 20 {
		s, err := start(t, options)
		if err == nil {
			t.Cleanup(s.Kill)
			return s
		}
		if !errors.Is(err, errPort) {
			t.Fatalf("no redis-server of its own: %v; run make test, or scripts/with-redis.sh go test ./...", err)
		}
	}
	t.Fatal("redistest: no free port")
	return nil
}

// errPort says that the server ended at once, as it does when its port is taken.
var errPort = errors.New("redistest: the server ended at once")

func start(t testing.TB, options []string) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, options...)
	s := &Server{Addr: addr, t: t, cmd: exec.Command("redis-server", args...), done: make(chan struct{})}
	var out bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &out, &out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	for range 300 {
		select {
		case <-s.done:
			if strings.Contains(out.String(), "Address already in use") {
				return nil, errPort
			}
			return nil, errors.New(out.String())
		case <-time.After(50 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return s, nil
		}
	}
	s.Kill()
	return nil, errors.New("redistest: the server does not answer")
}

// FreeAddr returns an address of 127.0.0.1 that nobody listens on.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// URL returns the server's address as redisledger.Open takes it.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Port returns the server's port.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Freeze stops the process: connections stay open, and nothing answers.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// Kill ends the process and waits for it. Killing twice is fine.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
