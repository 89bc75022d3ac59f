package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"agentd/fault"
)

// nodeServerName is the name that a node asks for when it connects to another one. By it a
// server knows that it has to show the certificate for nodes, and to ask for one: other
// clients are shown the server's own and are asked for none.
const nodeServerName = "nodes.agentd.internal"

// NodeIdentity is what a node shows to the others, and by what it knows them. It can be
// renewed while the server runs.
type NodeIdentity struct {
	current atomic.Pointer[nodePair]
}

type nodePair struct {
	roots *x509.CertPool
	cert  tls.Certificate
}

// NodeFiles are the files of a [NodeIdentity], in PEM: the authority that signs the
// certificates of all nodes, and the certificate of this one with its key.
type NodeFiles struct {
	CA, Cert, Key string
	// Address is where other nodes reach this one; the certificate has to be for it.
	Address string
}

// LoadNodeIdentity reads the files and checks that they fit together.
func LoadNodeIdentity(files NodeFiles) (*NodeIdentity, error) {
	n := &NodeIdentity{}
	if err := n.Renew(files); err != nil {
		return nil, err
	}
	return n, nil
}

// Renew reads the files again, for connections from then on. Files that can't be used change
// nothing.
func (n *NodeIdentity) Renew(files NodeFiles) error {
	pair, err := loadNodePair(files)
	if err != nil {
		return fmt.Errorf("server: TLS between nodes: %w", err)
	}
	n.current.Store(pair)
	return nil
}

func loadNodePair(files NodeFiles) (*nodePair, error) {
	authority, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, err
	}
	p := &nodePair{roots: x509.NewCertPool()}
	if !p.roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate in PEM", files.CA)
	}
	if p.cert, err = tls.LoadX509KeyPair(files.Cert, files.Key); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Cert, err)
	}
	leaf, err := x509.ParseCertificate(p.cert.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Cert, err)
	}
	between := x509.NewCertPool()
	for _, der := range p.cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: p.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return nil, fmt.Errorf("other nodes would not take %s, which has to be signed by %s for servers and clients: %w", files.Cert, files.CA, err)
		}
	}
	if u, err := url.Parse(files.Address); err == nil && u.Hostname() != "" {
		if err := leaf.VerifyHostname(u.Hostname()); err != nil {
			return nil, fmt.Errorf("other nodes reach this one at %s, and %s is not for it: %w; advertise names another address", files.Address, files.Cert, err)
		}
	}
	return p, nil
}

// Config returns a server's configuration that answers other nodes with this identity and
// takes only nodes under it, and everyone else as base does.
func (n *NodeIdentity) Config(base *tls.Config) *tls.Config {
	out := base.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName != nodeServerName {
			return nil, nil //nolint:nilnil // the configuration at hand serves it
		}
		p := n.current.Load()
		return &tls.Config{
			Certificates: []tls.Certificate{p.cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.roots,
			MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		}, nil
	}
	return out
}

// dial connects to another node and makes sure that it is one.
func (n *NodeIdentity) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p := n.current.Load()
	conn := tls.Client(raw, &tls.Config{
		ServerName: nodeServerName, Certificates: []tls.Certificate{p.cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // the name is not the host's; VerifyConnection checks for the host
		VerifyConnection:   func(c tls.ConnectionState) error { return verifyNode(c, p.roots, host) },
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, notDialled(network, fmt.Errorf("server: TLS with the node at %s: %w; all nodes need certificates of the same node.tls.ca", addr, err))
	}
	return conn, nil
}

// notDialled says that no connection came about, and so that nothing was sent; see unreached.
func notDialled(network string, err error) error {
	return &net.OpError{Op: "dial", Net: network, Err: err}
}

// verifyNode checks that a certificate is that of the node at a host.
func verifyNode(c tls.ConnectionState, roots *x509.CertPool, host string) error {
	if len(c.PeerCertificates) == 0 {
		return errors.New("it shows no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range c.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host})
	return err
}

// nodeDialWithin is how long a connection to another node may take to come about, TLS
// included, if it isn't given up sooner by the node's silence.
const nodeDialWithin = 10 * time.Second

// newNodeClient returns what talks to the other nodes: directly, whatever proxy leads out of
// the network, and under the identity if there is one.
func newNodeClient(opt *Options) *http.Client {
	identity := opt.Nodes
	between := http.DefaultTransport.(*http.Transport).Clone()
	between.Proxy = nil
	within := min(nodeDialWithin, opt.NodeSilence)
	between.DialContext = (&net.Dialer{Timeout: within}).DialContext
	between.TLSHandshakeTimeout = within
	between.DisableCompression = true // an answer is compressed once, for the client
	if identity != nil {
		between.ForceAttemptHTTP2 = false
		between.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, within) // no other bound holds here
			defer cancel()
			return identity.dial(ctx, network, addr)
		}
		between.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
			return nil, notDialled(network, fmt.Errorf("server: the node at %s doesn't use TLS: give it node.tls as well, or an https address to advertise", addr))
		}
	}
	link := &nodeLink{base: between, alive: opt.NodeAlive, silence: opt.NodeSilence}
	return &http.Client{Transport: link, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token goes to the node and nowhere else
	}}
}

// checkForwarded refuses a request that says that a node passed it on and that didn't come
// from one.
func (s *Server) checkForwarded(r *http.Request) error {
	if s.opt.Nodes == nil || r.Header.Get(forwardedHeader) == "" {
		return nil
	}
	if c := r.TLS; c != nil && c.ServerName == nodeServerName && len(c.VerifiedChains) > 0 {
		return nil
	}
	return fault.New(fault.Forbidden, "%s is for requests of other nodes, and this one didn't come with a node's certificate", forwardedHeader)
}
