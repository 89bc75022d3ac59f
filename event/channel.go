package event

// ChannelConnected says that a peer has a usable connection.
type ChannelConnected struct {
	Transport      string   `json:"transport" enum:"@channelTransport"`
	PeerRole       string   `json:"peerRole" enum:"@peerRole"`
	AccountRef     string   `json:"accountRef,omitempty"`
	Capabilities   []string `json:"capabilities,omitempty"`
	NativeProtocol string   `json:"nativeProtocol,omitempty"`
	AgentCardRef   string   `json:"agentCardRef,omitempty"`
	// ResumeTokenRef names the token; the token itself never appears.
	ResumeTokenRef string   `json:"resumeTokenRef,omitempty"`
	Sessions       []string `json:"sessions,omitempty"`
	ConnectedBy    *Actor   `json:"connectedBy,omitempty"`
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
	Reason               string   `json:"reason" enum:"closed heartbeat_timeout error shutdown replaced runtime_restart"`
	Detail               string   `json:"detail,omitempty"`
	LastAcknowledged     uint64   `json:"lastAcknowledged,omitempty"`
	ResumableForMs       int64    `json:"resumableForMs,omitempty"`
	PendingPermissionIDs []string `json:"pendingPermissionIds,omitempty"`
	// PendingToolCallIDs are the calls that the peer was to carry out. They, and those
	// that arrive in the meantime, are lost if it isn't back within ToolGraceMs.
	PendingToolCallIDs []string `json:"pendingToolCallIds,omitempty"`
	ToolGraceMs        int64    `json:"toolGraceMs,omitempty"`
}

// ChannelResumed says that a peer came back with its token.
type ChannelResumed struct {
	RecoveryMode   string `json:"recoveryMode" enum:"@recoveryMode"`
	ReplayFrom     uint64 `json:"replayFrom"`
	LastSequence   uint64 `json:"lastSequence"`
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
	// NodeID is the node that the peer is connected to, in the session that belongs to all
	// nodes.
	NodeID string `json:"nodeId,omitempty"`
}

// ChannelMessage is a message or a status on a channel that is not a turn.
type ChannelMessage struct {
	Direction  string `json:"direction" enum:"in out"`
	Kind       string `json:"kind" enum:"message status heartbeat acknowledgement clarification card"`
	Text       string `json:"text,omitempty"`
	MessageRef string `json:"messageRef,omitempty"`
	NativeID   string `json:"nativeId,omitempty"`
	// Acknowledged is the last sequence that the peer has, per acknowledgement.
	Acknowledged uint64 `json:"acknowledged,omitempty"`
	Body         Raw    `json:"body,omitempty"`
}

// ChannelPermissionForwarded says that a request for permission went to a peer.
type ChannelPermissionForwarded struct {
	ActionID    string `json:"actionId" check:"nonempty"`
	RequestedBy *Actor `json:"requestedBy" check:"nonnil"`
	// Target is the tool, process or action that the request is about.
	Target       string `json:"target" check:"nonempty"`
	FinalDecider string `json:"finalDecider" enum:"@finalDecider"`
	ChannelOnly  bool   `json:"channelOnly"`
}

// ChannelPermissionReturned is a peer's, or our own, answer to a forwarded request.
type ChannelPermissionReturned struct {
	ActionID     string `json:"actionId" check:"nonempty"`
	Decision     string `json:"decision" enum:"@approvalDecision"`
	AnswerSource string `json:"answerSource" enum:"user timeout policy host peer"`
	DecidedBy    *Actor `json:"decidedBy,omitempty"`
	FinalDecider string `json:"finalDecider" enum:"@finalDecider"`
	ChannelOnly  bool   `json:"channelOnly"`
	Reason       string `json:"reason,omitempty"`
}

// PeerTaskLinked joins a peer's task to a local one.
type PeerTaskLinked struct {
	NativeProtocol    string `json:"nativeProtocol" check:"nonempty"`
	Direction         string `json:"direction" enum:"@direction"`
	RemoteTaskID      string `json:"remoteTaskId" check:"nonempty"`
	RemoteContextID   string `json:"remoteContextId,omitempty"`
	RemoteAgentRef    string `json:"remoteAgentRef,omitempty"`
	AgentCardRef      string `json:"agentCardRef,omitempty"`
	DeliveryMechanism string `json:"deliveryMechanism,omitempty" enum:"@deliveryMechanism"`
	// RemoteMessageID is the peer's message that the task began with; Message is it
	// in the peer's own form, a large one is behind MessageRef.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	Message         Raw    `json:"message,omitempty"`
	MessageRef      string `json:"messageRef,omitempty"`
}

// PeerTaskUpdated is a change of a peer's task as the peer told it.
type PeerTaskUpdated struct {
	NativeProtocol     string   `json:"nativeProtocol,omitempty"`
	Direction          string   `json:"direction,omitempty" enum:"@direction"`
	RemoteTaskID       string   `json:"remoteTaskId" check:"nonempty"`
	RemoteContextID    string   `json:"remoteContextId,omitempty"`
	RemoteStatus       string   `json:"remoteStatus" check:"nonempty"`
	Status             string   `json:"status" enum:"@peerTaskStatus"`
	Reason             string   `json:"reason,omitempty"`
	RemoteArtifactRefs []string `json:"remoteArtifactRefs,omitempty"`
	MessageRef         string   `json:"messageRef,omitempty"`
	// RemoteMessageID is the peer's message that changed the task; Message is it in
	// the peer's own form.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	Message         Raw    `json:"message,omitempty"`
	// Settled says that the task's end and its artifacts are reconciled.
	Settled bool `json:"settled,omitempty"`
}

// PeerPushConfigured says where push notifications about a peer's task go.
type PeerPushConfigured struct {
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	RemoteTaskID   string `json:"remoteTaskId" check:"nonempty"`
	ConfigID       string `json:"configId" check:"nonempty"`
	// Target is the host that is notified.
	Target string `json:"target" check:"nonempty"`
	// Sealed is the whole configuration, encrypted: it holds credentials.
	Sealed       string `json:"sealed" check:"nonempty"`
	ConfiguredBy *Actor `json:"configuredBy,omitempty"`
}

// PeerPushRemoved ends push notifications about a peer's task.
type PeerPushRemoved struct {
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	RemoteTaskID   string `json:"remoteTaskId" check:"nonempty"`
	ConfigID       string `json:"configId" check:"nonempty"`
	RemovedBy      *Actor `json:"removedBy,omitempty"`
}

// PeerPushReported is what came of telling a peer.
type PeerPushReported struct {
	NativeProtocol string `json:"nativeProtocol" check:"nonempty"`
	RemoteTaskID   string `json:"remoteTaskId" check:"nonempty"`
	ConfigID       string `json:"configId" check:"nonempty"`
	Outcome        string `json:"outcome" enum:"@deliveryOutcome"`
	// Through is the sequence of the session up to which the peer was notified.
	Through      uint64 `json:"through"`
	RemoteStatus string `json:"remoteStatus,omitempty"`
	Attempts     int64  `json:"attempts,omitempty"`
	HTTPStatus   int64  `json:"httpStatus,omitempty"`
	Detail       string `json:"detail,omitempty"`
	// Final says that no more notifications follow.
	Final bool `json:"final,omitempty"`
}
