package channel

import (
	"context"

	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// peerAgent is the role of another agent, which answers for the work that it gave.
const peerAgent = "peer_agent"

// permissionsCapability is what a peer offers that wants to be asked.
const permissionsCapability = "permissions"

// Committed implements [session.Observer]: it notes which sessions have something
// to forward or an answer to return.
func (h *Hub) Committed(sessionID string, facts []event.Event) {
	if h.watching.Load() == 0 {
		return
	}
	for i := range facts {
		switch facts[i].Type { //nolint:exhaustive // the rest crosses no channel
		case event.TypeActionRequired, event.TypeActionResolved, event.TypeChannelConnected, event.TypeChannelResumed:
			h.queueBridgeCheck(sessionID)
			return
		}
	}
}

// queueBridgeCheck has a watched session looked at.
func (h *Hub) queueBridgeCheck(sessionID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch[sessionID] == nil {
		return
	}
	h.due[sessionID] = struct{}{}
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// runBridge forwards and returns until the hub is closed.
func (h *Hub) runBridge() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.woken:
		}
		h.mu.Lock()
		due := h.due
		h.due = map[string]struct{}{}
		h.mu.Unlock()
		for sessionID := range due {
			if err := h.bridgeSession(h.ctx, sessionID); err != nil && h.ctx.Err() == nil {
				h.opt.Logger.Error("requests for permission could not be forwarded", "sessionId", sessionID, "error", err)
			}
		}
	}
}

// bridgeSession records what is due in a session: requests that weren't forwarded and
// answers that weren't returned.
func (h *Hub) bridgeSession(ctx context.Context, sessionID string) error {
	open := false
	err := h.m.Emit(ctx, sessionID, event.ByChannel, func(tx *session.Tx) error {
		open = forwardPendingRequests(tx)
		open = giveBack(tx) || open
		return nil
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watch[sessionID]
	if w == nil {
		if !open {
			return nil
		}
		w = &watch{}
		h.watch[sessionID] = w
		h.watching.Add(1)
	}
	w.bridges = open
	h.unwatch(sessionID, w)
	return nil
}

// asksPermission reports whether an action is a request for permission.
func asksPermission(a *state.Action) bool {
	return state.AsksPermission(a.ActionType)
}

// decides reports whether a peer is asked for permissions.
func decides(c *state.Channel) bool {
	return (c.PeerRole == "host" || c.PeerRole == "client" || c.PeerRole == peerAgent) && c.Offers(permissionsCapability)
}

// forwardPendingRequests emits that pending requests went to the peers that can answer them, and
// reports whether it did.
func forwardPendingRequests(tx *session.Tx) bool {
	some := false
	for _, c := range tx.State.Channels.Connected {
		if !decides(c) {
			continue
		}
		for _, a := range tx.State.Actions.Pending {
			if !asksPermission(a) || c.Forwarded(a.ActionID) {
				continue
			}
			some = true
			tx.Emit(event.Event{Type: event.TypeChannelPermissionForwarded, Scope: scopeOf(a, c.ChannelID), Payload: session.ForwardedRequest(a)})
		}
	}
	return some
}

// giveBack emits the answers to forwarded requests, and reports whether some are
// still open.
func giveBack(tx *session.Tx) bool {
	open := false
	for _, list := range [...][]*state.Channel{tx.State.Channels.Connected, tx.State.Channels.Disconnected} {
		for _, c := range list {
			for _, b := range c.Pending {
				a := tx.State.Actions.Find(b.ActionID)
				if a != nil && a.Status == state.ActionPending {
					open = true
					continue
				}
				if a != nil && !decides(c) && a.DecisionSource != "runtime" {
					continue // the peer asked us; that it has the answer is recorded when it has
				}
				p := returned(a, c)
				p.ActionID = b.ActionID
				tx.Emit(event.Event{Type: event.TypeChannelPermissionReturned, Scope: scopeOf(a, c.ChannelID), Payload: p})
			}
		}
	}
	return open
}

// returned is the answer to a request as the peer's channel records it. The answer
// of an action that left the working set is in its own facts.
func returned(a *state.Action, c *state.Channel) *event.ChannelPermissionReturned {
	p := &event.ChannelPermissionReturned{Decision: "cancel", AnswerSource: "policy", FinalDecider: "local", Reason: "the answer is no longer needed"}
	if a == nil {
		return p
	}
	p.DecidedBy, p.Reason = a.ResolvedBy, a.DecisionReason
	switch a.Decision {
	case "submit", "allow":
		p.Decision = "allow"
	case "deny":
		p.Decision = "deny"
	}
	switch {
	case a.Status == state.ActionExpired:
		p.Decision, p.AnswerSource = "timeout", "timeout"
	case a.AnsweredThrough == c.ChannelID:
		p.FinalDecider, p.AnswerSource = "remote", "user"
		switch c.PeerRole {
		case "host":
			p.AnswerSource = "host"
		case peerAgent:
			p.AnswerSource = "peer"
		}
	case a.DecisionSource == "human":
		p.AnswerSource = "user"
	}
	return p
}

func scopeOf(a *state.Action, channelID string) event.Scope {
	if a == nil {
		return event.Scope{ChannelID: channelID}
	}
	return event.Scope{
		ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, ToolCallID: a.ToolCallID, ActionID: a.ActionID,
		SubagentID: a.SubagentID, ChannelID: channelID,
	}
}
