package command

import (
	"time"

	"agentd/event"
)

// ConnectChannel opens a channel for a remote peer.
type ConnectChannel struct {
	Mutation
	// ChannelID is the channel's id; made if absent.
	ChannelID string `json:"channelId,omitempty" check:"id"`
	// Transport that the peer uses.
	Transport string `json:"transport" enum:"websocket sse json_rpc grpc http_json stdio in_process custom"`
	// PeerRole says what the peer is.
	PeerRole string `json:"peerRole" enum:"client host worker remote_runtime peer_agent tool_server"`
	// AccountRef names the peer's account; never a credential.
	AccountRef string `json:"accountRef,omitempty" max:"1000"`
	// Capabilities that the peer offers.
	Capabilities []string `json:"capabilities,omitempty" max:"100"`
	// NativeProtocol of the peer, such as a2a.
	NativeProtocol string `json:"nativeProtocol,omitempty" max:"128"`
	// SessionID that the channel follows.
	SessionID string `json:"sessionId,omitempty" check:"id"`
}

// Command implements [Params].
func (*ConnectChannel) Command() Name { return "connect_channel" }

// Validate implements [Params].
func (p *ConnectChannel) Validate() error { return check(p) }

// ConnectChannelResult is the new channel.
type ConnectChannelResult struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// ResumeToken lets the peer come back; it is shown once.
	ResumeToken string `json:"resumeToken"`
}

// ReconnectChannel brings a peer back.
type ReconnectChannel struct {
	Mutation
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId" check:"id"`
	// ResumeToken that the peer received; a wrong one is forbidden.
	ResumeToken string `json:"resumeToken" max:"4096"`
	// SessionID to follow; the channel's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// LastSequence that the peer has; the last acknowledged one if absent.
	LastSequence *uint64 `json:"lastSequence,omitempty"`
}

// Command implements [Params].
func (*ReconnectChannel) Command() Name { return "reconnect_channel" }

// Validate implements [Params].
func (p *ReconnectChannel) Validate() error { return check(p) }

// ReconnectChannelResult says how the peer catches up.
type ReconnectChannelResult struct {
	// Snapshot of the session.
	Snapshot event.Raw `json:"snapshot" as:"session_snapshot"`
	// ReplayFrom is the first sequence that is sent again.
	ReplayFrom uint64 `json:"replayFrom"`
	// RecoveryMode is snapshot_repair where the cursor can't be replayed.
	RecoveryMode string `json:"recoveryMode" enum:"replay snapshot_repair"`
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
func (*AckEvents) Command() Name { return "ack_events" }

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
func (*DisconnectChannel) Command() Name { return "disconnect_channel" }

// Validate implements [Params].
func (p *DisconnectChannel) Validate() error { return check(p) }

// ChannelResult is a channel's standing after a command.
type ChannelResult struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// Status of the channel.
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
func (*ListChannels) Command() Name { return "list_channels" }

// Validate implements [Params].
func (p *ListChannels) Validate() error { return check(p) }

// ListChannelsResult is a page of channels.
type ListChannelsResult struct {
	// Channels of this page.
	Channels []ChannelRecord `json:"channels"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ChannelRecord is what callers may rely on in the record of a channel.
type ChannelRecord struct {
	// ChannelID is the channel's id.
	ChannelID string `json:"channelId"`
	// Status of the channel.
	Status string `json:"status"`
	// Transport that the peer uses.
	Transport string `json:"transport,omitempty"`
	// PeerRole says what the peer is.
	PeerRole string `json:"peerRole,omitempty"`
	// NativeProtocol of the peer.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// Sessions that the channel follows.
	Sessions []string `json:"sessions,omitempty"`
	// LastAcknowledged is the last sequence that the peer said it has.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
	// ConnectedAt is when the peer connected last.
	ConnectedAt time.Time `json:"connectedAt,omitzero"`
}

// ReadModel implements [ReadModel].
func (ChannelRecord) ReadModel() string { return "channel" }
