package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/internal/wire"
	"agentd/server"
)

// certificate writes a certificate for 127.0.0.1 and its key, and returns what a
// client has to trust.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return certFile, keyFile, roots
}

func TestTLS(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	cert, err := server.LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, func(o *server.Options) { o.TLS = cert.Config() })
	r.base = "https://" + r.addr
	r.fake.open("s", "a")
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}}
			defer r.client.CloseIdleConnections()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, frames := r.stream(ctx, "/v1/sessions/s/events", "client-token")
			defer res.Body.Close()
			if res.Proto != name {
				t.Errorf("the protocol is %s", res.Proto)
			}
			if f, err := frames.Next(); err != nil || f.ID != "1" {
				t.Errorf("%+v, %v", f, err)
			}
			if a := r.sendRequest(r.request("POST", "/v1/commands/list_sessions", "{}")); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer r.client.CloseIdleConnections()
	c := r.dial(t.Context(), "client-token")
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`)
	checkRPC(t, "over TLS", wsRead(t, c), 0, "1")
	_ = c.Close(websocket.StatusNormalClosure, "")
}

// TestACertificateIsRenewed: connections that are opened from then on get the new
// one, those that are open go on, and files that can't be used change nothing.
func TestACertificateIsRenewed(t *testing.T) {
	certFile, keyFile, first := certificate(t)
	cert, err := server.LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, func(o *server.Options) { o.TLS = cert.Config() })
	r.fake.open("s", "a")
	r.base = "https://" + r.addr
	ask := func(roots *x509.CertPool) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
		defer c.CloseIdleConnections()
		res, err := c.Get(r.base + "/healthz")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: first}}}
	defer r.client.CloseIdleConnections()
	res, frames := r.stream(t.Context(), "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	if err := cert.Renew(certFile, keyFile); err != nil {
		t.Errorf("the same files: %v", err)
	}
	if err := cert.Renew(certFile, certFile); err == nil {
		t.Error("a key that is none was taken")
	}
	if err := ask(first); err != nil {
		t.Errorf("with the first certificate: %v", err)
	}
	nextCert, nextKey, next := certificate(t)
	if err := cert.Renew(nextCert, nextKey); err != nil {
		t.Fatal(err)
	}
	if err := ask(next); err != nil {
		t.Errorf("with the next certificate: %v", err)
	}
	if err := ask(first); err == nil {
		t.Error("the first certificate is still shown")
	}
	r.fake.deltas("s", 1)
	for want := range 2 {
		if f, err := frames.Next(); err != nil || f.ID != strconv.Itoa(want+1) {
			t.Fatalf("the open stream: %+v, %v", f, err)
		}
	}
}

func TestTheStreamIsWhatTheCodecWrites(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, _ := r.stream(ctx, "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	want := string(wire.AppendSSE(nil, &wire.SSEFrame{ID: "1", Data: r.fake.sessions["s"].events[0].Data}))
	buf := make([]byte, len(want))
	for n := 0; n < len(buf); {
		m, err := res.Body.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(buf) != want {
		t.Errorf("got %q, want %q", buf, want)
	}
}

// TestPlainHTTPToTLS: a client that forgot https is told so, like of every mistake.
func TestPlainHTTPToTLS(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	cert, err := server.LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, func(o *server.Options) { o.TLS = cert.Config() })
	a := r.getPath("/healthz")
	if p := a.problem(t); a.status != 400 || p.Code != "invalid_params" || !strings.Contains(p.Detail, "https://") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
