package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestAllowed(t *testing.T) {
	list := []string{"example.org", "*.example.com", "10.0.0.1:8080", "[::1]:9", "api.test:8443"}
	for _, c := range []struct {
		host, port string
		want       bool
	}{
		{"example.org", "443", true},
		{"EXAMPLE.org.", "80", true},
		{"example.org", "22", false},
		{"sub.example.org", "443", false},
		{"example.org.evil.test", "443", false},
		{"a.example.com", "443", true},
		{"a.b.example.com", "443", true},
		{"example.com", "443", false},
		{"badexample.com", "443", false},
		{"10.0.0.1", "8080", true},
		{"10.0.0.1", "80", false},
		{"::1", "9", true},
		{"api.test", "8443", true},
		{"api.test", "443", false},
		{"", "443", false},
	} {
		if got := Allowed(list, c.host, c.port); got != c.want {
			t.Errorf("%s:%s: %v", c.host, c.port, got)
		}
	}
}

// testProxy is a proxy whose names are resolved by a table and that dials one
// address whatever it is asked for.
func testProxy(t *testing.T, allowed []string, names map[string]string, target string) (*proxy, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(l, allowed)
	p.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		if a, ok := names[host]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		return nil, errors.New("no such host")
	}
	p.dial = func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target)
	}
	t.Cleanup(p.close)
	return p, l.Addr().String()
}

func TestProxyFilters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Connection") != "" {
			t.Error("a header of the proxy was passed on")
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Host, r.URL)
	}))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://")
	names := map[string]string{"good.test": "93.184.215.14", "private.test": "10.1.2.3", "meta.test": "169.254.169.254", "named.test": "10.0.0.9"}
	p, address := testProxy(t, []string{"good.test", "private.test", "meta.test", "named.test", "10.0.0.9", "gone.test"}, names, target)
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address}), DisableKeepAlives: true,
	}}
	for _, c := range []struct {
		url    string
		status int
	}{
		{"http://good.test/x", 200},
		{"http://named.test/x", 200},
		{"http://private.test/x", 403},
		{"http://meta.test/latest", 403},
		{"http://evil.test/x", 403},
		{"http://gone.test/x", 403},
		{"http://127.0.0.1:80/x", 403},
		{"http://good.test:8080/x", 403},
	} {
		resp, err := client.Get(c.url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.url, resp.StatusCode, body)
		}
		if c.status == 200 && !strings.HasSuffix(string(body), ".test /x") {
			t.Errorf("%s: %s", c.url, body)
		}
	}
	if got := p.refusedHosts(); !slices.Contains(got, "evil.test:80") || len(got) != 6 {
		t.Errorf("refused %v", got)
	}
}

func TestProxyTunnels(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = echo.Close(); <-served })
	_, address := testProxy(t, []string{"good.test"}, map[string]string{"good.test": "93.184.215.14"}, echo.Addr().String())

	ask := func(line string) (net.Conn, *bufio.Reader, string) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, line+"\r\n\r\n")
		r := bufio.NewReader(conn)
		status, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return conn, r, strings.TrimSpace(status)
	}
	conn, r, status := ask("CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443")
	if !strings.Contains(status, " 200 ") {
		t.Fatal(status)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, "ping\n")
	if got, _ := r.ReadString('\n'); got != "ping\n" {
		t.Errorf("%q", got)
	}
	for _, line := range []string{
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443",
		"CONNECT good.test:22 HTTP/1.1\r\nHost: good.test:22",
		// The Host header doesn't decide, the request line does.
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test:443",
	} {
		if _, _, status := ask(line); !strings.Contains(status, " 403 ") {
			t.Errorf("%s: %s", line, status)
		}
	}
	if _, _, status := ask("GET /local HTTP/1.1\r\nHost: good.test"); !strings.Contains(status, " 400 ") {
		t.Error(status)
	}
	// The proxy closes with the tunnel still open: the cleanup waits for it.
}
