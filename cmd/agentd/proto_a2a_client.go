package main

import (
	"errors"

	"agentd/channel/a2a/peer"
	"agentd/cmd/agentd/internal/config"
	"agentd/server"
	"agentd/workspace"
)

// noPeers refuses to give work to other agents, where nobody would follow it.
type noPeers struct{}

// Check implements [work.Peers].
func (noPeers) Check(string) error {
	return errors.New("only a server gives work to other agents: agentd serve")
}

// Wake implements [work.Peers].
func (noPeers) Wake(string, string) {}

// peerTokens are the credentials for peers, which must not be told.
func (a *app) peerTokens(c *config.Config) []string {
	var out []string
	for _, p := range c.Peers {
		if v := a.env[p.TokenEnv]; v != "" {
			out = append(out, v)
		}
	}
	return out
}

// openPeers makes what gives work to other agents, before the runtime that wakes it.
func (s *serving) openPeers() error {
	c := s.loaded.Config
	opt := peer.Options{Logger: s.log}
	for _, p := range c.Peers {
		token := s.env[p.TokenEnv]
		opt.Peers = append(opt.Peers, peer.Peer{
			ID: p.ID, CardURL: p.CardURL, AllowPrivate: p.AllowPrivate, Hosts: p.Hosts, Delivery: p.Delivery,
			Token: func() string { return token },
		})
	}
	if c.A2A.URL != "" {
		key, err := workspace.LoadKey(c.Local())
		if err != nil {
			return err
		}
		opt.Push = peer.PushOptions{URL: c.A2A.URL, Key: key}
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

// pushMount is where peers tell of their tasks. Each task has a secret of its own.
func (s *serving) pushMount() server.Mount {
	return server.Mount{Prefix: peer.PushPath, Public: true, Handler: s.peers.PushHandler()}
}
