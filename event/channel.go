package event

// ChannelConnected says that a peer has a usable connection.
type ChannelConnected struct {
	// Transport is how the peer is connected.
	Transport string `json:"transport" enum:"@channelTransport"`
	// PeerRole says what the peer is.
	PeerRole string `json:"peerRole" enum:"@peerRole"`
	// AccountRef is the account of the peer.
	AccountRef string `json:"accountRef,omitempty"`
	// Capabilities are what the peer can do.
	Capabilities []string `json:"capabilities,omitempty"`
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// AgentCardRef is where the peer's card is.
	AgentCardRef string `json:"agentCardRef,omitempty"`
	// ResumeTokenRef names the token; the token itself never appears.
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
	// Sessions are those that the channel follows.
	Sessions []string `json:"sessions,omitempty"`
	// ConnectedBy is who opened the channel.
	ConnectedBy *Actor `json:"connectedBy,omitempty"`
	// EnrolledRole is the role of the token that opened the channel.
	EnrolledRole string `json:"enrolledRole,omitempty" enum:"client admin"`
	// HomeSession is where the channel was opened, in the facts of other sessions
	// that it follows.
	HomeSession string `json:"homeSession,omitempty"`
	// Tools are those that the peer carries out.
	Tools []ChannelTool `json:"tools,omitempty"`
	// NodeID is the node that the peer is connected to, in the session that belongs to all
	// nodes.
	NodeID string `json:"nodeId,omitempty"`
}

// ChannelTool is a tool that the peer of a channel carries out.
type ChannelTool struct {
	// ToolName is what the model calls it by: 1 to 64 of A-Z a-z 0-9 _ -.
	ToolName string `json:"toolName" check:"nonempty"`
	// Description for the model.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON Schema of the input.
	InputSchema Raw `json:"inputSchema,omitempty"`
	// TimeoutMs is how long the peer may take; 0 means the default.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// IsReadOnly says that a call changes nothing.
	IsReadOnly bool `json:"isReadOnly,omitempty"`
	// IsDestructive says that a call may destroy something.
	IsDestructive bool `json:"isDestructive,omitempty"`
	// IsConcurrencySafe says that calls may run beside each other.
	IsConcurrencySafe bool `json:"isConcurrencySafe,omitempty"`
}

// ChannelDisconnected says that a peer closed or fell silent. Its tasks go on.
type ChannelDisconnected struct {
	// Reason says why the connection ended.
	Reason string `json:"reason" enum:"closed heartbeat_timeout error shutdown replaced runtime_restart"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
	// LastAcknowledged is the last sequence that the peer said it has.
	LastAcknowledged uint64 `json:"lastAcknowledged,omitempty"`
	// ResumableForMs is how long the peer may come back with its token, in milliseconds.
	ResumableForMs int64 `json:"resumableForMs,omitempty"`
	// PendingPermissionIDs are the requests for permission that the peer has not answered.
	PendingPermissionIDs []string `json:"pendingPermissionIds,omitempty"`
	// PendingToolCallIDs are the calls that the peer was to carry out. They, and those
	// that arrive in the meantime, are lost if it isn't back within ToolGraceMs.
	PendingToolCallIDs []string `json:"pendingToolCallIds,omitempty"`
	// ToolGraceMs is how long calls wait for the peer, in milliseconds.
	ToolGraceMs int64 `json:"toolGraceMs,omitempty"`
}

// ChannelResumed says that a peer came back with its token.
type ChannelResumed struct {
	// RecoveryMode says how the peer gets what it missed.
	RecoveryMode string `json:"recoveryMode" enum:"@recoveryMode"`
	// ReplayFrom is the first sequence that is sent again.
	ReplayFrom uint64 `json:"replayFrom"`
	// LastSequence is the last sequence that the peer said it has.
	LastSequence uint64 `json:"lastSequence"`
	// ResumeTokenRef names the token; the token itself never appears.
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
	// NodeID is the node that the peer is connected to, in the session that belongs to all
	// nodes.
	NodeID string `json:"nodeId,omitempty"`
}

// ChannelMessage is a message or a status on a channel that is not a turn.
type ChannelMessage struct {
	// Direction says whether the peer sent it (in) or got it (out).
	Direction string `json:"direction" enum:"in out"`
	// Kind says what it is.
	Kind string `json:"kind" enum:"message status heartbeat acknowledgement clarification card"`
	// Text is the message, or its beginning.
	Text string `json:"text,omitempty"`
	// MessageRef is where a large message is.
	MessageRef string `json:"messageRef,omitempty"`
	// NativeID is the peer's own id of the message.
	NativeID string `json:"nativeId,omitempty"`
	// Acknowledged is the last sequence that the peer has, per acknowledgement.
	Acknowledged uint64 `json:"acknowledged,omitempty"`
	// Body is the message in its own form.
	Body Raw `json:"body,omitempty"`
}

// ChannelPermissionForwarded says that a request for permission went to a peer.
type ChannelPermissionForwarded struct {
	// ActionID is the action that asks.
	ActionID string `json:"actionId" check:"nonempty"`
	// RequestedBy is who needs the permission.
	RequestedBy *Actor `json:"requestedBy" check:"nonnil"`
	// Target is the tool, process or action that the request is about.
	Target string `json:"target" check:"nonempty"`
	// FinalDecider says whose answer counts.
	FinalDecider string `json:"finalDecider" enum:"@finalDecider"`
	// ChannelOnly says that only this peer can answer.
	ChannelOnly bool `json:"channelOnly"`
}

// ChannelPermissionReturned is a peer's, or our own, answer to a forwarded request.
type ChannelPermissionReturned struct {
	// ActionID is the action that asked.
	ActionID string `json:"actionId" check:"nonempty"`
	// Decision is the answer.
	Decision string `json:"decision" enum:"@approvalDecision"`
	// AnswerSource says where the answer comes from.
	AnswerSource string `json:"answerSource" enum:"user timeout policy host peer"`
	// DecidedBy is who answered.
	DecidedBy *Actor `json:"decidedBy,omitempty"`
	// FinalDecider says whose answer counts.
	FinalDecider string `json:"finalDecider" enum:"@finalDecider"`
	// ChannelOnly says that only this peer could answer.
	ChannelOnly bool `json:"channelOnly"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// PeerTaskLinked joins a peer's task to a local one.
type PeerTaskLinked struct {
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	// Direction is inbound for work that the peer asked for, outbound for work that it was
	// given.
	Direction string `json:"direction" enum:"@direction"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId" check:"nonempty"`
	// RemoteContextID is the peer's id of the conversation.
	RemoteContextID string `json:"remoteContextId,omitempty"`
	// RemoteAgentRef is where the peer is.
	RemoteAgentRef string `json:"remoteAgentRef,omitempty"`
	// AgentCardRef is where the peer's card is.
	AgentCardRef string `json:"agentCardRef,omitempty"`
	// DeliveryMechanism says how changes of the task reach the other side.
	DeliveryMechanism string `json:"deliveryMechanism,omitempty" enum:"@deliveryMechanism"`
	// RemoteMessageID is the peer's message that the task began with; Message is it
	// in the peer's own form, a large one is behind MessageRef.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	// Message is the peer's message in its own form.
	Message Raw `json:"message,omitempty"`
	// MessageRef is where a large message is.
	MessageRef string `json:"messageRef,omitempty"`
}

// PeerTaskUpdated is a change of a peer's task as the peer told it.
type PeerTaskUpdated struct {
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// Direction is inbound for work that the peer asked for, outbound for work that it was
	// given.
	Direction string `json:"direction,omitempty" enum:"@direction"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId" check:"nonempty"`
	// RemoteContextID is the peer's id of the conversation.
	RemoteContextID string `json:"remoteContextId,omitempty"`
	// RemoteStatus is the status in the peer's own words.
	RemoteStatus string `json:"remoteStatus" check:"nonempty"`
	// Status is what that means here.
	Status string `json:"status" enum:"@peerTaskStatus"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// RemoteArtifactRefs point to what the peer delivered.
	RemoteArtifactRefs []string `json:"remoteArtifactRefs,omitempty"`
	// MessageRef is where a large message is.
	MessageRef string `json:"messageRef,omitempty"`
	// RemoteMessageID is the peer's message that changed the task; Message is it in
	// the peer's own form.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	// Message is the peer's message in its own form.
	Message Raw `json:"message,omitempty"`
	// Settled says that the task's end and its artifacts are reconciled.
	Settled bool `json:"settled,omitempty"`
}

// PeerPushConfigured says where push notifications about a peer's task go.
type PeerPushConfigured struct {
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId" check:"nonempty"`
	// ConfigID is the id of the configuration of notifications.
	ConfigID string `json:"configId" check:"nonempty"`
	// Target is the host that is notified.
	Target string `json:"target" check:"nonempty"`
	// Sealed is the whole configuration, encrypted: it holds credentials.
	Sealed string `json:"sealed" check:"nonempty"`
	// ConfiguredBy is who configured it.
	ConfiguredBy *Actor `json:"configuredBy,omitempty"`
}

// PeerPushRemoved ends push notifications about a peer's task.
type PeerPushRemoved struct {
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId" check:"nonempty"`
	// ConfigID is the id of the configuration of notifications.
	ConfigID string `json:"configId" check:"nonempty"`
	// RemovedBy is who removed it.
	RemovedBy *Actor `json:"removedBy,omitempty"`
}

// PeerPushReported is what came of telling a peer.
type PeerPushReported struct {
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId" check:"nonempty"`
	// ConfigID is the id of the configuration of notifications.
	ConfigID string `json:"configId" check:"nonempty"`
	// Outcome says what came of it.
	Outcome string `json:"outcome" enum:"@deliveryOutcome"`
	// Through is the sequence of the session up to which the peer was notified.
	Through uint64 `json:"through"`
	// RemoteStatus is the status that the peer was told.
	RemoteStatus string `json:"remoteStatus,omitempty"`
	// Attempts counts how often it was tried.
	Attempts int64 `json:"attempts,omitempty"`
	// HTTPStatus is the status of the peer's answer.
	HTTPStatus int64 `json:"httpStatus,omitempty"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
	// Final says that no more notifications follow.
	Final bool `json:"final,omitempty"`
}
