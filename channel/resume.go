package channel

import (
	"context"
	"encoding/json"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// resumed is what is kept of reconnect_channel for a repetition: the snapshot is
// made anew.
type resumed struct {
	ReplayFrom   uint64              `json:"replayFrom"`
	RecoveryMode string              `json:"recoveryMode"`
	Gap          *command.ChannelGap `json:"gap,omitempty"`
}

// reconnectChannel records that a peer is back.
func (h *Hub) reconnectChannel(ctx context.Context, caller command.Caller, p *command.ReconnectChannel) (*resumed, error) {
	c, sessionID, err := h.findResumable(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	writer := caller
	if p.SessionID == "" {
		writer = runtimeAs(caller, c.Home)
	}
	// Whether the caller may see the session is checked before a connection is replaced.
	if err := h.m.OwnAs(ctx, writer, sessionID, func(*state.Session) error { return nil }); err != nil {
		return nil, err
	}
	from, err := h.m.ChannelCursor(ctx, c.ID, sessionID)
	if err != nil {
		return nil, err
	}
	if p.LastSequence != nil {
		from = *p.LastSequence
	}
	readable, err := h.m.Readable(ctx, sessionID, from)
	if err != nil {
		return nil, err
	}
	h.opt.Offer(c.Opened.Tools)
	arrived := h.registerArrival(c.ID, sessionID)
	res, err := session.Write(ctx, h.m, writer, p, sessionID, event.ByChannel|event.BySession, func(tx *session.Tx) (*resumed, error) {
		if err := h.comeBack(tx, c, arrived.before != nil); err != nil {
			return nil, err
		}
		return h.resumeFrom(tx, c, from, readable)
	})
	arrived.settle(context.WithoutCancel(ctx), err)
	return res, err
}

// findResumable returns the channel that a peer comes back to and the session that it goes on
// in, or refuses a peer that may not.
func (h *Hub) findResumable(ctx context.Context, caller command.Caller, p *command.ReconnectChannel) (c *session.Channel, sessionID string, err error) {
	if c, err = h.findVisibleChannel(ctx, caller, p.ChannelID); err != nil {
		return nil, "", err
	}
	switch {
	case caller.Account != c.Account() || roleOf(caller) != c.Opened.EnrolledRole:
		return nil, "", fault.New(fault.Forbidden, "channel %s was opened by a token of another role or account", c.ID)
	case !tokenMatchesRef(p.ResumeToken, c.Opened.ResumeTokenRef):
		return nil, "", fault.New(fault.Forbidden, "the resume token doesn't belong to channel %s", c.ID)
	case p.SessionID != "":
		return c, p.SessionID, nil
	}
	return c, c.Home, nil
}

// showSnapshot answers reconnect_channel with the session as it is now. A repeated call
// has to pass the same checks as the first.
func (h *Hub) showSnapshot(ctx context.Context, caller command.Caller, p *command.ReconnectChannel, kept *resumed) (*command.ReconnectChannelResult, error) {
	_, sessionID, err := h.findResumable(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	out := &command.ReconnectChannelResult{ReplayFrom: kept.ReplayFrom, RecoveryMode: kept.RecoveryMode, Gap: kept.Gap}
	if sessionID == event.RuntimeSession && !caller.Admin {
		return out, nil // it may write about its channel there, and see nothing
	}
	out.Snapshot, err = h.sessionSnapshot(ctx, caller, sessionID, kept.Gap)
	return out, err
}

// comeBack emits what precedes a resumption: the end of a connection that is still
// taken for one, and the channel itself where the session doesn't know it.
func (h *Hub) comeBack(tx *session.Tx, c *session.Channel, here bool) error {
	x := tx.State.Channels.Find(c.ID)
	if x == nil {
		h.emitLink(tx, c)
		return nil
	}
	if x.Status != state.ChannelConnected {
		return nil
	}
	d := departure{reason: "replaced"}
	if !here {
		d.reason = "runtime_restart"
	}
	return departed(tx, x, d)
}

// emitLink says that a channel which was opened elsewhere follows this session.
func (h *Hub) emitLink(tx *session.Tx, c *session.Channel) {
	fact := c.Opened
	fact.Sessions = []string{tx.State.SessionID}
	if fact.HomeSession = c.Home; c.Home == tx.State.SessionID {
		fact = c.Opened // it left the working set of its home
	}
	fact.NodeID = h.nodeIn(tx.State.SessionID)
	tx.Emit(event.Event{Type: event.TypeChannelConnected, Scope: event.Scope{ChannelID: c.ID}, Payload: &fact})
}

// resumeFrom decides where the peer goes on and emits it.
func (h *Hub) resumeFrom(tx *session.Tx, c *session.Channel, from, readable uint64) (*resumed, error) {
	last := tx.State.Sequence
	res := &resumed{ReplayFrom: from + 1, RecoveryMode: "replay"}
	switch {
	case from > last:
		res.ReplayFrom, res.Gap = last+1, &command.ChannelGap{From: last + 1, To: from, Reason: gapPastEnd}
	case readable > from+1:
		res.ReplayFrom, res.Gap = readable, &command.ChannelGap{From: from + 1, To: readable - 1, Reason: gapRetention}
	}
	scope := event.Scope{ChannelID: c.ID}
	if res.Gap != nil {
		res.RecoveryMode = "snapshot_repair"
	}
	tx.Emit(event.Event{Type: event.TypeChannelResumed, Scope: scope, Payload: &event.ChannelResumed{
		RecoveryMode: res.RecoveryMode, ReplayFrom: res.ReplayFrom, LastSequence: from, ResumeTokenRef: c.Opened.ResumeTokenRef,
		NodeID: h.nodeIn(tx.State.SessionID),
	}})
	if g := res.Gap; g != nil {
		tx.Emit(event.Event{Type: event.TypeSnapshotRepaired, Scope: scope, Payload: &event.SnapshotRepaired{
			Reason: g.Reason, GapFrom: g.From, GapTo: g.To, RecoveryMode: res.RecoveryMode, SnapshotSequence: last, Status: gapStatus(g),
		}})
		tx.Emit(event.Event{Type: event.TypeSnapshotUpdated, Scope: scope, Payload: &event.SnapshotUpdated{
			Snapshot: "session", AtSequence: last, RecoveryMode: res.RecoveryMode, Reason: g.Reason,
		}})
		return res, nil
	}
	return res, advanceCursor(tx, c.ID, from)
}

// Reasons for which a peer can't go on from its cursor.
const (
	gapPastEnd   = "cursor_past_end"
	gapRetention = "retention"
)

// gapStatus says what a gap means for the peer: events that were removed are unavailable,
// and what it has of events that were never here is stale.
func gapStatus(g *command.ChannelGap) string {
	if g.Reason == gapRetention {
		return state.Unavailable
	}
	return state.Stale
}

// advanceCursor moves the peer's cursor forward, never back.
func advanceCursor(tx *session.Tx, channelID string, to uint64) error {
	at, err := tx.ChannelCursor(channelID)
	if err == nil && to > at {
		tx.SetChannelCursor(channelID, to)
	}
	return err
}

// sessionSnapshot is the session as a peer that comes back is shown it; gap is what the
// snapshot stands for, or nil.
func (h *Hub) sessionSnapshot(ctx context.Context, caller command.Caller, sessionID string, gap *command.ChannelGap) (event.Raw, error) {
	var snap *state.SessionSnapshot
	if err := h.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
		snap = h.m.Snapshot(s)
		if gap != nil {
			snap.MarkRepaired(gapStatus(gap))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	out, err := json.Marshal(snap)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the snapshot could not be encoded")
	}
	return out, nil
}

// ackEvents moves a peer's cursor.
func (h *Hub) ackEvents(ctx context.Context, caller command.Caller, p *command.AckEvents) (*command.ChannelResult, error) {
	c, sessionID, writer, err := h.writerOnChannel(ctx, caller, p.ChannelID, p.SessionID)
	if err != nil {
		return nil, err
	}
	added, err := h.arriveInSession(ctx, writer, c.ID, sessionID)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, h.m, writer, p, sessionID, event.ByChannel|event.BySession, func(tx *session.Tx) (*command.ChannelResult, error) {
		return h.acknowledged(tx, c, p.Sequence, added != nil)
	})
	if added != nil {
		added.settle(context.WithoutCancel(ctx), err)
	}
	return res, err
}

// arriveInSession is the arrival of a peer that is connected elsewhere in a session that
// doesn't know it; nil if there is nothing to add.
func (h *Hub) arriveInSession(ctx context.Context, caller command.Caller, channelID, sessionID string) (*arrival, error) {
	if h.connectionNumber(channelID, sessionID) != 0 {
		return nil, nil //nolint:nilnil // nothing to add is an answer
	}
	known := false
	if err := h.m.OwnAs(ctx, caller, sessionID, func(s *state.Session) error {
		known = s.Channels.Find(channelID) != nil
		return nil
	}); err != nil {
		return nil, err
	}
	if _, here := h.isPresent(channelID); known || !here {
		return nil, nil //nolint:nilnil // as above
	}
	return h.registerArrival(channelID, sessionID), nil
}

// acknowledged decides on an acknowledgement. One that is not ahead of the cursor
// is a sign of life and nothing else.
func (h *Hub) acknowledged(tx *session.Tx, c *session.Channel, sequence uint64, adds bool) (*command.ChannelResult, error) {
	if sequence > tx.State.Sequence {
		return nil, fault.New(fault.Conflict, "session %s ends at %d, so %d can't be acknowledged", tx.State.SessionID, tx.State.Sequence, sequence)
	}
	at, err := tx.ChannelCursor(c.ID)
	if err != nil {
		return nil, err
	}
	x := tx.State.Channels.Find(c.ID)
	res := &command.ChannelResult{ChannelID: c.ID, Status: state.ChannelConnected, LastAcknowledged: max(at, sequence)}
	switch {
	case x == nil && !adds:
		return nil, fault.New(fault.Conflict, "channel %s is not connected: use reconnect_channel with session %s", c.ID, tx.State.SessionID)
	case x == nil:
		h.emitLink(tx, c)
	default:
		res.Status = x.Status
	}
	if sequence <= at {
		return res, nil
	}
	tx.SetChannelCursor(c.ID, sequence)
	if x == nil || (x.Status == state.ChannelConnected && !x.Confirmed) {
		tx.Emit(event.Event{Type: event.TypeChannelMessage, Scope: event.Scope{ChannelID: c.ID}, Payload: &event.ChannelMessage{
			Direction: "in", Kind: "acknowledgement", Acknowledged: sequence,
		}})
	}
	return res, nil
}
