package state

import (
	"time"

	"agentd/event"
)

// Tasks are the session's units of work.
type Tasks struct {
	// Open holds every task that isn't terminal, in the order of creation.
	Open []*Task `json:"open,omitempty"`
	// Recent holds the last terminal ones, in the order in which they ended.
	Recent []*Task `json:"recent,omitempty"`
	// Counts has the number of tasks by the status that they have or left the
	// working set with, over all time.
	Counts map[string]int64 `json:"counts,omitempty"`
	// Created counts the tasks that were ever created.
	Created int64 `json:"created,omitempty"`

	// byID finds what Open and Recent hold; it is made when it is first needed.
	byID map[string]*Task
}

// Task is the record of one task.
type Task struct {
	TaskID       string `json:"taskId"`
	ParentTaskID string `json:"parentTaskId,omitempty"`
	// RootTaskID is the task at the top.
	RootTaskID string `json:"rootTaskId,omitempty"`
	SessionID  string `json:"sessionId"`
	// ThreadID is the thread that works on it.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that works on it.
	TurnID string `json:"turnId,omitempty"`
	// SubagentID is the child that works on it.
	SubagentID string `json:"subagentId,omitempty"`
	// JobID is the job that the task is an item of.
	JobID string `json:"jobId,omitempty"`

	Title     string `json:"title,omitempty"`
	Objective string `json:"objective,omitempty"`
	// ObjectiveRef is where a long objective is.
	ObjectiveRef string `json:"objectiveRef,omitempty"`
	TaskKind     string `json:"taskKind"`
	// TaskFamily groups tasks of one sort.
	TaskFamily string `json:"taskFamily,omitempty"`
	Visibility string `json:"visibility"`
	// Priority of the task.
	Priority string `json:"priority,omitempty"`

	Status string `json:"status"`
	// NativeStatus is the worker's own word for the status.
	NativeStatus string `json:"nativeStatus,omitempty"`
	StatusReason string `json:"statusReason,omitempty"`
	// Blockers are the tasks and actions that a blocked or waiting task waits for.
	Blockers []string `json:"blockers,omitempty"`
	// RetryAt is when the next attempt is due.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// QueuePosition is the place in line.
	QueuePosition int64 `json:"queuePosition,omitempty"`
	// Cancel is set once the task is to be stopped; it stays.
	Cancel    *CancelIntent  `json:"cancel,omitempty"`
	LastError *event.Failure `json:"lastError,omitempty"`

	// RequestedBy asked for the task.
	RequestedBy *event.Actor `json:"requestedBy,omitempty"`
	// Owner is responsible for the task.
	Owner *event.Actor `json:"owner,omitempty"`
	// Assignee is to do the work.
	Assignee *event.Actor `json:"assignee,omitempty"`
	// WorkerKind says who works on it.
	WorkerKind string `json:"workerKind,omitempty"`
	// Peer is the agent that works on it, if one does.
	Peer string `json:"peer,omitempty"`
	// HeartbeatTimeoutMs is how long a worker may be silent.
	HeartbeatTimeoutMs int64 `json:"heartbeatTimeoutMs,omitempty"`
	// LastSeenAt is when the task's worker last gave a sign of life.
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`

	// Scope is what the task may touch, as its creator says it.
	Scope event.Raw `json:"scope,omitempty"`
	// Constraints bound the work.
	Constraints *event.TaskConstraints `json:"constraints,omitempty"`
	// TaskProfile is what the task was given; without that, what the runtime worked out
	// for its last turn, whose source is "runtime".
	TaskProfile *event.TaskProfile `json:"taskProfile,omitempty"`
	// Acceptance are the criteria that the result must satisfy.
	Acceptance []event.AcceptanceCriterion `json:"acceptance,omitempty"`
	// RetryPolicy bounds the attempts.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty"`

	Progress *event.Progress `json:"progress,omitempty"`
	// ValidationState says how far the result was validated.
	ValidationState string `json:"validationState,omitempty"`
	// Summary is the worker's prose on the result.
	Summary string `json:"summary,omitempty"`
	// CostUSD is what the model calls of all attempts cost, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`
	// DelegatedCostUSD is what the tasks and the items of jobs below it cost.
	DelegatedCostUSD float64 `json:"delegatedCostUSD,omitempty"`

	CurrentRunID string `json:"currentRunId,omitempty"`
	// Attempts holds the newest attempts, oldest first.
	Attempts []Attempt `json:"attempts,omitempty"`
	// OlderAttempts counts the attempts that are not shown.
	OlderAttempts int64 `json:"olderAttempts,omitempty"`
	// LateReports counts what workers said after their attempt was over.
	LateReports int64 `json:"lateReports,omitempty"`

	// Relationships are the task's edges in the graph.
	Relationships []Relationship `json:"relationships,omitempty"`
	// OlderRelationships counts the settled edges that are not kept.
	OlderRelationships int64 `json:"olderRelationships,omitempty"`
	// Delegations say to whom the task was given.
	Delegations []Delegation `json:"delegations,omitempty"`

	Artifacts    []event.ArtifactLink `json:"artifacts,omitempty"`
	EvidenceRefs []string             `json:"evidenceRefs,omitempty"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *event.DeliveryState `json:"deliveryState,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// CreatedSequence is where the task's objective is found.
	CreatedSequence uint64 `json:"createdSequence"`
	// StatusSequence is the fact that gave the task its status.
	StatusSequence uint64 `json:"statusSequence"`
}

// CancelIntent is the wish to stop a task.
type CancelIntent struct {
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// By asked for it.
	By *event.Actor `json:"by,omitempty"`
	// Propagate says that the tasks below are cancelled too.
	Propagate bool `json:"propagate,omitempty"`
	// At is when it was asked for.
	At time.Time `json:"at"`
}
