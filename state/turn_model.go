package state

import (
	"time"

	"agentd/event"
)

// Turn is one submitted input cycle.
type Turn struct {
	TurnID   string `json:"turnId"`
	ThreadID string `json:"threadId"`
	TaskID   string `json:"taskId"`
	RunID    string `json:"runId"`
	// ParentTaskID is the task above the turn's own, JobID the job that the turn works on
	// an item of.
	ParentTaskID string `json:"parentTaskId,omitempty"`
	JobID        string `json:"jobId,omitempty"`
	TraceID      string `json:"traceId,omitempty"`
	// TraceState came with the trace.
	TraceState string `json:"traceState,omitempty"`
	Status     string `json:"status"`
	Phase      string `json:"phase"`
	Source     string `json:"source"`
	// ChannelID is the channel that the input came through.
	ChannelID string             `json:"channelId,omitempty"`
	Preview   string             `json:"preview,omitempty"`
	Options   *event.TurnOptions `json:"options,omitempty"`
	By        *event.Actor       `json:"submittedBy,omitempty"`

	// PermissionMode is the mode that the turn goes on in since its plan was approved;
	// empty if that is none of its own.
	PermissionMode string `json:"permissionMode,omitempty"`

	// Mode is the permission mode that the turn started in, ModeSource whose it is.
	Mode       string `json:"mode,omitempty"`
	ModeSource string `json:"modeSource,omitempty"`
	// Environment is where the turn works.
	Environment *event.ExecutionEnvironment `json:"environment,omitempty"`

	// SubmittedSequence is where the turn's input is found.
	SubmittedSequence uint64    `json:"submittedSequence"`
	SubmittedAt       time.Time `json:"submittedAt"`
	StartedAt         time.Time `json:"startedAt,omitzero"`
	EndedAt           time.Time `json:"completedAt,omitzero"`
	EndSequence       uint64    `json:"endSequence,omitempty"`

	// Interrupt is set once the turn is to be stopped.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Steered counts the inputs that were added to the running turn.
	Steered int64 `json:"steered,omitempty"`
	// SteeredSeen counts those that a model call has been given.
	SteeredSeen int64 `json:"steeredSeen,omitempty"`
	// Waiting lists the pending actions of the turn.
	Waiting []string `json:"waiting,omitempty"`

	// Step counts the model calls of the turn, the one under way included.
	Step int64 `json:"step,omitempty"`
	// FailedCalls counts the model calls that failed since the last input.
	FailedCalls int64 `json:"failedCalls,omitempty"`
	// Call is the turn's newest model call.
	Call *ModelCall `json:"call,omitempty"`
	// Tools are the tool calls of the newest model answer, EarlierTools the ended ones of
	// answers before it, as many as are kept.
	Tools        []*ToolCall `json:"tools,omitempty"`
	EarlierTools []*ToolCall `json:"earlierTools,omitempty"`
	// ToolCount counts all tool calls of the turn, FailedTools those that failed.
	ToolCount   int64 `json:"toolCount,omitempty"`
	FailedTools int64 `json:"failedTools,omitempty"`
	// Repeats counts how often in a row the model asked for the same calls and got
	// the same results; StepDigest is the fingerprint of the last ones.
	Repeats    int64  `json:"repeats,omitempty"`
	StepDigest string `json:"stepDigest,omitempty"`
	// HookBlocked says which hook doesn't let the turn go on, and why.
	HookBlocked string `json:"hookBlocked,omitempty"`
	// Stops counts how often a hook kept the turn from ending.
	Stops int64 `json:"stops,omitempty"`
	// QuotaBlocked says which limit keeps the turn from asking a model.
	QuotaBlocked string `json:"quotaBlocked,omitempty"`

	Usage   event.Usage `json:"usage,omitzero"`
	CostUSD float64     `json:"costUSD,omitempty"`
	// Unpriced counts the requests that no price is known for.
	Unpriced int64 `json:"unpriced,omitempty"`

	// AnswerSequence is where the turn's last answer is found, once it ended.
	AnswerSequence uint64 `json:"answerSequence,omitempty"`
	// ContextTokens is what the thread's last answered call took and gave when the
	// turn ended.
	ContextTokens int64 `json:"contextTokens,omitempty"`

	Outcome         string         `json:"outcome,omitempty"`
	FailureCategory string         `json:"failureCategory,omitempty"`
	Error           *event.Failure `json:"error,omitempty"`
}

// Interrupt is the wish to stop a turn.
type Interrupt struct {
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Queue says what becomes of the turns that wait: keep or clear.
	Queue string `json:"queue"`
	// By asked for it.
	By *event.Actor `json:"by,omitempty"`
	// At is when it was asked for.
	At time.Time `json:"at"`
	// Cause is set if no person wants it.
	Cause string `json:"cause,omitempty"`
}

// ModelCall is one request to a provider.
type ModelCall struct {
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId"`
	// StepID is the step that the call is.
	StepID string `json:"stepId,omitempty"`
	// Provider that was asked.
	Provider string `json:"provider"`
	// Model that was asked.
	Model string `json:"model"`
	// Status of the call.
	Status string `json:"status"`
	// Step is the ordinal of the call in its turn, from 1.
	Step int64 `json:"step"`
	// Attempt counts the requests of this step, from 1.
	Attempt int64 `json:"attempt"`
	// Purpose tells a turn's own call from a compaction or a classification.
	Purpose string `json:"purpose,omitempty"`
	// Tries counts the requests of this step to this model in a row.
	Tries int64 `json:"tries,omitempty"`
	// Deltas counts the pieces that were streamed.
	Deltas int64 `json:"deltas,omitempty"`
	// StopReason says why the model stopped.
	StopReason string `json:"stopReason,omitempty"`
	// ErrorCategory classifies the failure.
	ErrorCategory string `json:"errorCategory,omitempty"`
	// Message is what the provider said of the failure.
	Message string `json:"message,omitempty"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable,omitempty"`
	// RetryAfterMs is how long the provider asks to wait.
	RetryAfterMs *int64 `json:"retryAfterMs,omitempty"`
	// Declined says that no one will mend what the call failed for.
	Declined bool `json:"declined,omitempty"`
	// EndSequence is where the answer is found.
	EndSequence uint64 `json:"endSequence,omitempty"`
	// StartedAt is when the request was sent.
	StartedAt time.Time `json:"startedAt"`
	// Told says that all post_sampling hooks ran on this answer.
	Told bool `json:"told,omitempty"`
}

// ToolCall is one tool call of a turn.
type ToolCall struct {
	// ToolCallID is the call's id.
	ToolCallID string `json:"toolCallId"`
	// TurnID is the turn's, of a failed call that outlives it.
	TurnID string `json:"turnId,omitempty"`
	// StepID is the step that the call is.
	StepID string `json:"stepId,omitempty"`
	// ToolName is the tool's name.
	ToolName string `json:"toolName"`
	// Status of the call.
	Status string `json:"status"`
	// Policy of the tool, before the arguments were judged.
	Policy string `json:"policy,omitempty"`
	// IsReadOnly says that the call changes nothing.
	IsReadOnly bool `json:"isReadOnly,omitempty"`
	// HeldToRead says that the call's boundary, as the kernel enforces it, lets it do
	// nothing but read, whatever its tool could do.
	HeldToRead bool `json:"heldToRead,omitempty"`
	// ErrorCategory classifies the failure.
	ErrorCategory string `json:"errorCategory,omitempty"`
	// Message of the failure.
	Message string `json:"message,omitempty"`
	// ActionID is the action that asks for an approval.
	ActionID string `json:"actionId,omitempty"`
	// OutputRef is where a large output is.
	OutputRef string `json:"outputRef,omitempty"`
	// Decision is the word on whether the call may run; empty before there is one.
	Decision string `json:"decision,omitempty"`
	// Review is what a reviewer said about the call before it was decided about.
	Review *Review `json:"review,omitempty"`
	// Attempts counts how often the call began to run. At 0 nothing of it has happened.
	Attempts int64 `json:"attempts,omitempty"`
	// Lost counts how often it was lost and taken up again: each time has a span of its own.
	Lost int64 `json:"lost,omitempty"`
	// Asked says that its tool.started was written when the model asked for it. That of
	// an older version said that it runs, and one that was lost could start again after
	// its tool.failed.
	Asked bool `json:"asked,omitempty"`
	// Digest is a fingerprint of the arguments and, at the end, of the outcome.
	Digest string `json:"digest,omitempty"`
	// StartSequence is where its first fact is found.
	StartSequence uint64 `json:"startSequence,omitempty"`
	// ArgsSequence is where the arguments are that it runs with.
	ArgsSequence uint64 `json:"argsSequence,omitempty"`
	// EndSequence is where its end is found.
	EndSequence uint64 `json:"endSequence,omitempty"`
	// Links name the facts that the call rests on.
	Links event.ToolLinks `json:"links,omitzero"`
}
