package command

import (
	"context"
	"time"

	"agentd/event"
)

// ConnectChannel opens a channel for a remote peer.
type ConnectChannel struct {
	Mutation
	// ChannelID is the channel's id; made if absent.
	ChannelID string `json:"channelId,omitempty" check:"id"`
	// Transport that the peer uses.
	Transport string `json:"transport" enum:"@channelTransport"`
	// PeerRole says what the peer is.
	PeerRole string `json:"peerRole" enum:"@peerRole"`
	// AccountRef names the peer's account; never a credential.
	AccountRef string `json:"accountRef,omitempty" max:"1000"`
	// Capabilities that the peer offers.
	Capabilities []string `json:"capabilities,omitempty" max:"100"`
	// NativeProtocol of the peer, such as a2a.
	NativeProtocol string `json:"nativeProtocol,omitempty" max:"128"`
	// SessionID that the channel follows; reconnect_channel and ack_events add others.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Tools that the peer carries out for the sessions that it follows, while it is
	// connected.
	Tools []event.ChannelTool `json:"tools,omitempty" max:"64"`
}

// Command implements [Params].
func (*ConnectChannel) Command() Name                 { return "connect_channel" }
func (*ConnectChannel) returns(*ConnectChannelResult) {}

// NewID implements [Creating].
func (p *ConnectChannel) NewID() (noun, id string) { return "channel", p.ChannelID }

// Validate implements [Params].
func (p *ConnectChannel) Validate() error { return check(p) }

// ConnectChannelResult is the new channel.
type ConnectChannelResult struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// ResumeToken lets the peer come back; only its hash is kept.
	ResumeToken string `json:"resumeToken" secret:"pass"`
}

// ReconnectChannel brings a peer back.
type ReconnectChannel struct {
	Mutation
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId" check:"id"`
	// ResumeToken that the peer received; a wrong one is forbidden.
	ResumeToken string `json:"resumeToken" max:"4096" secret:"pass"`
	// SessionID to follow; the channel's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// LastSequence that the peer has; the last acknowledged one if absent.
	LastSequence *uint64 `json:"lastSequence,omitempty"`
}

// Command implements [Params].
func (*ReconnectChannel) Command() Name                   { return "reconnect_channel" }
func (*ReconnectChannel) returns(*ReconnectChannelResult) {}

// Validate implements [Params].
func (p *ReconnectChannel) Validate() error { return check(p) }

// ReconnectChannelResult says how the peer catches up.
type ReconnectChannelResult struct {
	// Snapshot of the session; absent for a channel that follows none that the
	// caller may see.
	Snapshot event.Raw `json:"snapshot,omitempty" as:"session_snapshot"`
	// ReplayFrom is the first sequence that is redelivered.
	ReplayFrom uint64 `json:"replayFrom"`
	// RecoveryMode is snapshot_repair where redelivery from the cursor is impossible.
	RecoveryMode string `json:"recoveryMode" enum:"@recoveryMode"`
	// Gap is what can't be redelivered, if anything.
	Gap *ChannelGap `json:"gap,omitempty"`
}

// ChannelGap is a part of a session that can no longer be sent to a peer.
type ChannelGap struct {
	// From is the first sequence that is missing.
	From uint64 `json:"from"`
	// To is the last sequence that is missing.
	To uint64 `json:"to"`
	// Reason is retention, or cursor_past_end for a cursor beyond the session's end.
	Reason string `json:"reason" enum:"retention cursor_past_end"`
}

// SendChannelMessage records a message of a channel's peer that is not a turn.
type SendChannelMessage struct {
	Mutation
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId" check:"id"`
	// SessionID that the message is about; the channel's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Kind of the message; message if absent.
	Kind string `json:"kind,omitempty" enum:"message status clarification"`
	// Text of the message.
	Text string `json:"text" max:"65536"`
	// Body is the message in the peer's own form.
	Body event.Raw `json:"body,omitempty" check:"object"`
	// NativeID is the message's id in the peer's own words.
	NativeID string `json:"nativeId,omitempty" max:"1024"`
}

// Command implements [Params].
func (*SendChannelMessage) Command() Name                     { return "send_channel_message" }
func (*SendChannelMessage) returns(*SendChannelMessageResult) {}

// Validate implements [Params].
func (p *SendChannelMessage) Validate() error { return check(p) }

// SendChannelMessageResult says where the message was recorded.
type SendChannelMessageResult struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// SessionID that the message is recorded in.
	SessionID string `json:"sessionId"`
	// Sequence of channel.message.
	Sequence uint64 `json:"sequence"`
}

// AckEvents says how far a peer has got.
type AckEvents struct {
	Mutation
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId" check:"id"`
	// SessionID of the sequence; the channel's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Sequence of the last event that the peer has.
	Sequence uint64 `json:"sequence" min:"1"`
}

// Command implements [Params].
func (*AckEvents) Command() Name          { return "ack_events" }
func (*AckEvents) returns(*ChannelResult) {}

// Validate implements [Params].
func (p *AckEvents) Validate() error { return check(p) }

// DisconnectChannel closes a channel. What the peer asked for goes on.
type DisconnectChannel struct {
	Mutation
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*DisconnectChannel) Command() Name          { return "disconnect_channel" }
func (*DisconnectChannel) returns(*ChannelResult) {}

// Validate implements [Params].
func (p *DisconnectChannel) Validate() error { return check(p) }

// ChannelResult is a channel's standing after a command.
type ChannelResult struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// Status of the channel: connected or disconnected.
	Status string `json:"status"`
	// LastAcknowledged is the last sequence that the peer said it has.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
}

// ListChannels lists channels.
type ListChannels struct {
	Page
	// SessionID keeps the channels that follow one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
}

// Command implements [Params].
func (*ListChannels) Command() Name               { return "list_channels" }
func (*ListChannels) returns(*ListChannelsResult) {}

// Validate implements [Params].
func (p *ListChannels) Validate() error { return check(p) }

// ListChannelsResult is a page of channels.
type ListChannelsResult struct {
	// Channels of this page.
	Channels []ChannelRecord `json:"channels"`
	// Total counts the channels that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ChannelRecord is the record of a channel.
type ChannelRecord struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// Status is connected, disconnected, or unknown where the facts say connected
	// and another process would have to know.
	Status string `json:"status"`
	// Transport that the peer uses.
	Transport string `json:"transport,omitempty"`
	// PeerRole says what the peer is.
	PeerRole string `json:"peerRole,omitempty"`
	// AccountRef names the peer's account.
	AccountRef string `json:"accountRef,omitempty"`
	// Capabilities that the peer offers.
	Capabilities []string `json:"capabilities,omitempty"`
	// NativeProtocol of the peer.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// Sessions that the channel follows.
	Sessions []string `json:"sessions,omitempty"`
	// Links say how the channel stands to each session that it follows.
	Links []ChannelLink `json:"links,omitempty"`
	// Tools are the names of those that the peer carries out.
	Tools []string `json:"tools,omitempty"`
	// LastAcknowledged is the last sequence that the peer said it has: of the
	// session that was asked about, or else of the one that it was opened with.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
	// ConnectedAt is when the peer connected last.
	ConnectedAt time.Time `json:"connectedAt,omitzero"`
	// LastSeenAt is when the peer last gave a sign of life, as far as is known.
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
	// ResumeTokenRef names the resume token without being of use as one.
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
}

// ChannelLink is how a channel stands to one session.
type ChannelLink struct {
	// SessionID that the channel follows.
	SessionID string `json:"sessionId"`
	// Status of the channel in that session.
	Status string `json:"status"`
	// LastAcknowledged is the last sequence of the session that the peer has.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
	// Reason why it is disconnected.
	Reason string `json:"reason,omitempty"`
	// Since is when it connected or disconnected.
	Since time.Time `json:"since,omitzero"`
}

// ChannelFollower is a [Runtime] that needs to know which streams belong to channels.
type ChannelFollower interface {
	// FollowChannel says that a stream of a session now goes to a channel's peer. A
	// channel that is not connected in that session is a conflict.
	FollowChannel(ctx context.Context, c Caller, channelID, sessionID string) (ChannelStream, error)
}

// ChannelStream is a stream that belongs to a channel. Its methods may be called
// by many goroutines.
type ChannelStream interface {
	// After is the last sequence that the peer acknowledged when the stream began.
	After() uint64
	// Context ends with the one that FollowChannel was given, and when the connection
	// is over although the stream isn't: the peer came back on another one, or
	// disconnected the channel.
	Context() context.Context
	// Left says that the stream ended, and why: closed, shutdown, error, or
	// unsubscribed where the connection goes on. It is called once.
	Left(reason string)
}
