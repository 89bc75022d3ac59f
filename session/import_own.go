package session

import (
	"context"
	"errors"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// checkOwnFact refuses a fact in the file of a session, just folded, that speaks of
// something else than that session: of a runtime, of a host's policy, of a channel or a
// peer's task that isn't the session's. What follows from such a fact, in the index or in
// the rules that hold, would apply beyond the session, and the author of a file isn't the
// host.
func (c *ImportCheck) checkOwnFact(e *event.Event) error {
	why := whyNotOwn(c.state, e)
	if linked, ok := e.Payload.(*event.PeerTaskLinked); ok {
		c.peers[peerKey(linked.NativeProtocol, direction(linked.Direction), c.state.Account, linked.RemoteTaskID)] = true
	}
	if key := peerIn(c.state.Account, e.Payload); key != "" && !c.peers[key] {
		why = "the peer's task was never linked to the session"
	}
	if why != "" {
		return fault.New(fault.InvalidParams, "fact %d, %s, can't be imported: %s", e.Sequence, e.Type, why)
	}
	return nil
}

// Missing refuses a session that refers to content which its file doesn't bring, and which
// another account stored here: what its turns refer to is shown to a model. It is called
// after the last fact.
func (c *ImportCheck) Missing(ctx context.Context, ref string) error {
	blob, err := c.m.opt.Store.OpenBlob(ctx, ref)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = blob.Close()
	}
	if err != nil {
		return storeFault(err)
	}
	blob, _, err = c.m.Output(ctx, command.Caller{Account: c.state.Account}, ref)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return fault.New(fault.Conflict, "session %s refers to %s, which isn't in the file and belongs to someone else here", c.state.SessionID, ref)
	case err != nil:
		return err
	}
	if err := blob.Close(); err != nil {
		return storeFault(err)
	}
	return nil
}

// peerIn returns the key of the peer's task that a fact is about; empty if it is about
// none.
func peerIn(account string, payload event.Payload) string {
	switch p := payload.(type) {
	case *event.PeerTaskUpdated:
		if p.NativeProtocol == "" {
			return "" // of an older version; its task is found by the id here
		}
		return peerKey(p.NativeProtocol, direction(p.Direction), account, p.RemoteTaskID)
	case *event.PeerPushConfigured:
		return peerKey(p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	case *event.PeerPushRemoved:
		return peerKey(p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	case *event.PeerPushReported:
		return peerKey(p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	}
	return ""
}

func whyNotOwn(st *state.Session, e *event.Event) string {
	_, begins := e.Payload.(*event.SessionCreated)
	if begins != (e.Sequence == 1) {
		return "a session begins with session.created, and only once"
	}
	switch p := e.Payload.(type) {
	case *event.RuntimeChanged:
		return "it changes a runtime, not the session"
	case *event.SessionDeleted:
		return "a session that was deleted stays deleted"
	case *event.PolicyChanged:
		if p.Source == "host" || p.Workspace != "" {
			return "it is about the policy of a host, not of the session"
		}
	case *event.ChannelConnected:
		if by := p.ConnectedBy; by != nil && by.Account != "" && by.Account != st.Account {
			return "the channel belongs to another account"
		}
	case *event.ChannelResumed, *event.ChannelDisconnected:
		if st.Channels.Find(e.ChannelID) == nil {
			return "the channel never followed the session"
		}
	}
	return ""
}
