package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/netaddr"
)

// proxy lets HTTP requests and CONNECT tunnels through to allowed hosts.
type proxy struct {
	server  *http.Server
	allowed []string
	idle    time.Duration // of a tunnel
	served  chan struct{}
	tunnels sync.WaitGroup
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	dial    func(ctx context.Context, address string) (net.Conn, error)

	mu      sync.Mutex
	open    map[net.Conn]bool // ends of tunnels; nil after close
	refused []string
}

// maxRefused bounds the list of refused hosts.
const maxRefused = 32

// newProxy serves on the listener until it is closed.
func newProxy(listener net.Listener, allowed []string) *proxy {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	p := &proxy{
		allowed: allowed, idle: tunnelIdle, served: make(chan struct{}), open: map[net.Conn]bool{},
		resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		dial: func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: proxyIdle}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(newBoundedListener(listener, maxProxyConnections))
	}()
	return p
}

// close ends every connection and waits for them.
func (p *proxy) close() {
	_ = p.server.Close()
	<-p.served
	p.mu.Lock()
	for conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
	p.mu.Unlock()
	p.tunnels.Wait()
}

// refusedHosts lists what was not let through, each once.
func (p *proxy) refusedHosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// ServeHTTP is the proxy's protocol.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, port := proxyTarget(r)
	if host == "" {
		http.Error(w, "agentd: this is a proxy: request an absolute URL or use CONNECT", http.StatusBadRequest)
		return
	}
	address, err := p.check(r.Context(), host, port)
	if err != nil {
		p.refuse(net.JoinHostPort(host, port))
		http.Error(w, "agentd: "+err.Error(), http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r, address)
		return
	}
	p.forward(w, r, address)
}

// proxyTarget returns the host and port that a request is for; no host if it isn't a
// request to a proxy.
func proxyTarget(r *http.Request) (host, port string) {
	target, port := r.Host, "443"
	if r.Method != http.MethodConnect {
		if r.URL.Scheme != "http" {
			return "", ""
		}
		target, port = r.URL.Host, "80"
	}
	if h, p, err := net.SplitHostPort(target); err == nil {
		return h, p
	}
	return strings.Trim(target, "[]"), port
}

func (p *proxy) refuse(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxRefused && !slices.Contains(p.refused, host) {
		p.refused = append(p.refused, host)
	}
}

// check returns the address to dial. The name is resolved here and the address
// that was judged is the one that is dialled, so that a name can't change its mind
// in between.
func (p *proxy) check(ctx context.Context, host, port string) (string, error) {
	if !Allowed(p.allowed, host, port) {
		return "", fmt.Errorf("%s is not an allowed host", net.JoinHostPort(host, port))
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(addr.String(), port), nil // named as what it is
	}
	addrs, err := p.resolve(ctx, host)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", host, err)
	}
	for _, addr := range addrs {
		if netaddr.Public(addr) || strings.EqualFold(host, "localhost") || Allowed(p.allowed, addr.Unmap().String(), port) {
			return net.JoinHostPort(addr.Unmap().String(), port), nil
		}
	}
	return "", fmt.Errorf("%s only has private addresses; to allow one, list the address itself", host)
}

// Allowed tells whether a list of hosts lets a host and port through. An entry is a
// name, "*." and a name for everything below it, or an address; with ":port" it is
// for that port alone, without it for 80 and 443. An address that isn't public is
// let through only where an entry gives that address, or "localhost".
func Allowed(list []string, host, port string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(list, func(entry string) bool {
		name, wanted := strings.ToLower(entry), ""
		if h, p, err := net.SplitHostPort(name); err == nil {
			name, wanted = h, p
		}
		name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
		if wanted != "" && wanted != port || wanted == "" && port != "80" && port != "443" {
			return false
		}
		if suffix, ok := strings.CutPrefix(name, "*."); ok {
			return strings.HasSuffix(host, "."+suffix)
		}
		return name == host
	})
}

// errClosed says that the proxy is closing.
var errClosed = errors.New("the proxy is closed")

// track remembers a connection, so that close can end it.
func (p *proxy) track(conns ...net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		for _, c := range conns {
			_ = c.Close()
		}
		return errClosed
	}
	for _, c := range conns {
		p.open[c] = true
	}
	p.tunnels.Add(1)
	return nil
}

func (p *proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
	p.mu.Unlock()
	p.tunnels.Done()
}

// connect tunnels bytes.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request, address string) {
	far, err := p.dial(r.Context(), address)
	if err != nil {
		http.Error(w, "agentd: "+err.Error(), http.StatusBadGateway)
		return
	}
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = far.Close()
		http.Error(w, "agentd: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if p.track(near, far) != nil {
		return
	}
	defer p.untrack(near, far)
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	quiet := time.AfterFunc(p.idle, func() {
		_, _ = near.Close(), far.Close() // both copies end
	})
	defer quiet.Stop()
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(far, watchedReader{buffered, quiet, p.idle})
		halfClose(far)
	})
	_, _ = io.Copy(near, watchedReader{far, quiet, p.idle})
	halfClose(near)
	up.Wait()
}

// halfClose says to the other end that nothing more comes.
func halfClose(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// hopHeaders belong to one connection and aren't passed on.
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// forward sends one plain request on. The transport serves this request alone:
// connections aren't kept.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request, address string) {
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, address) },
	}
	defer transport.CloseIdleConnections()
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, h := range hopHeaders {
		out.Header.Del(h)
	}
	resp, err := transport.RoundTrip(out)
	if err != nil {
		http.Error(w, "agentd: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close() // read to its end or given up
	for _, h := range hopHeaders {
		resp.Header.Del(h)
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
