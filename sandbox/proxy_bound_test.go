package sandbox

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// endlessListener has a connection for whoever asks.
type endlessListener struct{ net.Listener }

func (endlessListener) Accept() (net.Conn, error) {
	near, far := net.Pipe()
	_ = far.Close() // nobody is at the other end
	return near, nil
}

func (endlessListener) Close() error { return nil }

// TestBoundedListenerHoldsItsBound opens and closes connections at random, some twice.
func TestBoundedListenerHoldsItsBound(t *testing.T) {
	const most = 7
	l := newBoundedListener(endlessListener{}, most)
	r := rand.New(rand.NewPCG(1, 2))
	var open, closed []net.Conn
	for range 2000 {
		switch {
		case len(open) < most && r.IntN(2) == 0:
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		case len(open) > 0:
			i := r.IntN(len(open))
			_ = open[i].Close()
			closed = append(closed, open[i])
			open = append(open[:i], open[i+1:]...)
		}
		if len(closed) > 0 {
			_ = closed[r.IntN(len(closed))].Close() // gives nothing back twice
		}
		if len(l.slots) != len(open) {
			t.Fatalf("%d connections are open, and %d slots are taken", len(open), len(l.slots))
		}
	}
	for len(open) < most {
		c, _ := l.Accept()
		open = append(open, c)
	}
	next := make(chan error)
	accept := func() { _, err := l.Accept(); next <- err }
	go accept()
	_ = open[0].Close()
	if err := <-next; err != nil {
		t.Errorf("no connection is taken where one has ended: %v", err)
	}
	go accept()
	_ = l.Close()
	if err := <-next; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting goes on: %v", err)
	}
}

// TestProxyBoundsItsConnections: a command that holds as many connections as it can takes
// them from itself alone, and each that ends lets another in.
func TestProxyBoundsItsConnections(t *testing.T) {
	p, address := testProxy(t, nil, nil, "")
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET /local HTTP/1.1\r\nHost: x\r\n\r\n")
		return conn
	}
	served := func(conn net.Conn) {
		if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(status, " 400 ") {
			t.Fatalf("%q %v", status, err)
		}
	}
	var held []net.Conn
	for range maxProxyConnections {
		conn := dial()
		served(conn)
		held = append(held, conn)
	}
	waiting := []net.Conn{dial(), dial(), dial()}
	for i, conn := range waiting {
		_ = held[i].Close()
		served(conn)
	}
	dial()
	p.close() // with all slots taken and one connection waiting
}

func TestProxyEndsIdleTunnels(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p, address := testProxy(t, []string{"good.test"}, map[string]string{"good.test": "93.184.215.14"}, silent.Addr().String())
	p.idle = time.Millisecond
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
	if all, _ := io.ReadAll(conn); !strings.Contains(string(all), " 200 ") {
		t.Errorf("%q", all)
	}
}
