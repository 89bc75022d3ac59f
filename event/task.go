package event

import "time"

// RetryPolicy bounds the attempts of a task or a job item.
type RetryPolicy struct {
	// MaxAttempts is the most attempts, the first included.
	MaxAttempts int64 `json:"maxAttempts,omitempty"`
	// BackoffMs is the wait before the second attempt; it doubles with each.
	BackoffMs int64 `json:"backoffMs,omitempty"`
	// MaxBackoffMs bounds the wait.
	MaxBackoffMs int64 `json:"maxBackoffMs,omitempty"`
	// NonRetryable lists the error categories that are not tried again.
	NonRetryable []string `json:"nonRetryable,omitempty"`
	// TimeoutMs bounds one attempt.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// InactivityTimeoutMs ends an attempt that shows no progress for that long.
	InactivityTimeoutMs int64 `json:"inactivityTimeoutMs,omitempty"`
}

// TaskConstraints bound what the work on a task may do.
type TaskConstraints struct {
	// Tools that the work may use.
	Tools []string `json:"tools,omitempty"`
	// PermissionMode of the work.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Model that the work uses.
	Model string `json:"model,omitempty"`
	// Cwd is the folder that the work is done in.
	Cwd string `json:"cwd,omitempty" secret:"refuse"`
	// Network says what the work may reach.
	Network string `json:"network,omitempty"`
	// MaxCostUSD bounds the cost of the work.
	MaxCostUSD float64 `json:"maxCostUSD,omitempty"`
	// MaxRuntimeMs bounds the time of the work.
	MaxRuntimeMs int64 `json:"maxRuntimeMs,omitempty"`
	// MaxSteps bounds the model calls of the work.
	MaxSteps int64 `json:"maxSteps,omitempty"`
	// OutputSchema is the JSON Schema that the result satisfies.
	OutputSchema Raw `json:"outputSchema,omitempty"`
}

// AcceptanceCriterion is one condition of a task's completion.
type AcceptanceCriterion struct {
	// ID of the criterion within its task.
	ID string `json:"id" check:"nonempty"`
	// Description says what must hold.
	Description string `json:"description" check:"nonempty"`
	// Status of the criterion.
	Status string `json:"status,omitempty" enum:"@criterionStatus"`
	// By satisfied or waived the criterion.
	By *Actor `json:"by,omitempty"`
	// Reason says why it was satisfied or waived.
	Reason string `json:"reason,omitempty"`
	// EvidenceRefs point to what proves it.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
}

// Sources of a task profile: what the task was given, and what the runtime worked out.
const (
	ProfileFromTask    = "task"
	ProfileFromRuntime = "runtime"
)

// TaskProfile says what kind of model a piece of work needs.
type TaskProfile struct {
	// Kind of work.
	Kind string `json:"kind,omitempty"`
	// Source says where the profile comes from: task or runtime.
	Source string `json:"source,omitempty"`
	// RequiredCapabilities are what a model must be able to do.
	RequiredCapabilities []string `json:"requiredCapabilities,omitempty"`
	// WaivableCapabilities are the required ones that the work goes on without if no
	// model has them; capabilityGap of the decision names them then.
	WaivableCapabilities []string `json:"waivableCapabilities,omitempty"`
	// LatencyTarget says how fast an answer is wanted.
	LatencyTarget string `json:"latencyTarget,omitempty"`
	// BudgetClass says how much an answer may cost; low asks for the cheapest model.
	BudgetClass string `json:"budgetClass,omitempty"`
	// FallbackPolicy says whether another model may answer: chain or none.
	FallbackPolicy string `json:"fallbackPolicy,omitempty"`
	// SettingsSource says where the choice of model was set.
	SettingsSource string `json:"settingsSource,omitempty"`
	// Continuity says whether the model of earlier turns is to be kept: keep, prefer or
	// none.
	Continuity string `json:"continuity,omitempty"`
	// EstimatedInputTokens is how large the input is likely to be.
	EstimatedInputTokens int64 `json:"estimatedInputTokens,omitempty"`
}

// Worker is what executes an attempt.
type Worker struct {
	// Kind of the worker.
	Kind string `json:"kind" enum:"agent process hosted_worker scheduler external_runtime external"`
	// ID of the worker.
	ID string `json:"id,omitempty"`
	// ThreadID is the thread that the worker works in.
	ThreadID string `json:"threadId,omitempty"`
}

// TaskCreated gives a task its identity and objective.
type TaskCreated struct {
	// Title is the name of the task, for people.
	Title string `json:"title,omitempty"`
	// Objective is what is to be reached, or its beginning.
	Objective string `json:"objective,omitempty"`
	// ObjectiveRef is where a long objective is.
	ObjectiveRef string `json:"objectiveRef,omitempty"`
	// TaskKind is the kind of work.
	TaskKind string `json:"taskKind" check:"nonempty"`
	// TaskFamily groups kinds of work that are alike.
	TaskFamily string `json:"taskFamily,omitempty"`
	// Visibility says who is shown the task.
	Visibility string `json:"visibility" enum:"@taskVisibility"`
	// Status is draft until it is accepted.
	Status string `json:"status" enum:"draft accepted"`
	// Priority is a hint for the scheduler, a word or a number.
	Priority string `json:"priority,omitempty"`
	// RequestedBy is who wants it.
	RequestedBy *Actor `json:"requestedBy,omitempty"`
	// Owner is who answers for the task.
	Owner *Actor `json:"owner,omitempty"`
	// Assignee is who works on it.
	Assignee *Actor `json:"assignee,omitempty"`
	// WorkerKind says whether the runtime or someone outside works on it.
	WorkerKind string `json:"workerKind,omitempty" enum:"@attemptWorker"`
	// Peer is the agent that works on it, if one does: a configured one's id, or the
	// address of a card.
	Peer string `json:"peer,omitempty"`
	// Scope is what the work may touch.
	Scope Raw `json:"scope,omitempty"`
	// Constraints bound what the work may do.
	Constraints *TaskConstraints `json:"constraints,omitempty"`
	// TaskProfile says what kind of model the work needs.
	TaskProfile *TaskProfile `json:"taskProfile,omitempty"`
	// Acceptance are the conditions of its completion.
	Acceptance []AcceptanceCriterion `json:"acceptance,omitempty"`
	// RetryPolicy bounds the attempts.
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// DependsOn are the tasks that must be completed before.
	DependsOn []string `json:"dependsOn,omitempty"`
	// HeartbeatTimeoutMs is how long a worker outside may be silent, in milliseconds.
	HeartbeatTimeoutMs int64 `json:"heartbeatTimeoutMs,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
}

// TaskStatusChanged moves a task to another status, with the reason.
type TaskStatusChanged struct {
	// Status is the status of the task from now on.
	Status string `json:"status" enum:"@taskStatus"`
	// NativeStatus is the worker's own word for the status.
	NativeStatus string `json:"nativeStatus,omitempty"`
	// StatusReason says why, for people.
	StatusReason string `json:"statusReason,omitempty"`
	// Blockers are the ids (tasks, actions) that a blocked or waiting task waits for.
	Blockers []string `json:"blockers,omitempty"`
	// Error says what went wrong.
	Error *Failure `json:"error,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
	// Propagate says that the tasks below follow.
	Propagate bool `json:"propagate,omitempty"`
	// RetryAt is when the next attempt is due.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Position is its place in the queue, from 1.
	Position int64 `json:"position,omitempty"`
}

// TaskUpdated changes fields of a task; what is absent stays.
type TaskUpdated struct {
	// Title is the name of the task, for people.
	Title *string `json:"title,omitempty"`
	// Objective is what is to be reached, or its beginning.
	Objective *string `json:"objective,omitempty"`
	// ObjectiveRef is where the whole objective is when Objective shows its beginning.
	ObjectiveRef string `json:"objectiveRef,omitempty"`
	// TaskKind is the kind of work.
	TaskKind string `json:"taskKind,omitempty"`
	// TaskFamily groups kinds of work that are alike.
	TaskFamily string `json:"taskFamily,omitempty"`
	// WorkerKind says whether the runtime or someone outside works on it.
	WorkerKind string `json:"workerKind,omitempty" enum:"@attemptWorker"`
	// Priority is a hint for the scheduler, a word or a number.
	Priority string `json:"priority,omitempty"`
	// Visibility says who is shown the task.
	Visibility string `json:"visibility,omitempty" enum:"@taskVisibility"`
	// Owner is who answers for the task.
	Owner *Actor `json:"owner,omitempty"`
	// Assignee is who works on it.
	Assignee *Actor `json:"assignee,omitempty"`
	// Scope is what the work may touch.
	Scope Raw `json:"scope,omitempty"`
	// Constraints bound what the work may do.
	Constraints *TaskConstraints `json:"constraints,omitempty"`
	// TaskProfile says what kind of model the work needs.
	TaskProfile *TaskProfile `json:"taskProfile,omitempty"`
	// Acceptance are the conditions of its completion.
	Acceptance []AcceptanceCriterion `json:"acceptance,omitempty"`
	// RetryPolicy bounds the attempts.
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// HeartbeatTimeoutMs is how long a worker outside may be silent, in milliseconds.
	HeartbeatTimeoutMs int64 `json:"heartbeatTimeoutMs,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// ValidationState says how far the result was validated.
	ValidationState string `json:"validationState,omitempty"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *DeliveryState `json:"deliveryState,omitempty"`
	// Artifacts are the deliverables of the task.
	Artifacts []ArtifactLink `json:"artifacts,omitempty"`
	// EvidenceRefs point to what proves the work.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
	// Record is the whole task, written when a task that had left the working set
	// is taken back into it.
	Record Raw `json:"record,omitempty"`
}

// Progress is what is known about how far the work is.
type Progress struct {
	// Phase of the work: planning, working, verifying, delivering, waiting, or a word of its own.
	Phase string `json:"phase,omitempty"`
	// Percent of the work that is done.
	Percent *float64 `json:"percent,omitempty"`
	// Summary for people.
	Summary string `json:"summary,omitempty"`
	// CurrentStep names what is done now.
	CurrentStep string `json:"currentStep,omitempty"`
	// Counters by name, such as items, tests or files.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// DeliveryState says whether a task's result reached who asked for it.
type DeliveryState struct {
	// Status of the delivery.
	Status string `json:"status" enum:"pending delivered queued failed parent_missing not_applicable unknown"`
	// Target is who the result goes to.
	Target string `json:"target,omitempty"`
	// Reason for people.
	Reason string `json:"reason,omitempty"`
}

// OutputLink points into an output; Offset is where what is new begins.
type OutputLink struct {
	// OutputRef is the reference of the output.
	OutputRef string `json:"outputRef" check:"nonempty"`
	// Offset of the first byte that is new.
	Offset int64 `json:"offset,omitempty"`
	// MediaType of the output.
	MediaType string `json:"mediaType,omitempty"`
}

// TaskProgressed reports progress; for an external worker it is the heartbeat too.
type TaskProgressed struct {
	// Progress is how far the work is.
	Progress Progress `json:"progress"`
	// OutputRefs point to what the work gave so far.
	OutputRefs []OutputLink `json:"outputRefs,omitempty"`
	// CheckpointRefs point to where the work can be taken up again.
	CheckpointRefs []OutputLink `json:"checkpointRefs,omitempty"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *DeliveryState `json:"deliveryState,omitempty"`
	// ValidationState says how far the result was validated.
	ValidationState string `json:"validationState,omitempty"`
	// Heartbeat says that it is a sign of life and nothing else.
	Heartbeat bool `json:"heartbeat,omitempty"`
	// Late marks the report of a worker whose attempt is over already.
	Late bool `json:"late,omitempty"`
}

// ArtifactLink points to a deliverable.
type ArtifactLink struct {
	// ArtifactID is the deliverable's id.
	ArtifactID string `json:"artifactId" check:"nonempty"`
	// URI is where the deliverable is.
	URI string `json:"uri,omitempty"`
	// MediaType of the deliverable.
	MediaType string `json:"mediaType,omitempty"`
}

// TaskCompleted ends a task whose acceptance, artifacts and delivery are reconciled.
type TaskCompleted struct {
	// Status is completed.
	Status string `json:"status" enum:"completed"`
	// StatusReason says what people should know of the end, such as a limit that the
	// work went beyond.
	StatusReason string `json:"statusReason,omitempty"`
	// Summary says what was reached, for people.
	Summary string `json:"summary,omitempty"`
	// Artifacts are the deliverables of the task.
	Artifacts []ArtifactLink `json:"artifacts,omitempty"`
	// EvidenceRefs point to what proves the work.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *DeliveryState `json:"deliveryState,omitempty"`
	// Acceptance are the conditions and how each was met.
	Acceptance []AcceptanceCriterion `json:"acceptance,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}

// TaskDelegated hands a task, or a part of it, to a subagent, a job, a subtask, a worker,
// a peer or a thread.
type TaskDelegated struct {
	// To says to what kind of worker it goes.
	To string `json:"to" enum:"subagent job task worker peer thread"`
	// TargetID is the id of the one that it goes to.
	TargetID string `json:"targetId" check:"nonempty"`
	// NativeProtocol is the protocol that the peer speaks, such as a2a.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// RemoteTaskID is the peer's id of the task.
	RemoteTaskID string `json:"remoteTaskId,omitempty"`
	// RemoteMessageID is the message that is about to be sent to a peer.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// TaskDependencyUpdated adds, changes or removes one edge of the task graph.
type TaskDependencyUpdated struct {
	// Change says what became of the edge.
	Change string `json:"change" enum:"added updated removed"`
	// Kind says how the two tasks are related.
	Kind string `json:"kind" enum:"@taskRelation"`
	// TargetID is the task at the other end.
	TargetID string `json:"targetId" check:"nonempty"`
	// Status of the edge: a satisfied dependency no longer blocks.
	Status string `json:"status" enum:"active satisfied failed removed"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// TaskAttemptStarted opens an attempt.
type TaskAttemptStarted struct {
	// Status says how far the attempt is.
	Status string `json:"status" enum:"running preparing"`
	// AttemptCount counts the attempts at the task, this one included.
	AttemptCount int64 `json:"attemptCount"`
	// Worker is what executes the attempt.
	Worker *Worker `json:"worker,omitempty"`
	// InputRefs point to what the worker is given.
	InputRefs []OutputLink `json:"inputRefs,omitempty"`
	// RetryPolicy bounds the attempts.
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// Reason says why there is an attempt.
	Reason string `json:"reason,omitempty" enum:"first retry lost_worker crash_recovery rerouted rerun resumed"`
}

// TaskAttemptCompleted ends an attempt well.
type TaskAttemptCompleted struct {
	// Status is completed.
	Status string `json:"status" enum:"completed"`
	// OutputRefs point to what the attempt gave.
	OutputRefs []OutputLink `json:"outputRefs,omitempty"`
	// CheckpointRefs point to where the work can be taken up again.
	CheckpointRefs []OutputLink `json:"checkpointRefs,omitempty"`
	// CompletionSummary says what was done, for people.
	CompletionSummary string `json:"completionSummary,omitempty"`
	// DurationMs is how long the attempt took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Late says that the attempt was over already.
	Late bool `json:"late,omitempty"`
}

// What follows an attempt that failed, where a policy has a word on it.
const (
	NextAttemptAsked    = "none: retry_task starts another"
	NextAttemptByPolicy = "as the retry policy says"
)

// TaskAttemptFailed ends an attempt otherwise. A lost attempt has status "unknown".
type TaskAttemptFailed struct {
	// Status says how the attempt ended; unknown if it was lost.
	Status string `json:"status" enum:"failed cancelled unknown"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable"`
	// FailureCategory says of what kind the failure is, for programs.
	FailureCategory string `json:"failureCategory" check:"nonempty"`
	// Error says what went wrong.
	Error *Failure `json:"error,omitempty"`
	// NextAttemptPolicy says what follows.
	NextAttemptPolicy string `json:"nextAttemptPolicy,omitempty"`
	// OutputRefs point to what the attempt gave.
	OutputRefs []OutputLink `json:"outputRefs,omitempty"`
	// CheckpointRefs point to where the work can be taken up again.
	CheckpointRefs []OutputLink `json:"checkpointRefs,omitempty"`
	// DurationMs is how long the attempt took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Late says that the attempt was over already.
	Late bool `json:"late,omitempty"`
}

// EndsTask reports whether a fact of this type ends a task. A task that was lost or failed
// may be tried again, which other facts say.
func (t Type) EndsTask() bool {
	switch t { //nolint:exhaustive // the rest ends no task
	case "task.completed", "task.failed", "task.cancelled", "task.timed_out", "task.lost": // the constants are generated
		return true
	}
	return false
}
