package sandbox

import (
	"io"
	"net"
	"sync"
	"time"
)

// Bounds of one proxy. Its clients are the processes of one command, and each connection
// costs agentd a descriptor, a tunnel two.
const (
	maxProxyConnections = 256
	proxyIdle           = time.Minute      // between two requests on a connection
	tunnelIdle          = 10 * time.Minute // without a byte in either direction
)

// boundedListener accepts no more connections than there are slots; what comes beyond
// waits in the kernel, at the cost of the command's own namespace.
type boundedListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func newBoundedListener(l net.Listener, most int) *boundedListener {
	return &boundedListener{Listener: l, slots: make(chan struct{}, most), done: make(chan struct{})}
}

// Accept waits for a slot, then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	case l.slots <- struct{}{}:
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, slots: l.slots}, nil
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// boundedConn gives its slot back when it is closed.
type boundedConn struct {
	net.Conn
	slots <-chan struct{}
	once  sync.Once
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}

// CloseWrite says that nothing more comes, while the other direction goes on.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// watchedReader starts a timer anew with each read.
type watchedReader struct {
	io.Reader
	timer *time.Timer
	idle  time.Duration
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.timer.Reset(r.idle)
	return n, err
}
