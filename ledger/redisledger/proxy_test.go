package redisledger_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between client and server, and loses replies to scripts: the server has
// done what it was asked, and the connection breaks before the client hears of it.
type proxy struct {
	addr string
	// lose is how many replies to lose from now on.
	lose   atomic.Int64
	server string
	lis    net.Listener

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: lis.Addr().String(), server: server, lis: lis}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "redis://" + p.addr }

func (p *proxy) close() {
	_ = p.lis.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.lis.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		var losing atomic.Bool
		p.wg.Go(func() {
			p.requests(client, server, &losing)
			_ = server.Close()
		})
		p.wg.Go(func() {
			replies(client, server, &losing)
			_ = client.Close()
		})
	}
}

// requests passes on what the client sends.
func (p *proxy) requests(client, server net.Conn, losing *atomic.Bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("evalsha")) && p.lose.Add(-1) >= 0 {
			losing.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies passes on what the server sends, or breaks the connection instead.
func replies(client, server net.Conn, losing *atomic.Bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || losing.Load() {
			return
		}
		if _, err := io.Copy(client, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}
