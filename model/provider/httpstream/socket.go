package httpstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"
)

// dialFunc returns the function that connects to a provider.
func dialFunc() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			return socket{tcp}, err
		}
		return c, err
	}
}

// socket is a connection that takes the pieces of a [Body] from where they lie.
// Without it each request of a long thread copies the whole conversation once more,
// 32 KiB at a time, only to hand it to the kernel. Under TLS the pieces are copied
// anyway, when they are encrypted.
type socket struct{ *net.TCPConn }

// Write implements [io.Writer]. The header of a request whose body follows waits in
// the kernel for it, so that both travel together; if nothing comes the kernel sends
// it by itself after a while.
func (s socket) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(b, post) || !bytes.HasSuffix(b, headerEnd) || bytes.Contains(b, noBody) {
		return s.TCPConn.Write(b)
	}
	n := s.writeMore(b)
	if n == len(b) {
		return n, nil
	}
	rest, err := s.TCPConn.Write(b[n:])
	return n + rest, err
}

var post, headerEnd, noBody = []byte("POST "), []byte("\r\n\r\n"), []byte("\r\nContent-Length: 0\r\n")

// ReadFrom implements [io.ReaderFrom], which is how Go's HTTP client writes a
// request's body: a reader that is limited to the length that the header named.
func (s socket) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if body, ok := l.R.(*bodyReader); ok && body.unread() == l.N {
			n, err := body.WriteTo(s.TCPConn)
			l.N -= n
			return n, err
		}
	}
	return s.TCPConn.ReadFrom(r)
}
