package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// authority is one that signs the certificates of nodes.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.key = newKey(t)
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nodes"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sign writes a certificate for an address or a name into a folder.
func (a *authority) sign(dir, host string, usages ...x509.ExtKeyUsage) (cert, key string) {
	a.t.Helper()
	own := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: usages,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &own.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "node.pem"), filepath.Join(dir, "node.key")
	writePEM(a.t, cert, "CERTIFICATE", der)
	writePEM(a.t, key, "EC PRIVATE KEY", private)
	return cert, key
}

var both = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// withCertificate returns the fleet with certificates of an authority in a folder.
func (f *fleet) withCertificate(a *authority, dir string) *fleet {
	f.t.Helper()
	cert, key := a.sign(dir, "127.0.0.1", both...)
	text, err := os.ReadFile(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	lease, rest, _ := strings.Cut(string(text), "\n")
	lease = strings.TrimSuffix(lease, "}") + ", tls: {ca: " + a.file + ", cert: " + cert + ", key: " + key + "}}"
	out := *f
	out.config = writeFile(f.t, dir, "node.yaml", lease+"\n"+rest)
	return &out
}

// trusting returns a client that takes any certificate: what nodes think of each other is
// what counts here.
func (p *process) trusting() *client.Client {
	p.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c, err := client.New(p.url, &client.Options{Token: p.token(), HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(transport.CloseIdleConnections)
	return c
}

// again gives a session another turn through a node.
func (p *process) again(sessionID string) error {
	p.t.Helper()
	_, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.trusting(), &command.SubmitTurn{SessionID: sessionID, Input: event.Raw(`"again"`)})
	return err
}

// TestNodesKnowEachOther: nodes with certificates of one authority pass requests on to each
// other, and to and from no one else.
func TestNodesKnowEachOther(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	f := newFleet(t, "1h", slow).quick()
	dirs := []string{f.dir(), f.dir(), f.dir()}
	a, b := f.withCertificate(ca, dirs[0]).node(dirs[0]), f.withCertificate(ca, dirs[1]).node(dirs[1])
	if !strings.HasPrefix(a.url, "https://") {
		t.Fatalf("a node with a certificate listens on %s", a.url)
	}
	made, err := client.Call[command.CreateSessionResult](t.Context(), a.trusting(), &command.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.again(made.SessionID); err != nil {
		t.Errorf("through another node: %v", err)
	}
	// One that others don't know gets nothing from them, and gives them nothing.
	c := f.withCertificate(stranger, dirs[2]).node(dirs[2])
	if err := c.again(made.SessionID); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("through a node of another authority: %v, want it to be unavailable", err)
	}
	if status := b.claimsToBeANode(); status != http.StatusForbidden {
		t.Errorf("a client that says that it is a node: %d, want 403", status)
	}
	// It gets a certificate of theirs, and is asked to read it.
	f.withCertificate(ca, dirs[2])
	if err := os.WriteFile(stranger.file, mustRead(t, ca.file), 0o600); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	c.wait("configuration reloaded")
	if err := c.again(made.SessionID); err != nil {
		t.Errorf("after the certificate was renewed: %v", err)
	}
}

// TestCertificatesForNodes says what is wrong with certificates before anything is served.
func TestCertificatesForNodes(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	f := newFleet(t, "1h", slow)
	for name, c := range map[string]struct {
		spoil func(dir string)
		says  string
	}{
		"another authority":  {func(dir string) { stranger.sign(dir, "127.0.0.1", both...) }, "has to be signed by"},
		"only for servers":   {func(dir string) { ca.sign(dir, "127.0.0.1", x509.ExtKeyUsageServerAuth) }, "for servers and clients"},
		"another address":    {func(dir string) { ca.sign(dir, "10.9.8.7", both...) }, "advertise names another address"},
		"no certificate":     {func(dir string) { writeFile(t, dir, "node.pem", "nothing") }, "node.pem"},
		"a key that is gone": {func(dir string) { _ = os.Remove(filepath.Join(dir, "node.key")) }, "node.key"},
	} {
		dir := f.dir()
		with := f.withCertificate(ca, dir)
		c.spoil(dir)
		out, errs, code := program(t, "serve", "--data", f.url, "--state-dir", dir, "--config", with.config, "--listen", "127.0.0.1:0")
		if code != exitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d\n%s%s\nwant it to say %q", name, code, out, errs, c.says)
		}
	}
}

// claimsToBeANode sends a request that says that a node passed it on.
func (p *process) claimsToBeANode() int {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/v1/commands/list_sessions", strings.NewReader("{}"))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Agentd-Forwarded", "1")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		p.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
