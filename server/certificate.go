package server

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Certificate is what a server shows to its clients. It can be renewed while the
// server runs: connections that are open keep what they were opened with.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads a certificate chain and its key.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{}
	if err := c.Renew(certFile, keyFile); err != nil {
		return nil, err
	}
	return c, nil
}

// Renew reads the files again and shows what they hold to every connection that is
// opened from then on. Files that can't be used change nothing.
func (c *Certificate) Renew(certFile, keyFile string) error {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("server: TLS: %s: %w", certFile, err)
	}
	c.current.Store(&pair)
	return nil
}

// Leaf returns the server's own certificate, as DER.
func (c *Certificate) Leaf() []byte { return c.current.Load().Certificate[0] }

// Config returns a configuration that always shows the newest certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
		MinVersion:     tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
}
