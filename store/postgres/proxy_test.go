package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a store and its database and can be cut, so that a test
// decides what reaches whom.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	// cancels counts the requests to cancel a statement.
	cancels atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool
	after []byte        // what the request has that is not answered, nil for none
	mute  bool          // answers are held back
	held  chan struct{} // closed when the first answer was held back
}

// cancelRequest is how a connection begins that asks for a statement of another one to be
// cancelled: its length and its code.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// newProxy returns a proxy and the URL of the database through it.
func newProxy(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: u.Host, conns: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	p.running.Go(p.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.Cut()
		p.running.Wait()
	})
	return p, u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.trackConns(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		p.running.Go(func() { p.copy(server, client, false) })
		p.running.Go(func() { p.copy(client, server, true) })
	}
}

// trackConns remembers connections, unless the proxy is cut.
func (p *proxy) trackConns(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) copy(to, from net.Conn, answers bool) {
	defer func() { _ = errors.Join(to.Close(), from.Close()) }()
	buffer := make([]byte, 32<<10)
	for first := !answers; ; first = false {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if first && bytes.HasPrefix(buffer[:n], cancelRequest) {
			p.cancels.Add(1)
		}
		switch {
		case !answers:
			p.noteRequest(buffer[:n])
		case p.holdsAnswers():
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// noteRequest begins to hold answers back with the request that is not to be answered.
func (p *proxy) noteRequest(request []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.after != nil && bytes.Contains(request, p.after) {
		p.after, p.mute = nil, true
	}
}

// holdsAnswers reports whether answers are held back.
func (p *proxy) holdsAnswers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute && p.held != nil {
		close(p.held)
		p.held = nil
	}
	return p.mute
}

// Mute holds all answers of the server back from now on. The channel is closed
// when there was one.
func (p *proxy) Mute() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.mute, p.held = true, held
	return held
}

// MuteAfter holds all answers of the server back from a request on that has these bytes:
// requests before it, with which a pool looks whether a connection that was idle is alive,
// are answered. The channel is closed when there was one.
func (p *proxy) MuteAfter(request []byte) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.after, p.held = request, held
	return held
}

// Cut breaks all connections and refuses new ones.
func (p *proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// Mend lets connections through again.
func (p *proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.after, p.mute, p.held = false, nil, false, nil
}
