package acp

import (
	"context"
	"encoding/json"
	"slices"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
)

// follow tells the client what happens in a session until the session is closed.
func (s *session) follow(after uint64, pending []*action) {
	s.tell(&commandsUpdate{"available_commands_update", slashCommands()})
	for _, act := range pending {
		s.put(act)
	}
	err := s.pass(after)
	if s.ctx.Err() != nil {
		s.finish("", s.ctx.Err())
		return
	}
	// The client can open the session again once the runtime is back.
	s.a.opt.Logger.Error("a session can't be followed any more", "session", s.id, "error", err)
	s.a.mu.Lock()
	if s.a.sessions[s.id] == s {
		delete(s.a.sessions, s.id)
	}
	s.a.mu.Unlock()
	s.finish("", err)
}

// pass takes facts until the stream ends, and returns why.
func (s *session) pass(after uint64) error {
	stream, err := s.a.opt.Runtime.Subscribe(s.ctx, s.a.opt.Caller, s.id, after)
	if err != nil {
		return err
	}
	defer stream.Close()
	t := s.translator()
	t.own = s.isOwn
	for {
		facts, err := stream.Next(s.ctx)
		if err != nil {
			return err
		}
		for i := range facts {
			if e, err := event.Decode(facts[i].Data); err == nil { // one of a newer server is passed over
				s.fact(t, e)
			}
		}
	}
}

// translator returns one for the session's facts from here on.
func (s *session) translator() *translator {
	t := newTranslator(s.root, s.a.capabilities())
	t.earlier = s.earlier
	return t
}

func (s *session) isOwn(turnID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[turnID]
}

func (s *session) earlier(toolCallID string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, known := s.before[toolCallID]
	return text, known
}

// fact does what one fact calls for.
func (s *session) fact(t *translator, e *event.Event) {
	if e.ThreadID == "" || e.ThreadID == s.threadID {
		for _, u := range t.updates(e) {
			s.tell(u)
		}
	}
	switch p := e.Payload.(type) {
	case *event.ActionRequired:
		s.put(&action{id: e.ActionID, turnID: e.TurnID, toolCallID: e.ToolCallID, required: p})
	case *event.ActionResolved:
		s.withdraw(e.ActionID)
	case *event.PolicyChanged:
		s.modeChanged(p)
	case *event.ThreadUpdated:
		if p.Status == "blocked" && len(p.ActionIDs) == 0 && e.ThreadID == s.threadID {
			s.finish("", &rpcError{Code: codeInternal, Message: "the turn is blocked: " + p.Reason + "; /resume lets it go on", Data: object("code", p.Code)})
		}
	case *event.TurnCompleted, *event.TurnFailed:
		s.turnEnded(t, e)
	}
}

// modeChanged tells that the mode is another, whoever changed it.
func (s *session) modeChanged(p *event.PolicyChanged) {
	if p.Source != "session" || p.Mode == "" {
		return
	}
	s.mu.Lock()
	s.mode = p.Mode
	s.mu.Unlock()
	s.tell(&modeUpdate{"current_mode_update", p.Mode})
	if options, err := s.config(s.ctx); err == nil {
		s.tell(&configUpdate{"config_option_update", options})
	}
}

func (s *session) turnEnded(t *translator, e *event.Event) {
	s.mu.Lock()
	mine := s.prompt != nil && s.prompt.turnID == e.TurnID
	delete(s.own, e.TurnID)
	clear(s.before)
	s.mu.Unlock()
	if mine {
		s.finish(t.stopReason(e))
	}
}

func (s *session) tell(u update) { s.a.wire.notify("session/update", &notification{s.id, u}) }

// say shows a text that is no fact: the answer to a command, a question.
func (s *session) say(words string) { s.tell(&chunk{"agent_message_chunk", "", text(words)}) }

// replay tells the client everything that was said in a session, and in what it was
// forked from, without the turns that were taken back. It returns the last sequence
// and the actions that wait.
func (s *session) replay(ctx context.Context) (last uint64, pending []*action, err error) {
	rt, caller := s.a.opt.Runtime, s.a.opt.Caller
	chapters, err := channel.Chapters(ctx, rt, caller, s.id, s.threadID)
	if err != nil {
		return 0, nil, err
	}
	removed := map[string]bool{}
	for i := range chapters {
		c := &chapters[i]
		if c.Through, err = c.Read(ctx, rt, caller, func(e *event.Event) { takenBack(e, removed) }); err != nil {
			return 0, nil, err
		}
	}
	var open asked
	for i := range chapters {
		c, t := &chapters[i], s.translator()
		if err := s.replayRemoved(ctx, c); err != nil {
			return 0, nil, err
		}
		open = asked{} // what a source waited for is its own
		if last, err = c.Read(ctx, rt, caller, func(e *event.Event) {
			open.take(e)
			if removed[e.TurnID] || (e.ThreadID != "" && e.ThreadID != c.ThreadID) {
				return
			}
			for _, u := range t.updates(e) {
				s.tell(u)
			}
		}); err != nil {
			return 0, nil, err
		}
	}
	return last, open.list, nil
}

// replayRemoved says that a part of what was said is gone, as a notice to clients
// that take them.
func (s *session) replayRemoved(ctx context.Context, c *channel.Chapter) error {
	through, err := c.Removed(ctx, s.a.opt.Runtime, s.a.opt.Caller)
	if err != nil || through == 0 {
		return err
	}
	note := channel.RemovedNote(through)
	if client := s.a.capabilities(); client.notices() {
		s.tell(&noticeUpdate{"notice", "warning", note, ""})
	} else {
		s.say(note)
	}
	return nil
}

// takenBack notes the turns that a rollback removed.
func takenBack(e *event.Event, removed map[string]bool) {
	if p, ok := e.Payload.(*event.RollbackCompleted); ok {
		for _, id := range p.RemovedTurns {
			removed[id] = true
		}
	}
}

// asked are the actions that wait for an answer, oldest first.
type asked struct{ list []*action }

// take folds a fact.
func (w *asked) take(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ActionRequired:
		w.list = append(w.list, &action{id: e.ActionID, turnID: e.TurnID, toolCallID: e.ToolCallID, required: p})
	case *event.ActionResolved:
		w.list = slices.DeleteFunc(w.list, func(a *action) bool { return a.id == e.ActionID })
	}
}

// pending returns the actions of a session that wait for an answer.
func (s *session) pending(ctx context.Context) ([]*action, error) {
	list, err := do[command.ListActionsResult](ctx, s.a, &command.ListActions{SessionID: s.id, Status: "pending"})
	if err != nil {
		return nil, err
	}
	var out []*action
	for _, raw := range list.Actions {
		var r struct {
			command.ActionRecord
			Destructive bool `json:"destructive"`
		}
		if json.Unmarshal(raw, &r) != nil {
			continue
		}
		out = append(out, &action{id: r.ActionID, turnID: r.TurnID, toolCallID: r.ToolCallID, required: &event.ActionRequired{
			ActionType: r.ActionType, Prompt: r.Prompt, Schema: r.Schema, Decisions: r.Decisions, ToolName: r.ToolName,
			SafeArgs: r.SafeArgs, Reason: r.Reason, ExpiresAt: r.ExpiresAt, Destructive: r.Destructive,
		}})
	}
	return out, nil
}
