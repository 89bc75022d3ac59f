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
	Title     string     `json:"title,omitempty"`
	Account   string     `json:"account,omitempty"`
	Workspace *Workspace `json:"workspace,omitempty"`
	// Place is where the workspace is, if the runtime has several nodes.
	Place          *WorkspacePlace `json:"place,omitempty"`
	PermissionMode string          `json:"permissionMode,omitempty" enum:"@permissionMode"`
	Metadata       Raw             `json:"metadata,omitempty"`
	CreatedBy      *Actor          `json:"createdBy,omitempty"`
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
	Title     *string    `json:"title,omitempty"`
	Workspace *Workspace `json:"workspace,omitempty"`
	// Place is where the session's files are from now on.
	Place *WorkspacePlace `json:"place,omitempty"`
	// LeavesFiles says that what earlier turns changed is not in the place that the session
	// has from now on, but in the one that it had.
	LeavesFiles    bool   `json:"leavesFiles,omitempty"`
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	Metadata       Raw    `json:"metadata,omitempty"`
	Status         string `json:"status,omitempty" enum:"open archived degraded"`
	// Tags are all that the session has from now on.
	Tags []string `json:"tags,omitempty"`
	// Pinned keeps the session in sight in lists.
	Pinned *bool `json:"pinned,omitempty"`
	// PinnedThreads are all threads that are pinned from now on.
	PinnedThreads []string `json:"pinnedThreads,omitempty"`
	// Cleared names the fields that are empty from now on, such as tags.
	Cleared   []string `json:"cleared,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	ChangedBy *Actor   `json:"changedBy,omitempty"`
}

// SessionDeleted says that a session was deleted. It is the last fact of that session,
// and a fact of the runtime's own.
type SessionDeleted struct {
	// DeletedSessionID is the session that is gone.
	DeletedSessionID string `json:"deletedSessionId" check:"nonempty"`
	Account          string `json:"account,omitempty"`
	Reason           string `json:"reason,omitempty"`
	DeletedBy        *Actor `json:"deletedBy,omitempty"`
	// Events and Bytes count what was removed.
	Events uint64 `json:"events"`
	Bytes  int64  `json:"bytes"`
	// KeptForForks says that the events stay, because forks continue from them.
	KeptForForks bool `json:"keptForForks,omitempty"`
}

// ThreadStarted opens a thread.
type ThreadStarted struct {
	Role           string `json:"role" enum:"main subagent task job_item fork trial"`
	Title          string `json:"title,omitempty"`
	ParentThreadID string `json:"parentThreadId,omitempty"`
	ParentTurnID   string `json:"parentTurnId,omitempty"`
	Cwd            string `json:"cwd,omitempty"`
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	Model          string `json:"model,omitempty"`
}

// ThreadUpdated changes a thread's standing: it is blocked and says why, goes
// on, or is archived and leaves the working set.
type ThreadUpdated struct {
	Status string `json:"status" enum:"open blocked resumed archived"`
	Reason string `json:"reason,omitempty"`
	// Code is a stable name of the reason, such as "tool_lost".
	Code  string `json:"code,omitempty"`
	Title string `json:"title,omitempty"`
	// ActionIDs are the actions that the thread waits for.
	ActionIDs []string `json:"actionIds,omitempty"`
	ChangedBy *Actor   `json:"changedBy,omitempty"`
}

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
	Queue     []QueueEntry `json:"queue"`
	Reason    string       `json:"reason" enum:"queued started removed promoted cleared resumed"`
	TurnID    string       `json:"turnId,omitempty"`
	Policy    string       `json:"policy,omitempty" enum:"@queuePolicy"`
	ChangedBy *Actor       `json:"changedBy,omitempty"`
}

// RunStatus is the runtime's word, for people, on what a turn or a run does now.
type RunStatus struct {
	Phase    string `json:"phase" enum:"accepted queued preparing running streaming waiting_input waiting_permission waiting_resource blocked retrying interrupting completed failed cancelled"`
	Title    string `json:"title,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Metadata Raw    `json:"metadata,omitempty"`
	// Checkpoints name the durable points reached so far.
	Checkpoints []string `json:"checkpoints,omitempty"`
	// RetryAt is when a waiting retry is tried again.
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// SnapshotUpdated says that a read model was written, or that a stream goes on
// from a snapshot.
type SnapshotUpdated struct {
	Snapshot     string `json:"snapshot" check:"nonempty"`
	AtSequence   uint64 `json:"atSequence"`
	RecoveryMode string `json:"recoveryMode,omitempty" enum:"@recoveryMode"`
	Reason       string `json:"reason,omitempty"`
}

// RuntimeChanged says what an admin changed about the runtime itself. It is a fact of the
// runtime's own session and has no secrets.
type RuntimeChanged struct {
	// Change says what was done.
	Change string `json:"change" enum:"@runtimeChange"`
	// TokenID and TokenName are the token that was made, renewed or revoked, Role what
	// it lets its holder do.
	TokenID   string    `json:"tokenId,omitempty"`
	TokenName string    `json:"tokenName,omitempty"`
	Role      string    `json:"role,omitempty"`
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
	NodeID    string `json:"nodeId,omitempty"`
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// QuotaLimits are the limits of one account; 0 is none.
type QuotaLimits struct {
	Sessions              int64 `json:"sessions"`
	QueuedTurns           int64 `json:"queuedTurns"`
	Subscriptions         int64 `json:"subscriptions"`
	StoredBytes           int64 `json:"storedBytes"`
	Schedules             int64 `json:"schedules"`
	Processes             int64 `json:"processes"`
	ScheduleMinIntervalMs int64 `json:"scheduleMinIntervalMs"`
}

// RuntimeNotice is a warning or an error of the runtime itself.
type RuntimeNotice struct {
	Code    string `json:"code" check:"nonempty"`
	Message string `json:"message" check:"nonempty"`
	// Advice says what to do next.
	Advice  string `json:"advice,omitempty"`
	Details Raw    `json:"details,omitempty"`
}
