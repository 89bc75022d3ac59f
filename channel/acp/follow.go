package acp

import (
	"context"
	"encoding/json"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
)

// followFacts tells the client what happens in a session until the session is closed.
func (s *session) followFacts(after uint64, pending []turnview.Action) {
	s.sendUpdate(&commandsUpdate{"available_commands_update", slashCommands()})
	for i := range pending {
		s.askUserOnce(&pending[i])
	}
	err := s.passFacts(after)
	if s.ctx.Err() != nil {
		s.finishPrompt("", s.ctx.Err())
		return
	}
	// The client can open the session again once the runtime is back.
	s.a.opt.Logger.Error("a session can no longer be followed", "session", s.id, "error", err)
	s.a.mu.Lock()
	if s.a.sessions[s.id] == s {
		delete(s.a.sessions, s.id)
	}
	s.a.mu.Unlock()
	s.finishPrompt("", err)
}

// passFacts takes facts until the stream ends, and returns why.
func (s *session) passFacts(after uint64) error {
	stream, err := s.a.opt.Runtime.Subscribe(s.ctx, s.a.opt.Caller, s.id, after)
	if err != nil {
		return err
	}
	defer stream.Close()
	t := s.translator(s.threadID)
	t.own = s.isOwn
	for {
		facts, err := stream.Next(s.ctx)
		if err != nil {
			return err
		}
		for i := range facts {
			if e, err := event.Decode(facts[i].Data); err == nil { // one of a newer server is passed over
				s.handleFact(t, e)
			}
		}
	}
}

// translator returns one for the facts of a thread from here on.
func (s *session) translator(threadID string) *translator {
	return &translator{
		root: s.root, client: s.a.capabilities(), view: turnview.View{ThreadID: threadID},
		own: func(string) bool { return false }, earlier: s.earlier,
	}
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

// handleFact does what one fact calls for.
func (s *session) handleFact(t *translator, e *event.Event) {
	updates, changes := t.updates(e)
	for _, u := range updates {
		s.sendUpdate(u)
	}
	for _, c := range changes {
		switch c := c.(type) {
		case turnview.ActionAsked:
			s.askUserOnce(&c.Action)
		case turnview.ActionClosed:
			s.withdrawQuestion(c.ActionID)
		case turnview.ModeSet:
			s.modeChanged(c.Mode)
		case turnview.BlockChanged:
			if b := c.Blocked; b != nil {
				s.finishPrompt("", &rpcError{Code: codeInternal, Message: b.Explain("/resume"), Data: jsonObject("code", b.Code)})
			}
		case turnview.Ended:
			s.turnEnded(t, e.TurnID)
		}
	}
}

// modeChanged announces a new mode, whichever client set it.
func (s *session) modeChanged(mode string) {
	s.mu.Lock()
	s.mode = mode
	s.mu.Unlock()
	s.sendUpdate(&modeUpdate{"current_mode_update", mode})
	if options, err := s.configOptions(s.ctx); err == nil {
		s.sendUpdate(&configUpdate{"config_option_update", options})
	}
}

func (s *session) turnEnded(t *translator, turnID string) {
	s.mu.Lock()
	mine := s.prompt != nil && s.prompt.turnID == turnID
	delete(s.own, turnID)
	clear(s.before)
	s.mu.Unlock()
	if mine {
		s.finishPrompt(t.stopReason())
	}
}

func (s *session) sendUpdate(u update) { s.a.wire.notify("session/update", &notification{s.id, u}) }

// sendText shows a text that is no fact: the answer to a command, a question.
func (s *session) sendText(words string) {
	s.sendUpdate(&chunk{"agent_message_chunk", "", textContent(words)})
}

// sendHistory tells the client everything that was said in a session, and in what it was
// forked from, without the turns that were taken back. It returns the last sequence
// and the actions that wait.
func (s *session) sendHistory(ctx context.Context) (last uint64, pending []turnview.Action, err error) {
	rt, caller := s.a.opt.Runtime, s.a.opt.Caller
	segments, err := channel.HistorySegments(ctx, rt, caller, s.id, s.threadID)
	if err != nil {
		return 0, nil, err
	}
	removed := map[string]bool{}
	for i := range segments {
		c := &segments[i]
		if c.Through, err = c.Read(ctx, rt, caller, func(e *event.Event) { takenBack(e, removed) }); err != nil {
			return 0, nil, err
		}
	}
	for i := range segments {
		c := &segments[i]
		t := s.translator(c.ThreadID)
		if err := s.sendRemovedNotice(ctx, c); err != nil {
			return 0, nil, err
		}
		if last, err = c.Read(ctx, rt, caller, func(e *event.Event) {
			updates, _ := t.updates(e)
			if removed[e.TurnID] {
				return
			}
			for _, u := range updates {
				s.sendUpdate(u)
			}
		}); err != nil {
			return 0, nil, err
		}
		pending = t.view.Actions // what a source waited for is its own
	}
	return last, pending, nil
}

// sendRemovedNotice says that a part of what was said is gone, as a notice to clients
// that take them.
func (s *session) sendRemovedNotice(ctx context.Context, c *channel.HistorySegment) error {
	through, err := c.Removed(ctx, s.a.opt.Runtime, s.a.opt.Caller)
	if err != nil || through == 0 {
		return err
	}
	note := channel.RemovedNote(through)
	if client := s.a.capabilities(); client.notices() {
		s.sendUpdate(&noticeUpdate{"notice", "warning", note, ""})
	} else {
		s.sendText(note)
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

// pendingActions returns the actions of a session that wait for an answer.
func (s *session) pendingActions(ctx context.Context) ([]turnview.Action, error) {
	var out []turnview.Action
	p := &command.ListActions{SessionID: s.id, Status: "pending"}
	err := command.EachPage(p, func() (string, error) {
		list, err := runCommand[command.ListActionsResult](ctx, s.a, p)
		if err != nil {
			return "", err
		}
		for _, raw := range list.Actions {
			var act turnview.Action
			if json.Unmarshal(raw, &act) == nil {
				out = append(out, act)
			}
		}
		return list.NextCursor, nil
	})
	return out, err
}
