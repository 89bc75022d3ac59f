package httpstream

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
)

// large is a body of several megabytes in pieces of all sizes.
func large() Body {
	var b Body
	for i := range 3000 {
		b.pieces = append(b.pieces, bytes.Repeat([]byte{'a' + byte(i%26)}, i), nil)
	}
	return b
}

func TestABodyArrivesWhole(t *testing.T) {
	want := large().Bytes()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, want) || r.ContentLength != int64(len(want)) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	}))
	defer srv.Close()
	c := clientOf(nil)
	defer c.CloseIdleConnections()
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, large().reader())
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(want))
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // it has none
	}
}

func TestABodyIsNotCopied(t *testing.T) {
	client, server := pair(t)
	defer client.Close()
	want := Body{pieces: [][]byte{bytes.Repeat([]byte("head"), 2000), bytes.Repeat([]byte("long"), 1<<18), []byte("tail")}}
	body := &bodyReader{pieces: want.pieces}
	head, rest := make([]byte, 5000), make([]byte, want.Len()-5000)
	if _, err := io.ReadFull(body, head); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan error)
	go func() {
		_, err := io.ReadFull(server, rest)
		arrived <- err
	}()
	l := &io.LimitedReader{R: body, N: int64(len(rest))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := io.Copy(socket{client}, l); err != nil || l.N != 0 {
		t.Errorf("%v, %d bytes are left", err, l.N)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<10 {
		t.Errorf("allocated %d bytes", n)
	}
	if err := <-arrived; err != nil || !bytes.Equal(slices.Concat(head, rest), want.Bytes()) {
		t.Errorf("not what was sent: %v", err)
	}
}

func TestABodyForAPeerThatLeft(t *testing.T) {
	client, server := pair(t)
	_ = server.Close() // the peer's end
	defer client.Close()
	body := large()
	l := &io.LimitedReader{R: body.reader(), N: body.Len()}
	if n, err := io.Copy(socket{client}, l); err == nil || n >= body.Len() {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

// pair returns both ends of a connection.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dialFunc()(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(socket).TCPConn, s.(*net.TCPConn)
}
