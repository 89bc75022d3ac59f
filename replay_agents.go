package agentd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/session"
	"agentd/state"
	"agentd/work"
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

// limits are as deep as subagents were below each other, and no bound for how many work
// at once.
func (x *parties) limits() work.Limits {
	out := work.Limits{Width: math.MaxInt}
	if x.p.c.Parties != nil {
		out.Depth = int(x.p.c.Parties.Generations)
	}
	return out
}

// spawnAll starts the subagents whose moment the test accepts, in their order, as long as
// what came before them is there.
func (x *parties) spawnAll(ctx context.Context, ok func(evidence.Moment) bool) error {
	for len(x.spawns) > 0 && ok(x.spawns[0].Spawn.When) && x.follows(x.spawns[0].Spawn) {
		a := x.spawns[0]
		x.spawns = x.spawns[1:]
		if err := x.spawn(ctx, &a); err != nil {
			return err
		}
	}
	return nil
}

// spawnNow starts the subagents whose moment the test accepts, and takes facts and does
// acts until what came before each of them is there.
func (x *parties) spawnNow(ctx context.Context, sub *session.Subscription, ok func(evidence.Moment) bool) error {
	for {
		if err := x.spawnAll(ctx, ok); err != nil || len(x.spawns) == 0 || !ok(x.spawns[0].Spawn.When) {
			return err
		}
		w, left := x.spawns[0].Spawn, len(x.spawns)
		if err := x.p.acts.idleUntil(ctx, sub, w.Acts); err != nil {
			return err
		}
		for len(x.spawns) == left && !x.follows(w) {
			if err := x.p.takeMore(ctx, sub); err != nil {
				return err
			}
		}
	}
}

// spawnBefore starts the subagents that were started from outside before a turn.
func (x *parties) spawnBefore(ctx context.Context, sub *session.Subscription, number int) error {
	if x.p.with.Live != nil {
		return nil
	}
	return x.spawnNow(ctx, sub, func(m evidence.Moment) bool { return m.Turns <= number })
}

// follows reports whether what came before a subagent is there: the acts, and the ends of
// others. Where the story is another one, that may never come.
func (x *parties) follows(w *evidence.CaseSpawn) bool {
	return !x.p.acts.faithful() || x.p.acts.has(w.Acts) && x.p.got.Reaches(&evidence.CaseAct{After: w.After})
}

// spawn starts a subagent that was started from outside, under the id that it had.
func (x *parties) spawn(ctx context.Context, a *evidence.CaseAgent) error {
	w := a.Spawn
	parent, err := x.parent(ctx, w)
	if err != nil {
		return err
	}
	x.p.mu.Lock()
	x.working[a.SubagentID] = ""
	x.p.mu.Unlock()
	_, err = x.p.r.Do(ctx, command.Local(), &command.SpawnSubagent{
		SubagentID: a.SubagentID, SessionID: x.p.session, ThreadID: parent, TurnID: x.p.acts.turns[w.ParentTurnID],
		Role: w.Role, Nickname: w.Nickname, Model: w.Model, Input: w.Input, Isolation: w.Isolation, Peer: a.Peer,
	})
	return err
}

// parent returns the thread whose child a subagent is.
func (x *parties) parent(ctx context.Context, w *evidence.CaseSpawn) (id string, err error) {
	if w.ParentSubagentID == "" {
		return x.p.acts.threadOf(ctx, w.Thread)
	}
	err = x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if p := s.Subagents.Find(w.ParentSubagentID); p != nil {
			id = p.ThreadID
		}
		return nil
	})
	return id, err
}

// saw follows which subagents work. It tells of answers, too: facts may be seen
// before [parties.Committed] is called.
func (x *parties) saw(e *event.Event) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.tell(e)
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		x.working[e.SubagentID] = p.ChildThreadID
		x.born(e, p)
	case *event.SubagentEnded:
		delete(x.working, e.SubagentID)
	case *event.SubagentStatus:
		if p.Status == "interrupted" { // which is no end: somebody could let it go on
			delete(x.working, e.SubagentID)
		}
	case *event.TurnSubmitted:
		if e.SubagentID != "" {
			x.working[e.TurnID] = e.ThreadID // one that was closed is told to have ended before its turn is
		}
	case *event.TurnCompleted, *event.TurnFailed:
		delete(x.working, e.TurnID)
	case *event.CompactionCompleted, *event.CompactionFailed:
		delete(x.working, e.ThreadID)
	}
}

// born notes which subagent of the recording one is. The caller holds the lock.
func (x *parties) born(e *event.Event, p *event.SubagentSpawned) {
	if x.p.c.Parties == nil {
		return
	}
	call := x.calls[e.ToolCallID]
	for _, a := range x.p.c.Parties.Agents {
		if a.Spawn != nil && a.SubagentID == e.SubagentID || a.Spawn == nil && call != "" && a.ToolCallID == call {
			x.agents[a.SubagentID] = child{e.SubagentID, p.ChildThreadID}
			if _, known := x.threads[p.ChildThreadID]; !known {
				x.threads[p.ChildThreadID] = a.TurnID
			}
		}
	}
}

// child is a subagent of the replay.
type child struct{ id, thread string }

// remaining starts the subagents that were started from outside after the last turn, or
// without one.
func (x *parties) remaining(ctx context.Context, sub *session.Subscription) error {
	if x.p.with.Live != nil {
		return nil
	}
	return x.spawnNow(ctx, sub, func(evidence.Moment) bool { return true })
}

// act does again what was done to a subagent.
func (x *parties) act(ctx context.Context, a *evidence.CaseAct) error {
	x.p.mu.Lock()
	of, ok := x.agents[a.SubagentID]
	if ok && (a.Kind == evidence.ActInput || a.Kind == evidence.ActResume) {
		if x.threads[of.thread] != a.TurnID { // it begins another turn with it
			x.threads[of.thread], x.working[of.id] = a.TurnID, of.thread
		}
	}
	if ok && a.Kind == evidence.ActCompact {
		x.threads[of.thread], x.working[of.thread] = a.TurnID, of.thread
	}
	x.p.mu.Unlock()
	var do command.Params
	switch {
	case !ok:
		return fmt.Errorf("%w: the replay has no subagent %s", errUnanswered, a.SubagentID)
	case a.Kind == evidence.ActInput:
		do = &command.SendSubagentInput{SubagentID: of.id, Input: a.Input}
	case a.Kind == evidence.ActResume:
		do = &command.ResumeSubagent{SubagentID: of.id}
	case a.Kind == evidence.ActClose:
		do = &command.CloseSubagent{SubagentID: of.id, Reason: a.Reason}
	case a.Kind == evidence.ActInterrupt:
		do = &command.InterruptTurn{SessionID: x.p.session, ThreadID: of.thread, Reason: a.Reason}
	case a.Kind == evidence.ActCompact:
		x.p.acts.compact(ctx, of.thread)
		return nil
	default:
		return fmt.Errorf("nobody does this to a subagent: %s", a.Kind)
	}
	_, err := x.p.r.Do(ctx, command.Local(), do)
	return err
}

// settle takes facts until every subagent has ended: one may work on when the turn
// that started it is over. Those that the recording has no end of are taken as far as it
// goes.
func (x *parties) settle(ctx context.Context, sub *session.Subscription) error {
	for x.p.with.Live == nil && x.busy() {
		if err := x.p.takeMore(ctx, sub); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether a subagent works.
func (x *parties) busy() bool {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if c := x.p.c.Parties; c == nil || len(c.Open) == 0 || !x.p.acts.faithful() {
		return len(x.working) > 0
	}
	for _, thread := range x.working {
		if !x.isOpen(x.threads[thread]) {
			return true
		}
	}
	return !x.p.got.Reaches(x.allOfAgents())
}

// isOpen reports whether a turn of a subagent is one that the recording has no end of.
func (x *parties) isOpen(turnID string) bool {
	return x.p.c.Parties != nil && slices.ContainsFunc(x.p.c.Parties.Open, func(t evidence.CaseOpenTurn) bool { return t.TurnID == turnID })
}

// allOfAgents is the place at which all was seen that the recording has of subagents.
func (x *parties) allOfAgents() *evidence.CaseAct {
	all := &evidence.CaseAct{After: map[string]int{}}
	for _, f := range x.p.c.Expected {
		if (strings.HasPrefix(f.Of, "agent ") || strings.Contains(f.Of, ", agent, ")) && !strings.HasSuffix(f.Of, "session") {
			all.After[f.Of]++
		}
	}
	return all
}
