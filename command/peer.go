package command

import (
	"time"

	"agentd/event"
)

// PeerStep says that a command is a step of a peer, in the peer's own names. The
// fact of the step has both identities and is written together with what the
// command does.
type PeerStep struct {
	// ChannelID is the channel that the step came through.
	ChannelID string `json:"channelId" check:"id"`
	// NativeProtocol of the peer, such as a2a.
	NativeProtocol string `json:"nativeProtocol" max:"128"`
	// RemoteTaskID is the task as the peer knows it.
	RemoteTaskID string `json:"remoteTaskId" max:"256" secret:"refuse"`
	// RemoteContextID is the conversation as the peer knows it.
	RemoteContextID string `json:"remoteContextId,omitempty" max:"1024" secret:"refuse"`
	// RemoteMessageID is the peer's message that the step is about.
	RemoteMessageID string `json:"remoteMessageId,omitempty" max:"1024" secret:"refuse"`
	// RemoteAgentRef names the peer; never a credential.
	RemoteAgentRef string `json:"remoteAgentRef,omitempty" max:"1024"`
	// RemoteStatus is the task's state in the peer's words.
	RemoteStatus string `json:"remoteStatus,omitempty" max:"128"`
	// DeliveryMechanism says how the peer learns what becomes of the task.
	DeliveryMechanism string `json:"deliveryMechanism,omitempty" enum:"@deliveryMechanism"`
	// Message is the peer's message in its own form.
	Message event.Raw `json:"message,omitempty" check:"object"`
}

// PeerTaskKey names a peer's task.
type PeerTaskKey struct {
	// NativeProtocol of the peer, such as a2a.
	NativeProtocol string `json:"nativeProtocol" max:"128"`
	// RemoteTaskID is the task as the peer knows it.
	RemoteTaskID string `json:"remoteTaskId" max:"256" secret:"refuse"`
	// Direction is inbound for work that a peer gave us (default), outbound for
	// work that we gave a peer.
	Direction string `json:"direction,omitempty" enum:"@direction"`
}

// GetPeerTask returns what joins a peer's task to a local one.
type GetPeerTask struct {
	PeerTaskKey
}

// Command implements [Params].
func (*GetPeerTask) Command() Name           { return "get_peer_task" }
func (*GetPeerTask) returns(*PeerTaskRecord) {}

// Validate implements [Params].
func (p *GetPeerTask) Validate() error { return check(p) }

// PeerTaskRecord joins a peer's task to a local one.
type PeerTaskRecord struct {
	// NativeProtocol of the peer.
	NativeProtocol string `json:"nativeProtocol"`
	// Direction is inbound or outbound.
	Direction string `json:"direction" enum:"@direction"`
	// RemoteTaskID is the task as the peer knows it.
	RemoteTaskID string `json:"remoteTaskId" secret:"refuse"`
	// RemoteContextID is the conversation as the peer knows it.
	RemoteContextID string `json:"remoteContextId,omitempty" secret:"refuse"`
	// Account that the task belongs to.
	Account string `json:"account,omitempty"`
	// SessionID of the local task.
	SessionID string `json:"sessionId"`
	// ThreadID of the turn that works on it.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that works on it.
	TurnID string `json:"turnId,omitempty"`
	// TaskID is the local task.
	TaskID string `json:"taskId"`
	// ChannelID is the channel that the task came through.
	ChannelID string `json:"channelId"`
	// Status is how the task stands, in our words.
	Status string `json:"status"`
	// StatusAt is when it got that status.
	StatusAt time.Time `json:"statusAt"`
	// Sequence of the fact that joined the two.
	Sequence uint64 `json:"sequence"`
}

// ListPeerTasks lists the tasks of peers, those whose status changed last first.
type ListPeerTasks struct {
	Page
	// NativeProtocol of the peers, such as a2a.
	NativeProtocol string `json:"nativeProtocol" max:"128"`
	// Direction is inbound (default) or outbound.
	Direction string `json:"direction,omitempty" enum:"@direction"`
	// RemoteContextID keeps the tasks of one conversation.
	RemoteContextID string `json:"remoteContextId,omitempty" max:"1024" secret:"refuse"`
	// Status keeps the tasks with one of these statuses.
	Status []string `json:"status,omitempty" enum:"@peerTaskStatus" max:"20"`
	// StatusAfter keeps the tasks whose status changed at that time or later.
	StatusAfter time.Time `json:"statusAfter,omitzero"`
	// Unsettled keeps the tasks whose end was not reconciled yet.
	Unsettled bool `json:"unsettled,omitempty"`
	// All lists the tasks of every account; for admins.
	All bool `json:"all,omitempty"`
}

// Command implements [Params].
func (*ListPeerTasks) Command() Name                { return "list_peer_tasks" }
func (*ListPeerTasks) returns(*ListPeerTasksResult) {}

// Validate implements [Params].
func (p *ListPeerTasks) Validate() error { return check(p) }

// ListPeerTasksResult is a page of peers' tasks.
type ListPeerTasksResult struct {
	// PeerTasks of this page.
	PeerTasks []PeerTaskRecord `json:"peerTasks"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
	// Total counts the tasks of all pages.
	Total int64 `json:"total"`
}

// SettlePeerTask records that the end of a peer's task was reconciled: its
// artifacts are known here, and the peer can learn the end.
type SettlePeerTask struct {
	Mutation
	PeerTaskKey
	// RemoteStatus is the end in the peer's words.
	RemoteStatus string `json:"remoteStatus" max:"128"`
	// Artifacts are what the task delivered.
	Artifacts []PeerArtifact `json:"artifacts,omitempty" max:"1000"`
}

// PeerArtifact is something that a peer's task delivered.
type PeerArtifact struct {
	// ArtifactID is the artifact's id.
	ArtifactID string `json:"artifactId" check:"id"`
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// MediaType of the content.
	MediaType string `json:"mediaType,omitempty" max:"256"`
	// SizeBytes of the content.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// ReadRef is a reference that agentd made.
	ReadRef string `json:"readRef,omitempty" max:"1024"`
	// URI of the content, where it has one.
	URI string `json:"uri,omitempty" max:"4096"`
	// Text is the content; it is stored, and readRef then refers to it.
	Text string `json:"text,omitempty" max:"33554432"`
}

// Command implements [Params].
func (*SettlePeerTask) Command() Name           { return "settle_peer_task" }
func (*SettlePeerTask) returns(*PeerTaskRecord) {}

// Validate implements [Params].
func (p *SettlePeerTask) Validate() error { return check(p) }

// SetPeerPush configures push notifications about a peer's task.
type SetPeerPush struct {
	Mutation
	PeerTaskKey
	// ConfigID names the wish within the task.
	ConfigID string `json:"configId" max:"256" secret:"refuse"`
	// Target is the host that is notified, for display.
	Target string `json:"target" max:"1024"`
	// Sealed is the whole configuration, encrypted: it holds credentials.
	Sealed string `json:"sealed" max:"65536" secret:"pass"`
}

// Command implements [Params].
func (*SetPeerPush) Command() Name           { return "set_peer_push" }
func (*SetPeerPush) returns(*PeerPushResult) {}

// Validate implements [Params].
func (p *SetPeerPush) Validate() error { return check(p) }

// RemovePeerPush removes a push configuration. A missing one is not an error.
type RemovePeerPush struct {
	Mutation
	PeerTaskKey
	// ConfigID names the wish within the task.
	ConfigID string `json:"configId" max:"256" secret:"refuse"`
}

// Command implements [Params].
func (*RemovePeerPush) Command() Name           { return "remove_peer_push" }
func (*RemovePeerPush) returns(*PeerPushResult) {}

// Validate implements [Params].
func (p *RemovePeerPush) Validate() error { return check(p) }

// ReportPeerPush records what came of telling a peer.
type ReportPeerPush struct {
	Mutation
	PeerTaskKey
	// ConfigID names the wish within the task.
	ConfigID string `json:"configId" max:"256" secret:"refuse"`
	// Outcome of the attempts.
	Outcome string `json:"outcome" enum:"@deliveryOutcome"`
	// Through is the sequence of the session up to which the peer was notified.
	Through uint64 `json:"through,omitempty"`
	// RemoteStatus is the last state that the peer was notified of.
	RemoteStatus string `json:"remoteStatus,omitempty" max:"128"`
	// Attempts counts the requests since the last report.
	Attempts int64 `json:"attempts,omitempty"`
	// HTTPStatus of the last answer.
	HTTPStatus int64 `json:"httpStatus,omitempty"`
	// Detail for people; never a credential.
	Detail string `json:"detail,omitempty" max:"1000"`
	// Final says that no more notifications follow.
	Final bool `json:"final,omitempty"`
}

// Command implements [Params].
func (*ReportPeerPush) Command() Name           { return "report_peer_push" }
func (*ReportPeerPush) returns(*PeerPushResult) {}

// Validate implements [Params].
func (p *ReportPeerPush) Validate() error { return check(p) }

// PeerPushResult names a push configuration after a change.
type PeerPushResult struct {
	// ConfigID names the wish within the task.
	ConfigID string `json:"configId" secret:"refuse"`
	// Changed is false if everything was like that already.
	Changed bool `json:"changed"`
}

// ListPeerPushes lists the push configurations of peers' tasks.
type ListPeerPushes struct {
	Page
	// NativeProtocol of the peers, such as a2a.
	NativeProtocol string `json:"nativeProtocol" max:"128"`
	// RemoteTaskID keeps the wishes about one task.
	RemoteTaskID string `json:"remoteTaskId,omitempty" max:"256" secret:"refuse"`
	// Unfinished keeps those with something left to tell.
	Unfinished bool `json:"unfinished,omitempty"`
	// All lists those of every account; for admins.
	All bool `json:"all,omitempty"`
}

// Command implements [Params].
func (*ListPeerPushes) Command() Name                 { return "list_peer_pushes" }
func (*ListPeerPushes) returns(*ListPeerPushesResult) {}

// Validate implements [Params].
func (p *ListPeerPushes) Validate() error { return check(p) }

// ListPeerPushesResult is a page of push configurations.
type ListPeerPushesResult struct {
	// Pushes of this page, ordered by account, task and id.
	Pushes []PeerPushRecord `json:"pushes"`
	// Total counts the push configurations that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// PeerPushRecord is a push configuration of a peer's task and its progress.
type PeerPushRecord struct {
	// NativeProtocol of the peer.
	NativeProtocol string `json:"nativeProtocol"`
	// RemoteTaskID is the task as the peer knows it.
	RemoteTaskID string `json:"remoteTaskId" secret:"refuse"`
	// Account that the task belongs to.
	Account string `json:"account,omitempty"`
	// ConfigID names the wish within the task.
	ConfigID string `json:"configId" secret:"refuse"`
	// Target is the host that is notified.
	Target string `json:"target"`
	// Sealed is the whole configuration, encrypted.
	Sealed string `json:"sealed"`
	// Outcome of the last attempts; absent before the first.
	Outcome string `json:"outcome,omitempty"`
	// Through is the sequence of the session up to which the peer was notified.
	Through uint64 `json:"through,omitempty"`
	// Final says that no more notifications follow.
	Final bool `json:"final,omitempty"`
}
