package state

import (
	"slices"
	"time"

	"agentd/event"
)

// keepBridges bounds the answered permissions that a channel lists.
const keepBridges = 10

// Statuses of a channel.
const (
	ChannelConnected    = "connected"
	ChannelDisconnected = "disconnected"
)

// Channels are the remote peers of the session.
type Channels struct {
	// Connected holds the peers with a usable connection, oldest first.
	Connected []*Channel `json:"connected,omitempty"`
	// Disconnected holds the last ones that went, oldest first.
	Disconnected []*Channel `json:"disconnected,omitempty"`
	// PeerTasks holds the tasks that peers work on for us or we for them and
	// that are not reconciled; RecentPeerTasks the last ones that are.
	PeerTasks       []*PeerTask `json:"peerTasks,omitempty"`
	RecentPeerTasks []*PeerTask `json:"recentPeerTasks,omitempty"`
	// Connections, Resumes and Disconnects count over all time.
	Connections int64 `json:"connections,omitempty"`
	Resumes     int64 `json:"resumes,omitempty"`
	Disconnects int64 `json:"disconnects,omitempty"`
}

// Channel is one peer.
type Channel struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// Status of the connection.
	Status string `json:"status"`
	// Transport of the channel.
	Transport string `json:"transport,omitempty"`
	// PeerRole is what the peer is to the session.
	PeerRole string `json:"peerRole,omitempty"`
	// AccountRef is the peer's account.
	AccountRef string `json:"accountRef,omitempty"`
	// Capabilities that the peer has.
	Capabilities []string `json:"capabilities,omitempty"`
	// NativeProtocol is the peer's protocol.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// AgentCardRef is where the peer's agent card is.
	AgentCardRef string `json:"agentCardRef,omitempty"`
	// ResumeTokenRef names the token that the peer comes back with, not the token.
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
	// Sessions that the channel follows.
	Sessions []string `json:"sessions,omitempty"`
	// ConnectedBy connected it.
	ConnectedBy *event.Actor `json:"connectedBy,omitempty"`
	// EnrolledRole is the role of the token that connected it.
	EnrolledRole string `json:"enrolledRole,omitempty"`
	// HomeSession is where the channel was opened, if this session only follows it.
	HomeSession string `json:"homeSession,omitempty"`
	// NodeID is the node that the peer is connected to, in the session that belongs to all
	// nodes.
	NodeID string `json:"nodeId,omitempty"`
	// Tools are those that the peer carries out while it is connected.
	Tools []event.ChannelTool `json:"tools,omitempty"`

	// LastAcknowledged is the last sequence that the peer said it has.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
	// RecoveryMode says how the peer last came back.
	RecoveryMode string `json:"recoveryMode,omitempty"`
	// ReplayFrom is the first sequence that was sent again when the peer last came back.
	ReplayFrom uint64 `json:"replayFrom,omitempty"`
	// LastSequence is the last sequence there was when the peer last came back.
	LastSequence uint64 `json:"lastSequence,omitempty"`
	// Received counts the messages that came.
	Received int64 `json:"received,omitempty"`
	// Sent counts the messages that went.
	Sent int64 `json:"sent,omitempty"`
	// Confirmed says that the peer acknowledged something since it came.
	Confirmed bool `json:"confirmed,omitempty"`

	// Pending holds the permissions that were forwarded and not answered.
	Pending []Bridge `json:"pending,omitempty"`
	// Answered are the last permissions that were forwarded and answered.
	Answered []Bridge `json:"answered,omitempty"`

	// Reason says why it went.
	Reason string `json:"reason,omitempty"`
	// Detail of the disconnection.
	Detail string `json:"detail,omitempty"`
	// ResumableForMs is how long the peer may come back after it went.
	ResumableForMs int64 `json:"resumableForMs,omitempty"`
	// ToolGraceMs is how long calls of its tools wait for a peer that went.
	ToolGraceMs int64 `json:"toolGraceMs,omitempty"`
	// ConnectedAt is when the peer came.
	ConnectedAt time.Time `json:"connectedAt,omitzero"`
	// DisconnectedAt is when the peer went.
	DisconnectedAt time.Time `json:"disconnectedAt,omitzero"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
}

// Bridge is a request for permission that crosses a channel.
type Bridge struct {
	// ActionID is the action that asks.
	ActionID string `json:"actionId"`
	// RequestedBy asks.
	RequestedBy *event.Actor `json:"requestedBy,omitempty"`
	// Target is the tool, process or action that the request is about.
	Target string `json:"target,omitempty"`
	// FinalDecider says whose word counts.
	FinalDecider string `json:"finalDecider"`
	// ChannelOnly says that only this peer can answer.
	ChannelOnly bool `json:"channelOnly,omitempty"`
	// Decision that was taken; absent until then.
	Decision string `json:"decision,omitempty"`
	// AnswerSource says who or what answered.
	AnswerSource string `json:"answerSource,omitempty"`
	// DecidedBy answered.
	DecidedBy *event.Actor `json:"decidedBy,omitempty"`
	// Reason of the decision.
	Reason string `json:"reason,omitempty"`
	// ForwardedAt is when the peer was asked.
	ForwardedAt time.Time `json:"forwardedAt,omitzero"`
	// ReturnedAt is when the answer came.
	ReturnedAt time.Time `json:"returnedAt,omitzero"`
}

// Find returns a channel of the working set, or nil.
func (c *Channels) Find(id string) *Channel {
	for _, list := range [...][]*Channel{c.Connected, c.Disconnected} {
		if i := indexWhere(list, func(x *Channel) bool { return x.ChannelID == id }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// channel folds the facts of remote peers.
func (f *fold) channel() {
	switch p := f.e.Payload.(type) {
	case *event.ChannelConnected:
		f.channelConnected(p)
		return
	case *event.ChannelResumed:
		f.channelResumed(p)
		return
	case *event.PeerTaskLinked:
		f.peerTaskLinked(p)
		return
	case *event.PeerTaskUpdated:
		f.peerTaskUpdated(p)
		return
	}
	c := f.s.Channels.Find(f.e.ChannelID)
	if c == nil {
		return
	}
	c.UpdatedAt = f.e.Time
	switch p := f.e.Payload.(type) {
	case *event.ChannelDisconnected:
		f.channelDisconnected(c, p)
	case *event.ChannelMessage:
		if p.Direction == "in" {
			c.Received++
		} else {
			c.Sent++
		}
		c.LastAcknowledged = max(c.LastAcknowledged, p.Acknowledged)
		c.Confirmed = c.Confirmed || p.Acknowledged > 0
	case *event.ChannelPermissionForwarded:
		f.permissionForwarded(c, p)
	case *event.ChannelPermissionReturned:
		f.permissionReturned(c, p)
	}
}

// openChannel returns the fact's channel among the connected ones, made known if
// it isn't yet.
func (f *fold) openChannel() *Channel {
	all := &f.s.Channels
	c := all.Find(f.e.ChannelID)
	if c == nil {
		c = &Channel{ChannelID: f.e.ChannelID}
	}
	if i := indexWhere(all.Disconnected, func(x *Channel) bool { return x == c }); i >= 0 {
		all.Disconnected = removed(all.Disconnected, i)
	}
	if indexWhere(all.Connected, func(x *Channel) bool { return x == c }) < 0 {
		all.Connected = append(all.Connected, c)
	}
	c.Status, c.Reason, c.Detail, c.ResumableForMs, c.ToolGraceMs = ChannelConnected, "", "", 0, 0
	c.Confirmed = false
	c.ConnectedAt, c.DisconnectedAt, c.UpdatedAt = f.e.Time, time.Time{}, f.e.Time
	return c
}

func (f *fold) channelConnected(p *event.ChannelConnected) {
	f.s.Channels.Connections++
	c := f.openChannel()
	c.Transport, c.PeerRole, c.AccountRef, c.NativeProtocol = p.Transport, p.PeerRole, p.AccountRef, p.NativeProtocol
	c.Capabilities, c.Sessions = firstN(p.Capabilities, keepRefs), firstN(p.Sessions, keepRefs)
	c.AgentCardRef, c.ResumeTokenRef, c.ConnectedBy = p.AgentCardRef, p.ResumeTokenRef, p.ConnectedBy
	c.EnrolledRole, c.HomeSession, c.NodeID = p.EnrolledRole, p.HomeSession, p.NodeID
	c.Tools = nil
	for _, t := range firstN(p.Tools, keepTools) {
		t.InputSchema = presentValue(t.InputSchema)
		c.Tools = append(c.Tools, t)
	}
}

func (f *fold) channelResumed(p *event.ChannelResumed) {
	f.s.Channels.Resumes++
	c := f.openChannel()
	c.RecoveryMode, c.ReplayFrom, c.LastSequence = p.RecoveryMode, p.ReplayFrom, p.LastSequence
	setIf(&c.ResumeTokenRef, p.ResumeTokenRef)
	c.NodeID = p.NodeID
}

func (f *fold) channelDisconnected(c *Channel, p *event.ChannelDisconnected) {
	all := &f.s.Channels
	all.Disconnects++
	c.Status, c.Reason, c.Detail = ChannelDisconnected, p.Reason, p.Detail
	c.ResumableForMs, c.ToolGraceMs, c.DisconnectedAt = p.ResumableForMs, p.ToolGraceMs, f.e.Time
	c.LastAcknowledged = max(c.LastAcknowledged, p.LastAcknowledged)
	i := indexWhere(all.Connected, func(x *Channel) bool { return x == c })
	if i < 0 {
		return
	}
	all.Connected = removed(all.Connected, i)
	if len(all.Disconnected) == keepRecent {
		f.evict("channel/"+all.Disconnected[0].ChannelID, all.Disconnected[0])
	}
	all.Disconnected = recent(all.Disconnected, c, keepRecent)
}

func (f *fold) permissionForwarded(c *Channel, p *event.ChannelPermissionForwarded) {
	c.takeBridge(p.ActionID)
	c.Pending = append(firstN(c.Pending, len(c.Pending)), Bridge{
		ActionID: p.ActionID, RequestedBy: p.RequestedBy, Target: p.Target,
		FinalDecider: p.FinalDecider, ChannelOnly: p.ChannelOnly, ForwardedAt: f.e.Time,
	})
}

func (f *fold) permissionReturned(c *Channel, p *event.ChannelPermissionReturned) {
	b := c.takeBridge(p.ActionID)
	b.ActionID, b.FinalDecider, b.ChannelOnly = p.ActionID, p.FinalDecider, p.ChannelOnly
	b.Decision, b.AnswerSource, b.DecidedBy, b.Reason = p.Decision, p.AnswerSource, p.DecidedBy, p.Reason
	b.ReturnedAt = f.e.Time
	c.Answered = pushed(c.Answered, b, keepBridges)
}

// takeBridge removes and returns a pending request.
func (c *Channel) takeBridge(actionID string) Bridge {
	var taken Bridge
	var rest []Bridge
	for _, b := range c.Pending {
		if b.ActionID == actionID {
			taken = b
			continue
		}
		rest = append(rest, b)
	}
	c.Pending = rest
	return taken
}

// GoneAt is when the wait for the channel's peer ends, which would carry out the
// calls that it was given; zero while it is connected.
func (c *Channel) GoneAt() time.Time {
	if c.Status == ChannelConnected {
		return time.Time{}
	}
	return c.DisconnectedAt.Add(time.Duration(c.ToolGraceMs) * time.Millisecond)
}

// Offers reports whether the peer said that it has a capability.
func (c *Channel) Offers(capability string) bool {
	return slices.Contains(c.Capabilities, capability)
}

// Forwarded reports whether the peer was asked about an action that has no answer yet.
func (c *Channel) Forwarded(actionID string) bool {
	for i := range c.Pending {
		if c.Pending[i].ActionID == actionID {
			return true
		}
	}
	return false
}
