package channel

import (
	"context"

	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// nodeIn is what facts of a session say of the node that a peer is connected to. Of a session
// with an owner that is clear.
func (h *Hub) nodeIn(sessionID string) string {
	if sessionID != event.RuntimeSession || !h.m.IsShared() {
		return ""
	}
	return h.opt.NodeID
}

// EndGone records that the peers are gone which were connected, in the session that belongs
// to all nodes, to an earlier process of this node, or to a node that is gone: what asks
// which nodes are is called only if there may be such peers. One node records it, and the
// others find that it did.
func (h *Hub) EndGone(ctx context.Context, ask func(context.Context) (gone func(nodeID string) bool, err error)) error {
	found, err := h.m.HasConnectedChannels(ctx, event.RuntimeSession)
	if err != nil || !found {
		return err
	}
	isGone, err := ask(ctx)
	if err != nil {
		return err
	}
	var left []string
	ended := func(c *state.Channel) bool {
		switch c.NodeID {
		case "":
			return false // a version before said nothing of it
		case h.opt.NodeID:
			return h.connectionNumber(c.ChannelID, event.RuntimeSession) == 0
		}
		return isGone(c.NodeID)
	}
	if err := h.m.Read(ctx, event.RuntimeSession, func(s *state.Session) error {
		for _, c := range s.Channels.Connected {
			if ended(c) {
				left = append(left, c.ChannelID)
			}
		}
		return nil
	}); err != nil || len(left) == 0 {
		return err
	}
	return h.m.Emit(ctx, event.RuntimeSession, event.ByChannel, func(tx *session.Tx) error {
		for _, id := range left {
			c := tx.State.Channels.Find(id)
			if c == nil || c.Status != state.ChannelConnected || !ended(c) {
				continue // it is back, or another node was quicker
			}
			d := departure{reason: "runtime_restart", detail: "node " + c.NodeID + " is gone", grace: h.callGrace()}
			if c.NodeID == h.opt.NodeID {
				d.detail = ""
			}
			if err := departed(tx, c, d); err != nil {
				return err
			}
		}
		return nil
	})
}
