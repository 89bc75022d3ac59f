package agentd

import (
	"context"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/session"
	"agentd/state"
)

// turnOf returns the turn of the recording that a thread is at: that of the subagent
// whose thread it is, else the one that runs.
func (x *parties) turnOf(ctx context.Context, threadID string) string {
	x.p.mu.Lock()
	turn, known := x.threads[threadID]
	running := x.p.turn
	x.p.mu.Unlock()
	if known {
		return turn
	}
	if x.p.c.Parties == nil || len(x.p.c.Parties.Agents) == 0 || x.p.with.Live != nil {
		return running
	}
	var parent, call, id string
	if err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		of := func(a *state.Subagent) bool { return a.ThreadID == threadID }
		for _, list := range [][]*state.Subagent{s.Subagents.Open, s.Subagents.Recent} {
			if i := slices.IndexFunc(list, of); i >= 0 {
				parent, call, id = list[i].ParentThreadID, list[i].ToolCallID, list[i].SubagentID
			}
		}
		return nil
	}); err != nil || id == "" {
		return running
	}
	is := func(a evidence.CaseAgent) bool { return a.Spawn != nil && a.SubagentID == id }
	if call != "" {
		recorded := x.recordedCall(ctx, parent, call)
		is = func(a evidence.CaseAgent) bool { return a.Spawn == nil && a.ToolCallID == recorded }
	}
	i := slices.IndexFunc(x.p.c.Parties.Agents, is)
	if i < 0 {
		return event.NotApplicable // the recording has no such subagent
	}
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.threads[threadID] = x.p.c.Parties.Agents[i].TurnID
	return x.threads[threadID]
}

// spawnAll starts the subagents whose moment the test accepts, in their order.
func (x *parties) spawnAll(ctx context.Context, ok func(evidence.Moment) bool) error {
	for len(x.spawns) > 0 && ok(x.spawns[0].Spawn.When) {
		a := x.spawns[0]
		x.spawns = x.spawns[1:]
		if err := x.spawn(ctx, &a); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a subagent that was started from outside, under the id that it had.
func (x *parties) spawn(ctx context.Context, a *evidence.CaseAgent) error {
	w, parent := a.Spawn, ""
	if err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if p := s.Subagents.Find(w.ParentSubagentID); p != nil {
			parent = p.ThreadID
		} else if t := s.MainThread(); t != nil && w.ParentSubagentID == "" {
			parent = t.ThreadID
		}
		return nil
	}); err != nil {
		return err
	}
	x.p.mu.Lock()
	x.working[a.SubagentID] = true
	x.p.mu.Unlock()
	_, err := x.p.r.Do(ctx, command.Local(), &command.SpawnSubagent{
		SubagentID: a.SubagentID, SessionID: x.p.session, ThreadID: parent, TurnID: x.p.acts.turns[w.ParentTurnID],
		Role: w.Role, Nickname: w.Nickname, Model: w.Model, Input: w.Input, Isolation: w.Isolation,
	})
	return err
}

// saw follows which subagents work. It tells of answers, too: facts may be seen
// before [parties.Committed] is called.
func (x *parties) saw(e *event.Event) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.tell(e)
	switch e.Payload.(type) {
	case *event.SubagentSpawned:
		x.working[e.SubagentID] = true
	case *event.SubagentEnded:
		delete(x.working, e.SubagentID)
	}
}

// settle takes facts until every subagent has ended: one may work on when the turn
// that started it is over.
func (x *parties) settle(ctx context.Context, sub *session.Subscription) error {
	for x.p.with.Live == nil && x.busy() {
		events, err := x.p.acts.more(ctx, sub)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := x.p.take(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// busy reports whether a subagent works.
func (x *parties) busy() bool {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	return len(x.working) > 0
}
