package main

import (
	"context"
	"fmt"

	"agentd/cmd/agentd/internal/facts"
)

// unfinished takes up what a process that opened the data itself left in a session
// when it ended, and refuses to add a turn behind one that can't end here. What the
// turn before asks from now on has a greater sequence than the one it returns; 0
// says that its questions are for others to answer.
func unfinished(ctx context.Context, f facts.Source, sessionID string) (seen uint64, err error) {
	if f.Remote() || sessionID == "" {
		return 0, nil
	}
	// What is asked is looked at before the turn goes on: it may soon ask the next.
	if seen, err = facts.Sequence(ctx, f, sessionID); err != nil {
		return 0, err
	}
	t, err := facts.MainThread(ctx, f, sessionID)
	if err != nil {
		return 0, err
	}
	if len(t.PendingRequests) > 0 {
		return 0, fmt.Errorf("turn %s of session %s waits for an answer: \"agentd chat --session %s\" asks for it", t.ActiveTurnID, sessionID, sessionID)
	}
	if err := f.TakeUp(ctx, sessionID); err != nil {
		return 0, err
	}
	switch t, err = facts.MainThread(ctx, f, sessionID); {
	case err != nil:
		return 0, err
	case t.Block != nil && len(t.PendingRequests) == 0:
		return 0, &exitError{exitBlocked, fmt.Errorf("turn %s of session %s is blocked: %s; \"agentd chat --session %s\" lets it go on", t.ActiveTurnID, sessionID, t.Block.Reason, sessionID)}
	}
	return seen, nil
}
