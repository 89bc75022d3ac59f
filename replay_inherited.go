package agentd

import (
	"context"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// replayOrigin is the session that a case's session is a fork of.
const replayOrigin = "sess_replay_origin"

// create opens the session that the case is run in. One that went back behind its
// beginning was a fork, and is one again.
func (p *replaying) create(ctx context.Context) error {
	if len(p.c.Inherited) > 0 && p.with.Live == nil {
		return p.fork(ctx)
	}
	p.session = replaySession
	_, err := p.r.Do(ctx, command.Local(), &command.CreateSession{SessionID: p.session})
	return err
}

// fork opens a session with the inherited turns of the case, and forks it where they end.
func (p *replaying) fork(ctx context.Context) error {
	res, err := p.r.Do(ctx, command.Local(), &command.CreateSession{SessionID: replayOrigin})
	if err != nil {
		return err
	}
	threadID := res.(*command.CreateSessionResult).ThreadID
	if err := p.r.manager.Emit(ctx, replayOrigin, event.BySession|event.ByLoop, func(tx *session.Tx) error {
		for _, t := range p.c.Inherited {
			emitInherited(tx, threadID, t.TurnID, t.Changed)
		}
		return nil
	}); err != nil {
		return err
	}
	var end uint64
	if err := p.r.View(ctx, replayOrigin, func(s *state.Session) error {
		end = s.Sequence
		return nil
	}); err != nil {
		return err
	}
	if res, err = p.r.Do(ctx, command.Local(), &command.ForkThread{SessionID: replayOrigin, ThreadID: threadID, AtSequence: end}); err != nil {
		return err
	}
	p.session = res.(*command.ForkThreadResult).SessionID
	for _, t := range p.c.Inherited {
		p.acts.turns[t.TurnID] = t.TurnID
	}
	return nil
}

// emitInherited writes a turn that was over when the recording began: what it was is not
// known, only that it was there and which files it changed. It begins and ends in one
// step, so nobody takes it up.
func emitInherited(tx *session.Tx, threadID, turnID string, changed []string) {
	scope := event.Scope{ThreadID: threadID, TurnID: turnID, TaskID: tx.NewID(event.PrefixTask), RunID: tx.NewID(event.PrefixRun)}
	tx.Emit(event.Event{Type: event.TypeTurnSubmitted, Scope: scope, Payload: &event.TurnSubmitted{
		Status: "accepted", Source: "replay", Input: event.Raw(`[{"type":"text","text":"inherited"}]`), Preview: "inherited",
	}})
	tx.Emit(event.Event{Type: event.TypeTurnStarted, Scope: scope, Payload: &event.TurnStarted{Status: "running"}})
	if len(changed) > 0 {
		call := scope
		call.StepID, call.ToolCallID = tx.NewID(event.PrefixStep), tx.NewID(event.PrefixToolCall)
		result := &event.ToolResult{ToolName: "inherited", Status: "ok"}
		for _, path := range changed {
			result.ChangedFiles = append(result.ChangedFiles, event.FileChange{Path: path, Change: "modified"})
		}
		tx.Emit(event.Event{Type: event.TypeToolResult, Scope: call, Payload: result})
	}
	tx.Emit(event.Event{Type: event.TypeTurnCompleted, Scope: scope, Payload: &event.TurnCompleted{Status: "completed", Outcome: "completed"}})
}
