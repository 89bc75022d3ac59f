package main

import (
	"context"
	"sync"
	"time"

	"agentd/channel/a2a"
	"agentd/command"
	"agentd/server"
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
	s.takenUp.setListener(peers.TakeUp)
	watch, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if s.others != nil {
		watching.Go(func() { s.watchNodes(watch, s.warnOfCards, func() { peers.TakeUp("") }) })
	}
	s.closers = append(s.closers, func() error {
		stop()
		watching.Wait()
		peers.Close()
		return nil
	})
	return []server.Mount{
		{Prefix: a2a.CardPath, Public: true, Handler: peers.CardHandler()},
		{Prefix: a2a.RPCPath, Handler: peers.RPCHandler(), Refuse: peers.RefuseRPC},
		{Prefix: a2a.RESTPath, Handler: peers.RESTHandler(), Refuse: peers.RefuseREST},
	}
}

func (s *serving) newA2A(rt command.Runtime) (*a2a.Server, error) {
	c := s.loaded.Config
	address := c.A2A.URL
	if address == "" {
		address = s.note.URL
	}
	o := a2a.Options{
		Runtime: rt, Caller: a2aCaller, Own: s.runtime.Port().Own, PassOn: server.PassOn, Logger: s.log,
		Card: a2a.CardInfo{
			Name: c.A2A.Name, Description: c.A2A.Description, URL: address, Version: s.version, Extended: c.A2A.ExtendedCard,
		},
		// The key that seals earlier contents of files; what is sealed here is bound to its
		// own purpose.
		Push: a2a.PushOptions{Key: s.wired.keys.own, OtherKeys: s.wired.keys.others, AllowHosts: c.A2A.Push.AllowHosts},
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

// warnOfCards says that other agents find the card of one node, where there are several.
func (s *serving) warnOfCards() {
	if s.loaded.Config.A2A.URL == "" {
		s.log.Warn("the agent card of each node names that node's own address, so other agents depend on it; "+
			"set a2a.url to the address that leads to all nodes, the same on each", "url", s.note.URL)
	}
}

// takenUp tells of sessions that this node took up, as soon as there is someone to tell.
type takenUp struct {
	mu   sync.Mutex
	told func(sessionID string)
}

// setListener names who is told. What was taken up before, it finds itself.
func (t *takenUp) setListener(who func(sessionID string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = who
}

func (t *takenUp) reportSession(id string) {
	t.mu.Lock()
	told := t.told
	t.mu.Unlock()
	if told != nil {
		told(id)
	}
}

// nodesEvery is how often it is looked which nodes are gone.
const nodesEvery = 2 * time.Second

// watchNodes calls met when there is another node for the first time, and gone whenever one
// that lived doesn't any more, until ctx ends. What such
// a node had still to tell concerns sessions with nothing left to do, which nothing else takes
// up.
func (s *serving) watchNodes(ctx context.Context, met, gone func()) {
	alive := map[string]bool{}
	for ctx.Err() == nil {
		if nodes, err := s.others.lookAtNodes(ctx); err == nil {
			now := map[string]bool{}
			for i := range nodes {
				if n := &nodes[i]; n.Alive && !n.Self {
					now[n.ID] = true
					delete(alive, n.ID)
				}
			}
			if len(alive) > 0 {
				gone()
			}
			alive = now
			if len(now) > 0 && met != nil {
				met()
				met = nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(nodesEvery):
		}
	}
}
