package event

// ChannelConnected says that a peer has a usable connection.
type ChannelConnected struct {
	Transport      string   `json:"transport" enum:"websocket sse json_rpc grpc http_json stdio in_process custom"`
	PeerRole       string   `json:"peerRole" enum:"client host worker remote_runtime peer_agent tool_server"`
	AccountRef     string   `json:"accountRef,omitempty"`
	Capabilities   []string `json:"capabilities,omitempty"`
	NativeProtocol string   `json:"nativeProtocol,omitempty"`
	AgentCardRef   string   `json:"agentCardRef,omitempty"`
	// ResumeTokenRef names the token; the token itself never appears.
	ResumeTokenRef string   `json:"resumeTokenRef,omitempty"`
	Sessions       []string `json:"sessions,omitempty"`
	ConnectedBy    *Actor   `json:"connectedBy,omitempty"`
}

// ChannelDisconnected says that a peer closed or fell silent. Its tasks go on.
type ChannelDisconnected struct {
	Reason               string   `json:"reason" enum:"closed heartbeat_timeout error shutdown replaced"`
	Detail               string   `json:"detail,omitempty"`
	LastAcknowledged     uint64   `json:"lastAcknowledged,omitempty"`
	ResumableForMs       int64    `json:"resumableForMs,omitempty"`
	PendingPermissionIDs []string `json:"pendingPermissionIds,omitempty"`
}

// ChannelResumed says that a peer came back with its token.
type ChannelResumed struct {
	RecoveryMode   string `json:"recoveryMode" enum:"replay snapshot_repair"`
	ReplayFrom     uint64 `json:"replayFrom"`
	LastSequence   uint64 `json:"lastSequence"`
	ResumeTokenRef string `json:"resumeTokenRef,omitempty"`
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
	FinalDecider string `json:"finalDecider" enum:"local remote"`
	ChannelOnly  bool   `json:"channelOnly"`
}

// ChannelPermissionReturned is a peer's, or our own, answer to a forwarded request.
type ChannelPermissionReturned struct {
	ActionID     string `json:"actionId" check:"nonempty"`
	Decision     string `json:"decision" enum:"allow deny timeout cancel"`
	AnswerSource string `json:"answerSource" enum:"user timeout policy host peer"`
	DecidedBy    *Actor `json:"decidedBy,omitempty"`
	FinalDecider string `json:"finalDecider" enum:"local remote"`
	ChannelOnly  bool   `json:"channelOnly"`
	Reason       string `json:"reason,omitempty"`
}

// PeerTaskLinked joins a peer's task to a local one.
type PeerTaskLinked struct {
	NativeProtocol    string `json:"nativeProtocol" check:"nonempty"`
	Direction         string `json:"direction" enum:"inbound outbound"`
	RemoteTaskID      string `json:"remoteTaskId" check:"nonempty"`
	RemoteContextID   string `json:"remoteContextId,omitempty"`
	RemoteAgentRef    string `json:"remoteAgentRef,omitempty"`
	AgentCardRef      string `json:"agentCardRef,omitempty"`
	DeliveryMechanism string `json:"deliveryMechanism,omitempty" enum:"polling streaming subscription push"`
}

// PeerTaskUpdated is a change of a peer's task as the peer told it.
type PeerTaskUpdated struct {
	RemoteTaskID       string   `json:"remoteTaskId" check:"nonempty"`
	RemoteStatus       string   `json:"remoteStatus" check:"nonempty"`
	Status             string   `json:"status" enum:"running idle waiting_input waiting_permission completed_unreconciled completed failed cancelled rejected missing unreachable unknown"`
	Reason             string   `json:"reason,omitempty"`
	RemoteArtifactRefs []string `json:"remoteArtifactRefs,omitempty"`
	MessageRef         string   `json:"messageRef,omitempty"`
}
