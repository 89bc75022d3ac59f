package session

import (
	"context"
	"errors"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// TaskSession returns the session that a task is in; the error is a fault of kind
// NotFound if there is no such task.
func (m *Manager) TaskSession(ctx context.Context, taskID string) (string, error) {
	v, err := m.opt.Store.Get(ctx, kindTask, taskID)
	if errors.Is(err, store.ErrNotFound) {
		return "", fault.New(fault.NotFound, "there is no task %s", taskID)
	}
	if err != nil {
		return "", storeFault(err)
	}
	return string(v), nil
}

// TaskSession is [Manager.TaskSession] within a decision: it sees the tasks that
// the session's decisions under way create, and returns "" for one that isn't there.
func (tx *Tx) TaskSession(taskID string) (string, error) {
	v, _, err := tx.Lookup(kindTask, taskID)
	if err != nil {
		return "", storeFault(err)
	}
	return string(v), nil
}

// ClaimID binds an id that a caller chose to a value, for all sessions at once: if
// the id is taken none of the decision's facts are written and the error is
// store.ErrExists.
func (tx *Tx) ClaimID(noun, id string, value []byte) { tx.Claim(kindClaim, noun+"/"+id, value) }

// ClaimedID returns the value that an id was claimed with, or nil.
func (m *Manager) ClaimedID(ctx context.Context, noun, id string) ([]byte, error) {
	v, err := m.opt.Store.Get(ctx, kindClaim, noun+"/"+id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storeFault(err)
	}
	return v, nil
}

// CancelQueued ends a turn that waits in a thread's queue, on behalf of an actor.
// One that doesn't wait there is left alone.
func (tx *Tx) CancelQueued(by *event.Actor, t *state.Thread, turnID, reason string) {
	_, _ = requestOf(tx, by).cancelQueued(tx, t, turnID, reason) // what it refuses is not there
}
