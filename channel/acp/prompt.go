package acp

import (
	"context"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// promptCall is a prompt that waits for its turn to end.
type promptCall struct {
	turnID string
	done   chan outcome
	// submitted is closed when the turn is there, or could not be made; gone when
	// the prompt ended.
	submitted, gone chan struct{}
}

// outcome is how a prompt ended.
type outcome struct {
	stop string
	err  error
}

func (a *Agent) prompt(ctx context.Context, p *promptParams) (any, func(), error) {
	s, err := a.findSession(p.SessionID)
	if err != nil {
		return nil, nil, err
	}
	if run := slashOf(p.Prompt); run != nil {
		said, err := run(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		s.sendText(said)
		return &promptResult{"end_turn"}, nil, nil
	}
	input, err := inputOf(s.root, p.Prompt)
	if err != nil {
		return nil, nil, err
	}
	call, question, err := s.beginPrompt()
	if err != nil {
		return nil, nil, err
	}
	defer s.endPrompt(call)
	if accepting := channel.Accepting(ctx); question != nil {
		err = s.answerAction(accepting, question, input)
	} else {
		err = s.submitPrompt(accepting, call.turnID, input)
	}
	close(call.submitted)
	if err != nil {
		return nil, nil, err
	}
	out := s.waitForPrompt(ctx, call)
	if out.err != nil {
		return nil, nil, out.err
	}
	return &promptResult{out.stop}, nil, nil
}

// beginPrompt claims the session for a prompt. If a question is open, the prompt is its
// answer, and waits for the turn that asked.
func (s *session) beginPrompt() (*promptCall, *turnview.Action, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompt != nil {
		return nil, nil, errorf(fault.RPCInvalidRequest, "another prompt of this session is being answered; session/cancel stops it")
	}
	call := &promptCall{
		turnID: s.a.opt.IDs.New(event.PrefixTurn), done: make(chan outcome, 1),
		submitted: make(chan struct{}), gone: make(chan struct{}),
	}
	question := s.question
	if question != nil {
		call.turnID, s.question = question.TurnID, nil
	} else {
		s.own[call.turnID] = true
	}
	s.prompt = call
	return call, question, nil
}

func (s *session) endPrompt(call *promptCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt = nil
	close(call.gone)
}

// finishPrompt ends the prompt that waits, if one does.
func (s *session) finishPrompt(stop string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompt == nil {
		return
	}
	select {
	case s.prompt.done <- outcome{stop, err}:
	default: // it ended already
	}
}

// submitPrompt makes the prompt a turn. Another client's running turn comes
// first.
func (s *session) submitPrompt(ctx context.Context, turnID string, input event.Raw) error {
	s.mu.Lock()
	model := s.model
	s.mu.Unlock()
	p := &command.SubmitTurn{SessionID: s.id, TurnID: turnID, Input: input, Metadata: jsonObject("channel", "acp")}
	if model != "" {
		p.Options = &event.TurnOptions{Model: model}
	}
	_, err := runCommand[command.SubmitTurnResult](ctx, s.a, p)
	return err
}

// waitForPrompt waits for the end of a prompt. A request that the client cancels stops the
// turn, and ends with it.
func (s *session) waitForPrompt(ctx context.Context, call *promptCall) outcome {
	select {
	case out := <-call.done:
		return out
	case <-ctx.Done():
	}
	if s.ctx.Err() != nil {
		return outcome{err: s.ctx.Err()} // the client is gone; the turn goes on
	}
	if err := s.interruptTurn(s.ctx, "the client cancelled the request"); err != nil {
		return outcome{err: err}
	}
	select {
	case out := <-call.done:
		return out
	case <-s.ctx.Done():
		return outcome{err: s.ctx.Err()}
	}
}

// cancel stops what a session does. It is a notification: what goes wrong is
// logged.
func (a *Agent) cancel(ctx context.Context, sessionID string) {
	s, err := a.findSession(sessionID)
	if err == nil {
		err = s.interruptTurn(ctx, "the client cancelled the prompt")
	}
	if err != nil {
		a.opt.Logger.Warn("session/cancel", "session", sessionID, "error", err)
	}
}

// interruptTurn stops the prompt's turn, or the one that runs if no prompt waits.
func (s *session) interruptTurn(ctx context.Context, reason string) error {
	s.mu.Lock()
	call := s.prompt
	s.question = nil
	s.mu.Unlock()
	p := &command.InterruptTurn{SessionID: s.id, Reason: reason}
	if call != nil {
		p.TurnID = call.turnID
		select {
		case <-call.submitted: // before that there is nothing to stop
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := runCommand[command.InterruptTurnResult](ctx, s.a, p)
	return err
}

// awaitPrompt waits until the prompt that waits has ended.
func (s *session) awaitPrompt(ctx context.Context) {
	s.mu.Lock()
	call := s.prompt
	s.mu.Unlock()
	if call == nil {
		return
	}
	select {
	case <-call.gone:
	case <-ctx.Done():
	}
}
