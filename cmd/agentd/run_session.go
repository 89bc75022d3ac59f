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
		if s.Threads[i].ParentThreadID == "" {
			return &s.Threads[i], nil
		}
	}
	return nil, fmt.Errorf("session %s has no thread", sessionID)
}

// unfinished refuses to add a turn behind one that can't end.
func unfinished(ctx context.Context, f facts, sessionID string) error {
	if _, local := f.(*localFacts); !local || sessionID == "" {
		return nil
	}
	t, err := mainThread(ctx, f, sessionID)
	if err != nil {
		return err
	}
	if len(t.PendingRequests) > 0 {
		return fmt.Errorf("turn %s of session %s waits for an answer: \"agentd chat --session %s\" asks for it", t.ActiveTurnID, sessionID, sessionID)
	}
	return abandoned(f, t)
}

// abandoned refuses a thread whose turn nobody carries on: a process that opened
// the data itself ended in the middle of it.
func abandoned(f facts, t *state.ThreadReadModel) error {
	if _, local := f.(*localFacts); !local || t.ActiveTurnID == "" || len(t.PendingRequests) > 0 || t.Block != nil {
		return nil
	}
	return fmt.Errorf("turn %s of session %s was left unfinished by a process that ended; \"agentd serve\" takes it up", t.ActiveTurnID, t.SessionID)
}
