package event

import "time"

// Actor says who or what asked for something.
type Actor struct {
	// Kind of the actor.
	Kind string `json:"kind" enum:"user agent runtime worker channel workflow schedule peer host unknown"`
	// ID of the actor within its kind: a token's name, a subagent, a channel.
	ID string `json:"id,omitempty"`
	// Account that the actor belongs to.
	Account string `json:"account,omitempty"`
}

// Failure is a structured error. Message is for people; programs look at Category.
type Failure struct {
	// Message for people.
	Message string `json:"message" check:"nonempty"`
	// Category for programs.
	Category string `json:"category,omitempty"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable"`
	// Advice says what to do next.
	Advice string `json:"advice,omitempty"`
}

// Usage counts tokens. Cached input tokens are part of the input tokens.
type Usage struct {
	// InputTokens that the model was given, cached ones included.
	InputTokens int64 `json:"inputTokens"`
	// OutputTokens that the model gave, those of its reasoning included.
	OutputTokens int64 `json:"outputTokens"`
	// CachedInputTokens are the part of the input that the provider had kept.
	CachedInputTokens int64 `json:"cachedInputTokens,omitempty"`
	// CacheWriteInputTokens are the part of the input that the provider kept for later
	// requests, where it says so: some charge more for it.
	CacheWriteInputTokens int64 `json:"cacheWriteInputTokens,omitempty"`
	// ReasoningTokens are the part of the output that was reasoning.
	ReasoningTokens int64 `json:"reasoningTokens,omitempty"`
}

// Workspace is the folder that a session works in.
type Workspace struct {
	// WorkspaceID names the workspace.
	WorkspaceID string `json:"workspaceId,omitempty" secret:"refuse"`
	// Root is the folder's path.
	Root string `json:"root,omitempty" secret:"refuse"`
}

// WorkspacePlace says where the files of a session are: on the disk of a node, or on a file
// system that the nodes of a pool share.
type WorkspacePlace struct {
	// Node is the node that found the folder.
	Node string `json:"node" check:"nonempty"`
	// Pool names the nodes that reach the folder too, at the same path.
	Pool string `json:"pool,omitempty"`
	// Root is the folder's path.
	Root string `json:"root" check:"nonempty" secret:"refuse"`
	// Folder tells the folder from any other of the same path, on the same machine.
	Folder string `json:"folder,omitempty"`
	// Away says that no node reaches the folder any more, and why; empty while one does.
	Away string `json:"away,omitempty"`
}

// SessionCreated is the first fact of every session.
type SessionCreated struct {
	// Title is the name of the session, for people.
	Title string `json:"title,omitempty"`
	// Account owns the session; absent for the operator.
	Account string `json:"account,omitempty"`
	// Workspace is the folder that the session works in.
	Workspace *Workspace `json:"workspace,omitempty"`
	// Place is where the workspace is, if the runtime has several nodes.
	Place *WorkspacePlace `json:"place,omitempty"`
	// PermissionMode is the mode that decides which calls are asked about.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// CreatedBy is who created it.
	CreatedBy *Actor `json:"createdBy,omitempty"`
	// ForkedFrom is set on a fork; its history up to that point is the source's.
	ForkedFrom *ForkPoint `json:"forkedFrom,omitempty"`
}

// ForkPoint is a place in another session's history.
type ForkPoint struct {
	// SessionID is the session that was forked.
	SessionID string `json:"sessionId" check:"nonempty"`
	// ThreadID is the thread that was forked.
	ThreadID string `json:"threadId,omitempty"`
	// Sequence is the last event that belongs to the fork.
	Sequence uint64 `json:"sequence"`
	// Hash is the chain's hash at that event, in hex.
	Hash string `json:"hash,omitempty"`
}

// SessionUpdated changes a session's own fields; what is absent stays.
type SessionUpdated struct {
	// Title is the name of the session, for people.
	Title *string `json:"title,omitempty"`
	// Workspace is the folder that the session works in from now on.
	Workspace *Workspace `json:"workspace,omitempty"`
	// Place is where the session's files are from now on.
	Place *WorkspacePlace `json:"place,omitempty"`
	// LeavesFiles says that what earlier turns changed is not in the place that the session
	// has from now on, but in the one that it had.
	LeavesFiles bool `json:"leavesFiles,omitempty"`
	// PermissionMode is the mode that decides which calls are asked about.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// Status is the standing of the session.
	Status string `json:"status,omitempty" enum:"open archived degraded"`
	// Tags are all that the session has from now on.
	Tags []string `json:"tags,omitempty"`
	// Pinned keeps the session in sight in lists.
	Pinned *bool `json:"pinned,omitempty"`
	// PinnedThreads are all threads that are pinned from now on.
	PinnedThreads []string `json:"pinnedThreads,omitempty"`
	// Cleared names the fields that are empty from now on, such as tags.
	Cleared []string `json:"cleared,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// SessionDeleted says that a session was deleted. It is the last fact of that session,
// and a fact of the runtime's own.
type SessionDeleted struct {
	// DeletedSessionID is the session that is gone.
	DeletedSessionID string `json:"deletedSessionId" check:"nonempty"`
	// Account owned the session.
	Account string `json:"account,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// DeletedBy is who deleted it.
	DeletedBy *Actor `json:"deletedBy,omitempty"`
	// Events and Bytes count what was removed.
	Events uint64 `json:"events"`
	// Bytes is the size of what was removed.
	Bytes int64 `json:"bytes"`
	// KeptForForks says that the events stay, because forks continue from them.
	KeptForForks bool `json:"keptForForks,omitempty"`
}

// ThreadStarted opens a thread.
type ThreadStarted struct {
	// Role says what the thread is for.
	Role string `json:"role" enum:"main subagent task job_item fork trial"`
	// Title is the name of the thread, for people.
	Title string `json:"title,omitempty"`
	// ParentThreadID is the thread that it comes from.
	ParentThreadID string `json:"parentThreadId,omitempty"`
	// ParentTurnID is the turn that it comes from.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// Cwd is the folder that it works in.
	Cwd string `json:"cwd,omitempty"`
	// PermissionMode is the mode that decides which calls are asked about.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Model is the model that it uses, if it has one of its own.
	Model string `json:"model,omitempty"`
}

// ThreadUpdated changes a thread's standing: it is blocked and says why, goes
// on, or is archived and leaves the working set.
type ThreadUpdated struct {
	// Status is the standing of the thread from now on.
	Status string `json:"status" enum:"open blocked resumed archived"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Code is a stable name of the reason, such as "tool_lost".
	Code string `json:"code,omitempty"`
	// Title is the name of the thread, for people.
	Title string `json:"title,omitempty"`
	// ActionIDs are the actions that the thread waits for.
	ActionIDs []string `json:"actionIds,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// PlaceUnreachable is the code of threads that wait until a node reaches the session's files.
const PlaceUnreachable = "place_unreachable"

// QueueEntry is one waiting turn.
type QueueEntry struct {
	// TurnID is the turn that waits.
	TurnID string `json:"turnId" check:"nonempty"`
	// Position from 1, first to run first.
	Position int64 `json:"position"`
	// Source says who submitted the turn.
	Source string `json:"source" check:"nonempty"`
}

// QueueChanged gives a thread's whole queue after the change, first to run first.
type QueueChanged struct {
	// Queue are the turns that wait, first to run first.
	Queue []QueueEntry `json:"queue"`
	// Reason says what changed the queue.
	Reason string `json:"reason" enum:"queued started removed promoted cleared resumed"`
	// TurnID is the turn that came or went.
	TurnID string `json:"turnId,omitempty"`
	// Policy is the policy of the turn that came.
	Policy string `json:"policy,omitempty" enum:"@queuePolicy"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// RunStatus is the runtime's word, for people, on what a turn or a run does now.
type RunStatus struct {
	// Phase is what is done now.
	Phase string `json:"phase" enum:"accepted queued preparing running streaming waiting_input waiting_permission waiting_resource blocked retrying interrupting completed failed cancelled"`
	// Title says it in a few words.
	Title string `json:"title,omitempty"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
	// Metadata is more about the phase, for programs.
	Metadata Raw `json:"metadata,omitempty"`
	// Checkpoints name the durable points reached so far.
	Checkpoints []string `json:"checkpoints,omitempty"`
	// RetryAt is when a waiting retry is tried again.
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// SnapshotUpdated says that a read model was written, or that a stream goes on
// from a snapshot.
type SnapshotUpdated struct {
	// Snapshot names the read model.
	Snapshot string `json:"snapshot" check:"nonempty"`
	// AtSequence is the last event that the snapshot has.
	AtSequence uint64 `json:"atSequence"`
	// RecoveryMode says how the stream goes on.
	RecoveryMode string `json:"recoveryMode,omitempty" enum:"@recoveryMode"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// RuntimeChanged says what an admin changed about the runtime itself. It is a fact of the
// runtime's own session and has no secrets.
type RuntimeChanged struct {
	// Change says what was done.
	Change string `json:"change" enum:"@runtimeChange"`
	// TokenID and TokenName are the token that was made, renewed or revoked, Role what
	// it lets its holder do.
	TokenID string `json:"tokenId,omitempty"`
	// TokenName is the name of the token, for people.
	TokenName string `json:"tokenName,omitempty"`
	// Role says what the token lets its holder do.
	Role string `json:"role,omitempty"`
	// ExpiresAt is when the token ends by itself.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Account that the token or the quotas are of; absent for the operator's.
	Account string `json:"account,omitempty"`
	// Quotas are the limits that hold for the account from now on; absent if those of
	// the configuration do.
	Quotas *QuotaLimits `json:"quotas,omitempty"`
	// EventsBefore is the moment before which a session must have ended for its events to
	// be removed.
	EventsBefore time.Time `json:"eventsBefore,omitzero"`
	// NodeID is the node that takes no new work from now on, or takes some again, or that is
	// gone for good.
	NodeID string `json:"nodeId,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// QuotaLimits are the limits of one account; 0 is none.
type QuotaLimits struct {
	// Sessions bounds the sessions of the account.
	Sessions int64 `json:"sessions"`
	// QueuedTurns bounds the turns that wait.
	QueuedTurns int64 `json:"queuedTurns"`
	// Subscriptions bounds open streams.
	Subscriptions int64 `json:"subscriptions"`
	// StoredBytes bounds what is stored, in bytes.
	StoredBytes int64 `json:"storedBytes"`
	// Schedules bounds schedules.
	Schedules int64 `json:"schedules"`
	// Processes bounds running processes.
	Processes int64 `json:"processes"`
	// ScheduleMinIntervalMs is the shortest time between two runs of a schedule, in
	// milliseconds.
	ScheduleMinIntervalMs int64 `json:"scheduleMinIntervalMs"`
}

// RuntimeNotice is a warning or an error of the runtime itself.
type RuntimeNotice struct {
	// Code is a stable name, for programs.
	Code string `json:"code" check:"nonempty"`
	// Message says what happened, for people.
	Message string `json:"message" check:"nonempty"`
	// Advice says what to do next.
	Advice string `json:"advice,omitempty"`
	// Details are figures and names, for programs.
	Details Raw `json:"details,omitempty"`
}
