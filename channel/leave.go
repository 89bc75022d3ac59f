package channel

import (
	"context"
	"errors"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// departure is how a peer went.
type departure struct {
	reason, detail string
	// grace is how long calls of its tools wait for it.
	grace time.Duration
}

// recordDeparture records that a peer's connections are gone. What can't be recorded now
// is found at the next start.
func (h *Hub) recordDeparture(ctx context.Context, channelID string, links map[string]uint64, d departure) {
	for sessionID, number := range links {
		if err := h.disconnectLink(ctx, channelID, sessionID, number, d); err != nil && h.ctx.Err() == nil {
			h.opt.Logger.Warn("closing a channel could not be recorded", "channelId", channelID, "sessionId", sessionID, "error", err)
		}
	}
}

// disconnectLink records the end of one connection, unless the peer has come back on
// another since.
func (h *Hub) disconnectLink(ctx context.Context, channelID, sessionID string, number uint64, d departure) error {
	return h.m.Emit(ctx, sessionID, event.ByChannel, func(tx *session.Tx) error {
		c := tx.State.Channels.Find(channelID)
		if c == nil || c.Status != state.ChannelConnected {
			return nil
		}
		if now := h.connectionNumber(channelID, sessionID); now != 0 && now != number {
			return nil
		}
		return departed(tx, c, d)
	})
}

// departed emits that a peer is gone, with what it leaves open.
func departed(tx *session.Tx, c *state.Channel, d departure) error {
	acknowledged, err := tx.ChannelCursor(c.ChannelID)
	if err != nil {
		return err
	}
	p := &event.ChannelDisconnected{Reason: d.reason, Detail: d.detail, LastAcknowledged: acknowledged}
	for _, b := range c.Pending {
		p.PendingPermissionIDs = append(p.PendingPermissionIDs, b.ActionID)
	}
	for _, a := range tx.State.Actions.Pending {
		if a.ChannelID == c.ChannelID {
			p.PendingToolCallIDs = append(p.PendingToolCallIDs, a.ToolCallID)
		}
	}
	if len(c.Tools) > 0 {
		p.ToolGraceMs = d.grace.Milliseconds()
	}
	tx.Emit(event.Event{Type: event.TypeChannelDisconnected, Scope: event.Scope{ChannelID: c.ChannelID}, Payload: p})
	return nil
}

// disconnectChannel closes a channel in all its sessions.
func (h *Hub) disconnectChannel(ctx context.Context, caller command.Caller, p *command.DisconnectChannel) (*command.ChannelResult, error) {
	c, err := h.findVisibleChannel(ctx, caller, p.ChannelID)
	if err != nil {
		return nil, err
	}
	d := departure{reason: "closed", detail: h.redactText(p.Reason)}
	h.mu.Lock()
	gone := h.forgetPeer(p.ChannelID)
	h.mu.Unlock()
	links, err := h.m.ChannelLinks(ctx, p.ChannelID)
	if err != nil {
		return nil, err
	}
	each := command.PassOver(ctx)
	for _, l := range links {
		if l.SessionID == c.Home || l.Status != state.ChannelConnected {
			continue
		}
		if err := h.disconnectLink(each, p.ChannelID, l.SessionID, gone[l.SessionID], d); err != nil {
			return nil, err
		}
	}
	return session.Write(ctx, h.m, runtimeAs(caller, c.Home), p, c.Home, event.ByChannel, func(tx *session.Tx) (*command.ChannelResult, error) {
		res := &command.ChannelResult{ChannelID: p.ChannelID, Status: state.ChannelDisconnected}
		var err error
		if res.LastAcknowledged, err = tx.ChannelCursor(p.ChannelID); err != nil {
			return nil, err
		}
		x := tx.State.Channels.Find(p.ChannelID)
		if x == nil || x.Status != state.ChannelConnected || h.connectionNumber(p.ChannelID, c.Home) != 0 {
			return res, nil // it is gone, or back already
		}
		return res, departed(tx, x, d)
	})
}

// runtimeAs lets a channel's owner write about it where it was opened
// without a session: in the runtime's own, which it doesn't see.
func runtimeAs(caller command.Caller, sessionID string) command.Caller {
	caller.Admin = caller.Admin || sessionID == event.RuntimeSession
	return caller
}

// writerOnChannel returns the channel of a peer that has just been heard from, the
// session that it means, which is the channel's own unless it names one, and the caller
// that writes there.
func (h *Hub) writerOnChannel(ctx context.Context, caller command.Caller, channelID, sessionID string) (*session.Channel, string, command.Caller, error) {
	c, err := h.findVisibleChannel(ctx, caller, channelID)
	if err != nil {
		return nil, "", command.Caller{}, err
	}
	h.noteSignOfLife(c.ID)
	if sessionID == "" {
		return c, c.Home, runtimeAs(caller, c.Home), nil
	}
	return c, sessionID, caller, nil
}

// findVisibleChannel returns a channel that the caller may see.
func (h *Hub) findVisibleChannel(ctx context.Context, caller command.Caller, id string) (*session.Channel, error) {
	c, err := h.m.Channel(ctx, id)
	if err != nil {
		return nil, err
	}
	if !caller.Sees(c.Account()) {
		return nil, fault.New(fault.NotFound, "there is no channel %s", id)
	}
	return c, nil
}

// Recover records that peers of an earlier process are gone, where no unfinished work has
// its session taken up anyway. Sessions that another node owns are left to it, and the one
// that belongs to all nodes to [Hub.EndGone] while there are other nodes.
func (h *Hub) Recover(ctx context.Context) error {
	up, err := h.m.ConnectedChannels(ctx)
	if err != nil {
		return err
	}
	alone, err := h.m.Alone(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range up {
		if id == event.RuntimeSession && !alone {
			continue
		}
		if err := h.TakeUp(ctx, id); !session.OwnedElsewhere(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// TakeUp records that peers that followed a session through an earlier process, or another
// node, are gone, and looks at what was forwarded to them.
func (h *Hub) TakeUp(ctx context.Context, sessionID string) error {
	if err := h.recoverChannels(ctx, sessionID); fault.KindOf(err) != fault.NotFound {
		return err
	}
	return nil
}

func (h *Hub) recoverChannels(ctx context.Context, sessionID string) error {
	err := h.m.Emit(ctx, sessionID, event.ByChannel, func(tx *session.Tx) error {
		for _, c := range tx.State.Channels.Connected {
			if h.connectionNumber(c.ChannelID, sessionID) != 0 {
				continue // it is back already
			}
			if err := departed(tx, c, departure{reason: "runtime_restart", grace: h.callGrace()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return h.bridgeSession(ctx, sessionID)
}
