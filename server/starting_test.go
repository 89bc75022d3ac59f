package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/server"
)

// TestListenerIsHandedOver: while a node that starts hands its listener over to the server,
// every client gets an answer, of the one or the other, in the clear and with TLS.
func TestListenerIsHandedOver(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	t.Run("in the clear", func(t *testing.T) { handOver(t, http.DefaultClient, "http://", nil) })
	t.Run("TLS", func(t *testing.T) { handOver(t, certified.Client(), "https://", certified.TLS) })
}

func handOver(t *testing.T, client *http.Client, scheme string, secure *tls.Config) {
	t.Helper()
	l, err := server.Listen(t.Context(), "127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	free := server.AnswerStarting(l, secure)
	var clients sync.WaitGroup
	var early, late atomic.Int64
	const each = 200
	for range 16 {
		clients.Go(func() {
			for late.Load() < each && !t.Failed() {
				res, err := client.Post(scheme+l.Addr().String(), "", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close()
				switch {
				case res.StatusCode == http.StatusOK:
					late.Add(1)
				case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "1":
					early.Add(1)
				default:
					t.Errorf("%d %v", res.StatusCode, res.Header)
				}
			}
		})
	}
	for early.Load() < each && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	free()
	serveAll(t, l, secure)
	clients.Wait()
}

// serveAll answers every request on a listener with 200, until the test ends.
func serveAll(t *testing.T, l net.Listener, secure *tls.Config) {
	t.Helper()
	ready := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), TLSConfig: secure, ReadHeaderTimeout: time.Minute}
	go func() {
		if secure != nil {
			_ = ready.ServeTLS(l, "", "") // it ends with the test
		} else {
			_ = ready.Serve(l)
		}
	}()
	t.Cleanup(func() { _ = ready.Close() })
}

// TestConnectionsAreBoundedWhileANodeStarts: who opens more connections than a node that starts
// has room for finds them closed, and those of others are answered again once there is room.
func TestConnectionsAreBoundedWhileANodeStarts(t *testing.T) {
	l, err := server.Listen(t.Context(), "127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	free := server.AnswerStarting(l, nil)
	defer free()
	var open []net.Conn
	closeAll := sync.OnceFunc(func() {
		for _, c := range open {
			_ = c.Close()
		}
	})
	defer closeAll()
	for refused := false; !refused; {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if len(open) <= 1024 {
			continue
		}
		if len(open) > 4096 {
			t.Fatal("no connection was refused")
		}
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the others stay open for seconds
		_, err = c.Read(make([]byte, 1))
		refused = errors.Is(err, io.EOF)
	}
	closeAll()
	for {
		res, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			continue // the server hasn't seen all of them end yet
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("the answer is %d", res.StatusCode)
		}
		return
	}
}
