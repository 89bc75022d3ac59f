package main

import (
	"context"

	"agentd/channel/a2a"
	"agentd/command"
	"agentd/server"
	"agentd/workspace"
)

// a2aMounts are the addresses of the Agent2Agent protocol.
func (s *serving) a2aMounts(rt command.Runtime) []server.Mount {
	c := s.loaded.Config
	if !c.A2A.Enabled {
		return nil
	}
	peers, err := s.newA2A(rt)
	if err != nil {
		s.log.Error("other agents can't give work over A2A", "error", err)
		return nil
	}
	peers.Start(context.Background())
	s.closers = append(s.closers, func() error {
		peers.Close()
		return nil
	})
	return []server.Mount{
		{Prefix: a2a.CardPath, Public: true, Handler: peers.CardHandler()},
		{Prefix: a2a.RPCPath, Handler: peers.RPCHandler()},
		{Prefix: a2a.RESTPath, Handler: peers.RESTHandler()},
	}
}

func (s *serving) newA2A(rt command.Runtime) (*a2a.Server, error) {
	c := s.loaded.Config
	// The key that seals earlier contents of files; what is sealed here is bound to
	// its own purpose.
	key, err := workspace.LoadKey(c.Local())
	if err != nil {
		return nil, err
	}
	address := c.A2A.URL
	if address == "" {
		address = s.note.URL
	}
	o := a2a.Options{
		Runtime: rt, Caller: a2aCaller, PassOn: server.PassOn, Logger: s.log,
		Card: a2a.CardInfo{
			Name: c.A2A.Name, Description: c.A2A.Description, URL: address, Version: s.version, Extended: c.A2A.ExtendedCard,
		},
		Push: a2a.PushOptions{Key: key, AllowHosts: c.A2A.Push.AllowHosts},
	}
	s.fixtures.addToA2A(&o)
	return a2a.New(o)
}

// a2aCaller is who sent a request that the server authenticated.
func a2aCaller(ctx context.Context) (command.Caller, command.Role, bool) {
	caller, ok := server.CallerFrom(ctx)
	role, known := server.RoleFrom(ctx)
	return caller, role, ok && known
}
