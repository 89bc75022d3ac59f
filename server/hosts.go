package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"agentd/fault"
)

// hostList is the set of names by which the server may be addressed beside its
// own addresses: a name with a port, or a name alone for any port.
type hostList map[string]bool

func newHostList(names []string) hostList {
	l := hostList{}
	for _, n := range names {
		l[strings.ToLower(strings.TrimSpace(n))] = true
	}
	return l
}

// loopbackNames always lead to this machine, whatever a name server says.
var loopbackNames = map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}

// check refuses a request that a web page sent through a name of its own (DNS
// rebinding) or from another origin.
func (l hostList) check(r *http.Request) error {
	p, _ := r.Context().Value(linkKey{}).(*link)
	if p == nil {
		p = &link{} // a handler that has no connection, as in some tests
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			p.local = addressOf(a)
		}
	}
	if p.local.unix {
		// No browser reaches a Unix socket, and its clients have no name for it.
		return l.checkOrigin(r, p.local)
	}
	if r.Host == "" && !r.ProtoAtLeast(1, 1) && (r.URL.Path == healthPath || r.URL.Path == readyPath) {
		// No browser asks without a name: it is a plain check of a balancer.
		return l.checkOrigin(r, p.local)
	}
	if known := p.host.Load(); known == nil || *known != r.Host {
		if !l.ours(r.Host, p.local, schemeOf(r)) {
			return fault.New(fault.Forbidden, "the Host header names a host this server doesn't serve; add it to the allowed hosts")
		}
		host := strings.Clone(r.Host) // the request itself may go
		p.host.Store(&host)
	}
	return l.checkOrigin(r, p.local)
}

// link is what is known of a connection beside its requests.
type link struct {
	local address
	// conn is the connection as the listener counts it; nil if another one listens.
	conn *countedConn
	// host is a Host header that was found to name us.
	host atomic.Pointer[string]
}

type linkKey struct{}

// withLink gives the requests of a connection what is known of it.
func withLink(ctx context.Context, c net.Conn) context.Context {
	l := &link{local: addressOf(c.LocalAddr())}
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // as that of TLS
		c = secure.NetConn()
	}
	l.conn, _ = c.(*countedConn)
	return context.WithValue(ctx, linkKey{}, l)
}

func (l hostList) checkOrigin(r *http.Request, local address) error {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Path != "" || u.User != nil || !l.ours(u.Host, local, u.Scheme) {
		return fault.New(fault.Forbidden, "requests from pages of another origin are not allowed")
	}
	return nil
}

// address is where a request came in: the listener's side of its connection.
type address struct {
	ip   net.IP
	port string
	unix bool
}

func addressOf(a net.Addr) address {
	if a.Network() == "unix" {
		return address{unix: true}
	}
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return address{}
	}
	return address{ip: net.ParseIP(host), port: port}
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// ours reports whether a host, with or without a port, is this server.
func (l hostList) ours(host string, local address, scheme string) bool {
	host = strings.ToLower(host)
	name, port := splitHost(host, scheme)
	if name == "" {
		return false
	}
	if l[host] || l[name] || l[net.JoinHostPort(name, port)] {
		return true
	}
	if local.port != "" && port != local.port {
		return false
	}
	if loopbackNames[name] {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && local.ip != nil && ip.Equal(local.ip)
}

// splitHost returns a host's name, without brackets, and its port, which
// defaults to the scheme's.
func splitHost(host, scheme string) (name, port string) {
	port = "80"
	if scheme == "https" {
		port = "443"
	}
	if h, p, err := net.SplitHostPort(host); err == nil {
		return h, p
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1], port
	}
	if strings.Contains(host, ":") {
		return "", ""
	}
	return host, port
}
