package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// Kinds of the index entries of channels. All but kindCursor follow from facts.
const (
	// kindChannel: channel id → home session, then how the channel was opened.
	kindChannel = "channel"
	// kindChannelLink: channel and session id → how the one stands to the other.
	kindChannelLink = "channel_link"
	// kindChannelUp: session and channel id → nothing, while connected.
	kindChannelUp = "channel_connected"
	// kindCursor: channel and session id → the last acknowledged sequence.
	kindCursor = "channel_cursor"
)

// Channel is a channel as the index keeps it.
type Channel struct {
	ID string
	// Home is the session that the channel was opened in.
	Home string
	// Opened is the fact that opened it.
	Opened event.ChannelConnected
}

// Account that the channel belongs to.
func (c *Channel) Account() string {
	if c.Opened.ConnectedBy == nil {
		return ""
	}
	return c.Opened.ConnectedBy.Account
}

// ChannelLink is how a channel stands to a session.
type ChannelLink struct {
	SessionID string    `json:"-"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
	Since     time.Time `json:"since"`
}

// indexChannel appends the entries that follow from a fact about a channel.
func indexChannel(ops []store.IndexOp, e *event.Event) ([]store.IndexOp, error) {
	link := ChannelLink{Status: state.ChannelConnected, Since: e.Time}
	up := putOp(kindChannelUp, e.SessionID+"/"+e.ChannelID, nil)
	switch p := e.Payload.(type) {
	case *event.ChannelConnected:
		ops = append(ops, putOp(members(kindChannel), e.SessionID+"/"+e.ChannelID, nil))
		if p.HomeSession == "" {
			v, err := channelEntry(e.SessionID, p)
			if err != nil {
				return nil, err
			}
			ops = append(ops, putOp(kindChannel, e.ChannelID, v))
		}
	case *event.ChannelDisconnected:
		link.Status, link.Reason = state.ChannelDisconnected, p.Reason
		up = removeOp(kindChannelUp, e.SessionID+"/"+e.ChannelID)
	}
	v, err := json.Marshal(link)
	if err != nil {
		return nil, fmt.Errorf("session: channel: %w", err)
	}
	return append(ops, putOp(kindChannelLink, e.ChannelID+"/"+e.SessionID, v), up), nil
}

func channelEntry(home string, p *event.ChannelConnected) ([]byte, error) {
	v, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("session: channel: %w", err)
	}
	return append([]byte(home+"/"), v...), nil
}

// Channel returns a channel by its id without checking the caller's access.
func (m *Manager) Channel(ctx context.Context, id string) (*Channel, error) {
	v, err := m.opt.Store.Get(ctx, kindChannel, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no channel %s", id)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	home, opened, _ := strings.Cut(string(v), "/")
	c := &Channel{ID: id, Home: home}
	if err := json.Unmarshal([]byte(opened), &c.Opened); err != nil {
		return nil, storeFault(fmt.Errorf("%w: channel %s in the index: %w", store.ErrCorrupt, id, err))
	}
	return c, nil
}

// Channels lists channels after an id, in the order of ids: those that follow a
// session, or all.
func (m *Manager) Channels(ctx context.Context, sessionID, after string, limit int) ([]Located, error) {
	return m.Members(ctx, kindChannel, sessionID, after, limit)
}

// ChannelLinks returns how a channel stands to each session that it follows.
func (m *Manager) ChannelLinks(ctx context.Context, id string) ([]ChannelLink, error) {
	var out []ChannelLink
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindChannelLink, Prefix: id + "/"}) {
		if err != nil {
			return nil, storeFault(err)
		}
		link := ChannelLink{SessionID: strings.TrimPrefix(e.Key, id+"/")}
		if err := json.Unmarshal(e.Value, &link); err != nil {
			return nil, storeFault(fmt.Errorf("%w: links of channel %s in the index: %w", store.ErrCorrupt, id, err))
		}
		out = append(out, link)
	}
	return out, nil
}

// ConnectedChannels returns the sessions in which channels are connected as far
// as the facts say.
func (m *Manager) ConnectedChannels(ctx context.Context) ([]string, error) {
	var out []string
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindChannelUp}) {
		if err != nil {
			return nil, storeFault(err)
		}
		id, _, _ := strings.Cut(e.Key, "/")
		if n := len(out); n == 0 || out[n-1] != id {
			out = append(out, id)
		}
	}
	return out, nil
}

// HasConnectedChannels reports whether a channel is connected in a session as far as the
// facts say.
func (m *Manager) HasConnectedChannels(ctx context.Context, sessionID string) (bool, error) {
	for _, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindChannelUp, Prefix: sessionID + "/", Limit: 1}) {
		if err != nil {
			return false, storeFault(err)
		}
		return true, nil
	}
	return false, nil
}

// ChannelCursor returns the last sequence of a session that a channel acknowledged.
func (m *Manager) ChannelCursor(ctx context.Context, channelID, sessionID string) (uint64, error) {
	v, err := m.opt.Store.Get(ctx, kindCursor, channelID+"/"+sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, storeFault(err)
	}
	return cursorOf(v)
}

// Readable returns the first sequence after a cursor that can be read, 0 if there
// is none.
func (m *Manager) Readable(ctx context.Context, sessionID string, after uint64) (uint64, error) {
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: after, Limit: 1}) {
		if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
			return removed.Through + 1, nil
		}
		if err != nil {
			return 0, storeFault(err)
		}
		return rec.Sequence, nil
	}
	return 0, nil
}

// ClaimChannel makes sure that no other session opens a channel with that id.
func (tx *Tx) ClaimChannel(id string, p *event.ChannelConnected) error {
	v, err := channelEntry(tx.w.id, p)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the channel could not be stored")
	}
	tx.Claim(kindChannel, id, v)
	return nil
}

// ChannelCursor is [Manager.ChannelCursor] for a decision about the session: what
// is under way is seen.
func (tx *Tx) ChannelCursor(channelID string) (uint64, error) {
	v, found, err := tx.Lookup(kindCursor, channelID+"/"+tx.w.id)
	if err != nil {
		return 0, storeFault(err)
	}
	if !found {
		return 0, nil
	}
	return cursorOf(v)
}

// SetChannelCursor keeps how far a channel has got, beside the facts: to say that
// one has an event must not make another event.
func (tx *Tx) SetChannelCursor(channelID string, sequence uint64) {
	tx.index = append(tx.index, putOp(kindCursor, channelID+"/"+tx.w.id, strconv.AppendUint(nil, sequence, 10)))
}

func cursorOf(v []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return 0, storeFault(fmt.Errorf("%w: cursor of a channel in the index: %w", store.ErrCorrupt, err))
	}
	return n, nil
}

// checkSourceChannel refuses a channel that isn't there for the caller.
func (r *request) checkSourceChannel(ctx context.Context, channelID string) error {
	if channelID == "" {
		return nil
	}
	c, err := r.m.Channel(ctx, channelID)
	if err == nil && !r.caller.Sees(c.Account()) {
		return fault.New(fault.NotFound, "there is no channel %s", channelID)
	}
	return err
}

// sourceChannel is the channel that an input came through; empty if through none.
func sourceChannel(p *command.SubmitTurn) string {
	if p.ChannelID == "" && p.Peer != nil {
		return p.Peer.ChannelID
	}
	return p.ChannelID
}

// ForwardedRequest is the fact's content for a request for permission that went to
// the peer of a channel.
func ForwardedRequest(a *state.Action) *event.ChannelPermissionForwarded {
	p := &event.ChannelPermissionForwarded{
		ActionID: a.ActionID, RequestedBy: &event.Actor{Kind: "agent", ID: a.ThreadID}, Target: reasonOr(a.ToolName, a.ActionType), FinalDecider: "remote",
	}
	if a.SubagentID != "" {
		p.RequestedBy.ID = a.SubagentID
	}
	return p
}

// forwardToPeer emits that a peer that answers was asked, where that isn't recorded
// yet: it may have read the request by itself.
func forwardToPeer(tx *Tx, a *state.Action, scope event.Scope, step *command.PeerStep) {
	if step == nil || !state.AsksPermission(a.ActionType) {
		return
	}
	if c := tx.State.Channels.Find(step.ChannelID); c != nil && !c.Forwarded(a.ActionID) {
		tx.Emit(event.Event{Type: event.TypeChannelPermissionForwarded, Scope: scope, Payload: ForwardedRequest(a)})
	}
}

// checkChannel checks an answer against the channel that it comes through, and against
// the one whose peer alone can act.
func (r *request) checkChannel(st *state.Session, a *state.Action, channelID string) error {
	if channelID != "" {
		c := st.Channels.Find(channelID)
		if c == nil || !r.caller.Sees(accountOf(c)) {
			return fault.New(fault.NotFound, "no channel %s follows session %s", channelID, st.SessionID)
		}
	}
	if a.ChannelID == "" {
		return nil
	}
	if channelID != "" && channelID != a.ChannelID {
		return fault.New(fault.Conflict, "action %s is for the peer of channel %s, not of %s", a.ActionID, a.ChannelID, channelID)
	}
	if c := st.Channels.Find(a.ChannelID); c != nil && !r.caller.Sees(accountOf(c)) {
		return fault.New(fault.Forbidden, "action %s is for the peer of channel %s, which belongs to another account", a.ActionID, a.ChannelID)
	}
	return nil
}

func accountOf(c *state.Channel) string {
	if c.ConnectedBy == nil {
		return ""
	}
	return c.ConnectedBy.Account
}

// answerThrough is the channel that a fact about an answer names: the one that the
// answer came through, or the one that was asked.
func answerThrough(a *state.Action, p *command.RespondAction) string {
	if p.ChannelID != "" {
		return p.ChannelID
	}
	if p.Peer != nil {
		return p.Peer.ChannelID
	}
	return a.ChannelID
}

// answerSource says who answered an action.
func answerSource(p *command.RespondAction) string {
	if p.Peer != nil {
		return "peer"
	}
	return "human"
}
