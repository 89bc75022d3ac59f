package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"path/filepath"

	"agentd/cmd/agentd/internal/config"
	webconsole "agentd/console"
	"agentd/internal/netaddr"
	"agentd/server"
)

// Files in the directory of this machine.
const (
	adminTokenFile = "token"
	tokensFile     = "tokens.json"
)

// localTokenPrefix makes the token in the note one that redaction knows by its shape.
const localTokenPrefix = "agentd_local_"

// checkDoor refuses, before anything is opened, an address that others could
// listen in on, and loads the TLS configuration, if there is one.
func (s *serving) checkDoor() error {
	c := s.loaded.Config
	if cert, key := certificateFiles(c); cert != "" {
		var err error
		if s.cert, err = server.LoadCertificate(cert, key); err != nil {
			return &exitError{exitUsage, err}
		}
		s.tls = s.cert.Config()
		return nil
	}
	if c.Socket != "" || isLoopback(c.Listen) {
		return nil
	}
	if !c.Insecure {
		return usagef("%s is reachable from other machines, and without TLS anyone on the network can read tokens and facts; set tls.cert and tls.key, or add --insecure", c.Listen)
	}
	s.sayf("agentd: WARNING: %s is served without TLS: anyone on the network can read tokens and facts", c.Listen)
	s.log.Warn("listening beyond loopback without TLS", "listen", c.Listen)
	return nil
}

// certificateFiles are those of the certificate that clients are shown: the server's own, or
// else the one that it has as a node.
func certificateFiles(c *config.Config) (cert, key string) {
	if c.TLS.Cert != "" || !c.Database() {
		return c.TLS.Cert, c.TLS.Key
	}
	return c.Node.TLS.Cert, c.Node.TLS.Key
}

// nodeFiles are what this node and the others know each other by.
func (s *serving) nodeFiles() server.NodeFiles {
	n := &s.loaded.Config.Node.TLS
	return server.NodeFiles{CA: n.CA, Cert: n.Cert, Key: n.Key, Address: s.address}
}

// joinNodes makes this server known to the other nodes by a certificate, if it has one for
// that.
func (s *serving) joinNodes() (err error) {
	if s.loaded.Config.Node.TLS.CA == "" || !s.loaded.Config.Database() {
		return nil
	}
	if s.identity, err = server.LoadNodeIdentity(s.nodeFiles()); err != nil {
		return &exitError{exitUsage, err}
	}
	s.tls = s.identity.Config(s.tls)
	return nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && netaddr.LoopbackHost(host)
}

// openTokens opens what says who may come in, and prepares the note for the
// commands of this machine.
func (s *serving) openTokens() (server.Authenticator, error) {
	dir := s.loaded.Config.Local()
	admin, err := server.AdminToken(filepath.Join(dir, adminTokenFile), s.env["AGENTD_TOKEN"])
	if err != nil {
		return nil, err
	}
	if s.tokens, err = server.OpenTokens(filepath.Join(dir, tokensFile), &server.TokensOptions{Admin: admin}); err != nil {
		return nil, err
	}
	auth, login, err := s.withProvider(s.tokens)
	if err != nil {
		return nil, err
	}
	if files := webconsole.Handler(); files != nil {
		s.console = &server.Console{Files: files, Key: []byte(admin), Links: &storeLinks{store: s.store}, RedirectURL: s.loaded.Config.OIDC.Console.RedirectURL}
		if login != nil {
			s.console.Provider = login
		}
	}
	s.note = newServerNote(s.listener.Addr(), s.loaded.Config, localTokenPrefix+rand.Text()+rand.Text())
	if s.background {
		s.note.Background, s.note.Managed, s.note.With = true, s.managed, s.startingWith(s.asked, rand.Text())
		s.note.With.Before = s.replacing()
	}
	if s.cert != nil {
		s.note.CertSHA256 = certSum(s.cert.Leaf())
	}
	return &localAuth{next: auth, sum: sha256.Sum256([]byte(s.note.Token))}, nil
}

// localAuth also lets in who can read the note in the data directory: they can
// read the facts anyway.
type localAuth struct {
	next server.Authenticator
	sum  [sha256.Size]byte
}

// Authenticate implements [server.Authenticator].
func (l *localAuth) Authenticate(ctx context.Context, token string) (server.Identity, error) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], l.sum[:]) == 1 {
		return server.LocalIdentity(), nil
	}
	return l.next.Authenticate(ctx, token)
}
