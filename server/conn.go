package server

import (
	"bytes"
	"container/list"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"agentd/fault"
)

// hurrier writes to a client and can be given a deadline.
type hurrier interface{ hurry() }

// conns are the open connections, and the answers on those of HTTP/2, which many
// share and where each waits for its own reader.
type conns struct {
	// patience is how long a write may take once the server stops.
	patience time.Duration

	mu       sync.Mutex
	open     map[hurrier]struct{}
	hurrying bool
	// quiet are the connections on which no request with a token is answered, the one that
	// has been so for longest first.
	quiet list.List
}

func (cs *conns) add(c hurrier) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[hurrier]struct{}{}
	}
	cs.open[c] = struct{}{}
	if cs.hurrying {
		c.hurry()
	}
}

func (cs *conns) remove(c hurrier) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
}

// accept counts a connection, on which nothing was asked yet.
func (cs *conns) accept(c *countedConn) {
	cs.add(c)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.place = cs.quiet.PushBack(c)
}

// beginAnswer says that a request with a token is answered on a connection from now on.
// Over HTTP/2 it is one of several.
func (cs *conns) beginAnswer(c *countedConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.answering++
	cs.takeOut(c)
}

// endAnswer says that a request was answered.
func (cs *conns) endAnswer(c *countedConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.answering--; c.answering == 0 && !c.closed {
		c.place = cs.quiet.PushBack(c)
	}
}

func (cs *conns) takeOut(c *countedConn) {
	if c.place != nil {
		cs.quiet.Remove(c.place)
		c.place = nil
	}
}

// forget says that a connection is closed.
func (cs *conns) forget(c *countedConn) {
	cs.remove(c)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.closed = true
	cs.takeOut(c)
}

// longestQuiet returns the connection that has waited for longest for a request, or for
// the rest of one; nil if all are busy.
func (cs *conns) longestQuiet() *countedConn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	first := cs.quiet.Front()
	if first == nil {
		return nil
	}
	c, _ := first.Value.(*countedConn)
	cs.takeOut(c)
	return c
}

// hurry gives every write, those under way included, no more than the patience
// of a stopping server: a client that stopped reading must not delay it.
func (cs *conns) hurry() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.hurrying = true
	for c := range cs.open {
		c.hurry()
	}
}

// silencePatience is how long a stopping server waits for the first request on a connection.
// One that was on its way when the server stopped is there by then.
const silencePatience = 500 * time.Millisecond

// silentConns are the connections on which no request came yet. Browsers open some in
// advance, and net/http would wait five seconds for each.
type silentConns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// noteState is an [http.Server.ConnState].
func (cs *silentConns) noteState(c net.Conn, state http.ConnState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if state != http.StateNew {
		delete(cs.open, c)
		return
	}
	if cs.open == nil {
		cs.open = map[net.Conn]struct{}{}
	}
	cs.open[c] = struct{}{}
}

func (cs *silentConns) closeAll() {
	cs.mu.Lock()
	open := slices.Collect(maps.Keys(cs.open))
	cs.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // nothing was said on it
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int64 { return s.metrics.connections.Load() }

// boundedListener bounds the connections. One over the bound takes the place of the one
// that has been quiet for longest: opening a connection needs no token, so connections
// that ask for nothing, or never finish asking, must not keep out those that do. If all of
// them are answered, it is turned away at once.
type boundedListener struct {
	net.Listener
	s *Server
	// raw says that the connection's bytes are HTTP, not TLS.
	raw bool
}

// Accept implements [net.Listener].
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.hasRoom() {
			if b, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
				_ = b.SetWriteBuffer(l.s.opt.SendBuffer) // a system that can't has its own bound
			}
			counted := &countedConn{Conn: c, s: l.s, raw: l.raw}
			l.s.conns.accept(counted)
			return counted, nil
		}
		l.s.metrics.connections.Add(-1)
		l.refuse(c)
	}
}

// hasRoom counts a connection, and closes another one for it if there are too many.
func (l *boundedListener) hasRoom() bool {
	if l.s.metrics.connections.Add(1) <= int64(l.s.opt.MaxConnections) {
		return true
	}
	quiet := l.s.conns.longestQuiet()
	if quiet == nil {
		return false
	}
	l.s.metrics.bounds.get("quiet_connections").Add(1)
	_ = quiet.Close() // what its client sees is that it ended
	return true
}

// refuse answers without reading: the request may never come. The answer fits into the
// buffer of a socket that was just opened, so the deadline is for what can't happen; a
// short one passes before the write on a busy machine, and the client learns nothing.
func (l *boundedListener) refuse(c net.Conn) {
	err := l.s.boundReached(fault.Unavailable, "connections", "too many connections are open; try again shortly")
	if l.raw {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(rawProblem(err))
	}
	_ = c.Close()
}

// countedConn counts a connection until it is closed, turns the plain-text
// answers that net/http gives before a handler runs into problems, and is
// impatient with its reader once the server stops.
type countedConn struct {
	net.Conn
	s    *Server
	raw  bool
	once sync.Once

	// These are under the lock of [conns]: the requests that are being answered, the place
	// among those that are quiet, and whether it is closed.
	answering int
	place     *list.Element
	closed    bool

	mu      sync.Mutex
	hurried bool
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.s.metrics.connections.Add(-1)
		c.s.conns.forget(c)
	})
	return c.Conn.Close()
}

// CloseWrite lets net/http end its side of the connection after an error.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hurry bounds the write that is under way, if there is one, and those to come.
func (c *countedConn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurried = true
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.s.conns.patience)) // one that is closed needs none
}

// refresh gives a write that begins after hurry its own time.
func (c *countedConn) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.s.conns.patience))
	}
}

// SetWriteDeadline implements [net.Conn].
func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := time.Now().Add(c.s.conns.patience); c.hurried && (t.IsZero() || t.After(most)) {
		t = most
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *countedConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Write implements [net.Conn].
func (c *countedConn) Write(p []byte) (int, error) {
	c.refresh()
	if err := c.bareError(p); err != nil {
		if _, err := c.Conn.Write(rawProblem(err)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// bareError recognises an answer that net/http wrote by itself. Over TLS there is
// one that isn't encrypted: to a client that doesn't speak TLS.
func (c *countedConn) bareError(p []byte) error {
	switch {
	case c.raw:
		return bareError(p)
	case bytes.HasPrefix(p, []byte("HTTP/1.0 400 ")):
		return fault.New(fault.InvalidParams, "the server speaks TLS: use https://")
	}
	return nil
}
