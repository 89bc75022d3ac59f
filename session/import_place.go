package session

import (
	"context"
	"fmt"

	"agentd/event"
	"agentd/state"
)

// noteForeignPlace notes whose fact gave the session its place.
func (c *ImportCheck) noteForeignPlace(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		c.placedBy = e.RuntimeID
	case *event.SessionUpdated:
		if p.Place != nil {
			c.placedBy = e.RuntimeID
		}
	}
}

// LeaveForeignPlace takes from a session that was imported the place that it had where it
// comes from: no node here reaches that folder, whatever the nodes are called. From then on
// it goes on anywhere, and has a place again once a tool works with files. A session that was
// given another place since is left as it is.
func (m *Manager) LeaveForeignPlace(ctx context.Context, sessionID string, foreign *event.WorkspacePlace) error {
	if foreign == nil {
		return nil
	}
	return m.Emit(withoutPlace(ctx), sessionID, event.BySession, func(tx *Tx) error {
		if p := tx.State.Place; p == nil || *p != *foreign {
			return nil
		}
		tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{
			Cleared: []string{state.ClearedPlace}, LeavesFiles: true,
			Reason: fmt.Sprintf("the session was imported: its files are in %s on node %s of another runtime, and were not brought along", foreign.Root, foreign.Node),
		}})
		return nil
	})
}
