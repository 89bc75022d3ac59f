package main

import (
	"context"
	"errors"
	"fmt"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// lastSession returns the session that was used last.
func lastSession(ctx context.Context, f facts) (string, error) {
	var res command.ListSessionsResult
	if err := f.do(ctx, &command.ListSessions{}, &res); err != nil {
		return "", err
	}
	var last *command.SessionSummary
	for i := range res.Sessions {
		s := &res.Sessions[i]
		if s.SessionID != event.RuntimeSession && (last == nil || s.UpdatedAt.After(last.UpdatedAt)) {
			last = s
		}
	}
	if last == nil {
		return "", errors.New("there is no session yet")
	}
	return last.SessionID, nil
}

// mainThread returns the read model of a session's main thread.
func mainThread(ctx context.Context, f facts, sessionID string) (*state.ThreadReadModel, error) {
	none := 0
	var s struct {
		Threads []state.ThreadReadModel `json:"threads"`
	}
	if err := f.do(ctx, &command.GetSession{SessionID: sessionID, Limit: &none}, &s); err != nil {
		return nil, err
	}
	for i := range s.Threads {
		if s.Threads[i].ParentThreadID == "" || s.Threads[i].Role == "fork" { // the parent of a fork is in another session
			return &s.Threads[i], nil
		}
	}
	return nil, fmt.Errorf("session %s has no thread", sessionID)
}

// unfinished takes up what a process that opened the data itself left in a session
// when it ended, and refuses to add a turn behind one that can't end here. What the
// turn before asks from now on has a greater sequence than the one it returns; 0
// says that its questions are for others to answer.
func unfinished(ctx context.Context, f facts, sessionID string) (seen uint64, err error) {
	if _, local := f.(*localFacts); !local || sessionID == "" {
		return 0, nil
	}
	// What is asked is looked at before the turn goes on: it may soon ask the next.
	none := 0
	var s command.SessionRead
	if err := f.do(ctx, &command.GetSession{SessionID: sessionID, Limit: &none}, &s); err != nil {
		return 0, err
	}
	t, err := mainThread(ctx, f, sessionID)
	if err != nil {
		return 0, err
	}
	if len(t.PendingRequests) > 0 {
		return 0, fmt.Errorf("turn %s of session %s waits for an answer: \"agentd chat --session %s\" asks for it", t.ActiveTurnID, sessionID, sessionID)
	}
	if err := takeUp(ctx, f, sessionID); err != nil {
		return 0, err
	}
	switch t, err = mainThread(ctx, f, sessionID); {
	case err != nil:
		return 0, err
	case t.Block != nil && len(t.PendingRequests) == 0:
		return 0, &exitError{exitBlocked, fmt.Errorf("turn %s of session %s is blocked: %s; \"agentd chat --session %s\" lets it go on", t.ActiveTurnID, sessionID, t.Block.Reason, sessionID)}
	}
	return s.Sequence, nil
}

// takeUp has this process go on with what another left in a session; a server has
// done so when it started.
func takeUp(ctx context.Context, f facts, sessionID string) error {
	l, local := f.(*localFacts)
	if !local || l.runtime == nil {
		return nil
	}
	if err := l.runtime.TakeUp(ctx, sessionID); err != nil {
		return fmt.Errorf("session %s could not be taken up: %w", sessionID, err)
	}
	return nil
}
