package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"agentd/channel/a2a/peer"
	"agentd/cmd/agentd/internal/config"
	"agentd/server"
)

// noPeers refuses to give work to other agents, where nothing would follow it.
type noPeers struct{}

// Check implements [work.Peers].
func (noPeers) Check(string) error {
	return errors.New("only a server gives work to other agents: agentd serve")
}

// Wake implements [work.Peers].
func (noPeers) Wake(string, string) {}

// peerTokens are the credentials for peers, which must not be told. What can't be
// read is complained about where it is needed.
func (a *app) peerTokens(c *config.Config) []string {
	var out []string
	for i := range c.Peers {
		if v, err := a.peerToken(&c.Peers[i]); err == nil && v != "" {
			out = append(out, v)
		}
	}
	return out
}

// maxPeerToken bounds the content of a file that holds a token.
const maxPeerToken = 8 << 10

// peerToken reads the credential for a peer; empty if it has none.
func (a *app) peerToken(p *config.Peer) (string, error) {
	if p.TokenFile == "" {
		return a.env[p.TokenEnv], nil
	}
	b, err := os.ReadFile(p.TokenFile)
	if err != nil {
		return "", fmt.Errorf("peers: token of %s: %w", p.ID, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(token) > maxPeerToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("peers: %s holds no token", p.TokenFile)
	}
	return token, nil
}

// graceOf is how long calls of a client's tools wait for it; 0 in the file is not at
// all.
func graceOf(c *config.Config) time.Duration {
	if c.Channels.ToolGrace == 0 {
		return -1
	}
	return time.Duration(c.Channels.ToolGrace)
}

// peerSecrets are the credentials for peers as they are now, by the peer's id.
type peerSecrets struct {
	mu   sync.RWMutex
	byID map[string]string
}

func (s *peerSecrets) get(id string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

func (s *peerSecrets) set(id, token string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.byID[id] != token
	s.byID[id] = token
	return changed
}

// reloadPeerTokens reads the files with credentials again. One that can't be read
// changes nothing.
func (s *serving) reloadPeerTokens() {
	for i := range s.loaded.Config.Peers {
		p := &s.loaded.Config.Peers[i]
		if p.TokenFile == "" {
			continue
		}
		token, err := s.peerToken(p)
		switch {
		case err != nil:
			s.log.Error("the token of a peer could not be reloaded", "peer", p.ID, "error", err)
		case s.peerSecrets.set(p.ID, token):
			s.log.Info("the token of a peer was replaced", "peer", p.ID)
		}
	}
}

// onThisMachine reports whether an address names this machine and nothing else. An operator
// who writes it into the configuration means it; a name that resolves to it is not enough.
func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// openPeers makes what gives work to other agents, before the runtime that wakes it.
func (s *serving) openPeers() error {
	c := s.loaded.Config
	opt := peer.Options{Logger: s.log}
	s.peerSecrets = &peerSecrets{byID: map[string]string{}}
	for i, p := range c.Peers {
		token, err := s.peerToken(&c.Peers[i])
		if err != nil {
			return err
		}
		s.peerSecrets.set(p.ID, token)
		opt.Peers = append(opt.Peers, peer.Peer{
			ID: p.ID, CardURL: p.CardURL, AllowPrivate: p.AllowPrivate || onThisMachine(p.CardURL), Hosts: p.Hosts, Delivery: p.Delivery,
			Token: func() string { return s.peerSecrets.get(p.ID) },
		})
	}
	if c.A2A.URL != "" {
		opt.Push = peer.PushOptions{URL: c.A2A.URL, Key: s.wired.keys.own, OtherKeys: s.wired.keys.others, PassOn: s.passToOwner}
	}
	client, err := peer.New(opt)
	if err != nil {
		return err
	}
	s.peers, s.wired.options.Peers = client, client
	s.closers = append(s.closers, func() error {
		client.Close()
		return nil
	})
	return nil
}

// passToOwner has the node that owns a session answer a request to a mount, and reports whether
// another one does. A session that no node has comes here, and goes on here.
func (s *serving) passToOwner(ctx context.Context, sessionID string) bool {
	err := s.runtime.Port().Own(ctx, sessionID)
	return err != nil && server.PassOn(ctx, err)
}

// pushMount is where peers tell of their tasks. Each task has a secret of its own.
func (s *serving) pushMount() server.Mount {
	return server.Mount{Prefix: peer.PushPath, Public: true, Handler: s.peers.PushHandler()}
}
