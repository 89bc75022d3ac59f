package state

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"time"

	"agentd/event"
)

// Statuses of a turn on the wire.
const (
	TurnAccepted  = "accepted"
	TurnQueued    = "queued"
	TurnRunning   = "running"
	TurnCompleted = "completed"
	TurnFailed    = "failed"
	TurnCancelled = "cancelled"
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
	Reason string       `json:"reason,omitempty"`
	Queue  string       `json:"queue"`
	By     *event.Actor `json:"by,omitempty"`
	At     time.Time    `json:"at"`
	// Cause is set if no person wants it.
	Cause string `json:"cause,omitempty"`
}

// Inactivity reports whether the turn is stopped because it showed no progress: it
// ends as timed out, not as interrupted.
func (i *Interrupt) Inactivity() bool { return i.Cause == event.InterruptInactivity }

// Statuses of a model call.
const (
	CallRunning   = "running"
	CallCompleted = "completed"
	CallFailed    = "failed"
)

// ModelCall is one request to a provider.
type ModelCall struct {
	ModelRequestID string `json:"modelRequestId"`
	StepID         string `json:"stepId,omitempty"`
	Provider       string `json:"provider"`
	Model          string `json:"model"`
	Status         string `json:"status"`
	Step           int64  `json:"step"`
	Attempt        int64  `json:"attempt"`
	Purpose        string `json:"purpose,omitempty"`
	// Tries counts the requests of this step to this model in a row.
	Tries         int64  `json:"tries,omitempty"`
	Deltas        int64  `json:"deltas,omitempty"`
	StopReason    string `json:"stopReason,omitempty"`
	ErrorCategory string `json:"errorCategory,omitempty"`
	Message       string `json:"message,omitempty"`
	Retryable     bool   `json:"retryable,omitempty"`
	RetryAfterMs  *int64 `json:"retryAfterMs,omitempty"`
	// Declined says that no one will mend what the call failed for.
	Declined bool `json:"declined,omitempty"`
	// EndSequence is where the answer is found.
	EndSequence uint64    `json:"endSequence,omitempty"`
	StartedAt   time.Time `json:"startedAt"`
	// Told says that all post_sampling hooks ran on this answer.
	Told bool `json:"told,omitempty"`
}

// ToolCall is one tool call of a turn.
type ToolCall struct {
	ToolCallID string `json:"toolCallId"`
	// TurnID is the turn's, of a failed call that outlives it.
	TurnID        string `json:"turnId,omitempty"`
	StepID        string `json:"stepId,omitempty"`
	ToolName      string `json:"toolName"`
	Status        string `json:"status"`
	Policy        string `json:"policy,omitempty"`
	IsReadOnly    bool   `json:"isReadOnly,omitempty"`
	ErrorCategory string `json:"errorCategory,omitempty"`
	Message       string `json:"message,omitempty"`
	ActionID      string `json:"actionId,omitempty"`
	OutputRef     string `json:"outputRef,omitempty"`
	// Decision is the word on whether the call may run; empty before there is one.
	Decision string `json:"decision,omitempty"`
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
	// StartSequence and EndSequence are where its facts are found, ArgsSequence where
	// the arguments that it runs with are.
	StartSequence uint64 `json:"startSequence,omitempty"`
	ArgsSequence  uint64 `json:"argsSequence,omitempty"`
	EndSequence   uint64 `json:"endSequence,omitempty"`
	// Links name the facts that the call rests on.
	Links event.ToolLinks `json:"links,omitzero"`
}

// Statuses of a tool call.
const (
	ToolRequested = "requested"
	ToolRunning   = "running"
	ToolDone      = "completed"
	ToolFailed    = "failed"
)

func (f *fold) turnSubmitted(p *event.TurnSubmitted) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	turn := &Turn{
		TurnID: f.e.TurnID, ThreadID: f.e.ThreadID, TaskID: f.e.TaskID, RunID: f.e.RunID, TraceID: cmp.Or(f.e.TraceID, t.TraceID),
		Status: p.Status, Phase: p.Status, Source: p.Source, ChannelID: f.e.ChannelID, Preview: p.Preview, Options: p.Options, By: p.SubmittedBy,
		SubmittedSequence: f.e.Sequence, SubmittedAt: f.e.Time, TraceState: p.TraceState,
	}
	if turn.TraceState == "" && turn.TraceID == t.TraceID {
		turn.TraceState = t.TraceState
	}
	if f.e.JobID != "" {
		turn.ParentTaskID, turn.JobID = f.e.ParentTaskID, f.e.JobID
	}
	t.TurnCount++
	t.UpdatedAt = f.e.Time
	if p.Status == TurnQueued || t.Active != nil {
		t.Queue = append(t.Queue, turn)
		return
	}
	t.Active = turn
}

func (f *fold) turnStarted(p *event.TurnStarted) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	t.UpdatedAt = f.e.Time
	if t.Active == nil {
		t.Active = t.takeQueued(f.e.TurnID)
	}
	turn := t.Turn(f.e.TurnID)
	if turn == nil {
		return
	}
	turn.Status, turn.Phase, turn.StartedAt = TurnRunning, "preparing", f.e.Time
	setIf(&turn.ParentTaskID, f.e.ParentTaskID)
	setIf(&turn.JobID, f.e.JobID)
	if p.Environment != nil {
		turn.Environment, t.Environment = p.Environment, p.Environment
	}
	f.turnPolicy(turn, p.Policy)
	f.attemptWorkedOn()
}

// takeQueued removes a turn from the queue and returns it, or nil.
func (t *Thread) takeQueued(id string) *Turn {
	for i, q := range t.Queue {
		if q.TurnID == id {
			t.Queue = append(t.Queue[:i], t.Queue[i+1:]...)
			return q
		}
	}
	return nil
}

// queueChanged orders the queue as the fact says. Turns that the fact doesn't
// list stay, behind the others: a queue never loses a turn but by a fact of its own.
func (f *fold) queueChanged(p *event.QueueChanged) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	t.UpdatedAt = f.e.Time
	ordered := make([]*Turn, 0, len(t.Queue))
	for _, entry := range p.Queue {
		if q := t.takeQueued(entry.TurnID); q != nil {
			ordered = append(ordered, q)
		}
	}
	t.Queue = append(ordered, t.Queue...)
	if len(t.Queue) == 0 {
		t.Queue = nil
	}
}

func (f *fold) turnCompleted(p *event.TurnCompleted) {
	turn := f.endTurn(TurnCompleted)
	if turn == nil {
		return
	}
	turn.Outcome = p.Outcome
}

func (f *fold) turnFailed(p *event.TurnFailed) {
	turn := f.endTurn(p.Status)
	if turn == nil {
		return
	}
	turn.Outcome, turn.FailureCategory, turn.Error = p.Outcome, p.FailureCategory, p.Error
	if p.Status == TurnFailed && p.Error != nil {
		f.incident(p.FailureCategory, p.Error.Message, false)
	}
}

// endTurn moves a turn to the finished ones and drops what only a running turn needs.
func (f *fold) endTurn(status string) *Turn {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return nil
	}
	t.UpdatedAt = f.e.Time
	turn := t.Turn(f.e.TurnID)
	if turn == nil {
		return nil
	}
	if turn == t.Active {
		t.Active = nil
		t.Block = nil
		f.settleIncidents(t.ThreadID, turn.TurnID)
	} else {
		t.takeQueued(turn.TurnID)
		if len(t.Queue) == 0 {
			t.Queue = nil
		}
	}
	turn.Status, turn.Phase = status, status
	turn.EndedAt, turn.EndSequence = f.e.Time, f.e.Sequence
	if turn.Call != nil && turn.Call.Status == CallCompleted {
		turn.AnswerSequence = turn.Call.EndSequence
	}
	t.FailedTools = failedCalls(t.FailedTools, turn)
	turn.Call, turn.Tools, turn.EarlierTools, turn.Waiting = nil, nil, nil, nil
	turn.ContextTokens = t.ContextTokens
	if len(t.Recent) == keepTurns {
		f.evict("turn/"+t.Recent[0].TurnID, t.Recent[0])
		t.passInherited()
	}
	t.Recent = recent(t.Recent, turn, keepTurns)
	return turn
}

func (f *fold) interruptRequested(p *event.TurnInterruptRequested) {
	if turn := f.turn(); turn != nil {
		turn.Interrupt = &Interrupt{Reason: p.Reason, Queue: p.Queue, By: p.RequestedBy, At: f.e.Time, Cause: p.Cause}
	}
}

func (f *fold) turnSteered() {
	if turn := f.turn(); turn != nil {
		turn.Steered++
	}
}

func (f *fold) runStatus(p *event.RunStatus) {
	if turn := f.turn(); turn != nil {
		turn.Phase = p.Phase
	}
}

func (f *fold) modelRequested(p *event.ModelRequested) {
	if p.Purpose == "compaction" {
		f.summaryRequested(p)
		return // beside the turn's own calls
	}
	turn := f.turn()
	if turn == nil {
		return
	}
	turn.Phase = "running"
	turn.Step = p.Step
	if turn.Steered > turn.SteeredSeen || (p.Purpose == "repair" && p.Attempt == 1) {
		turn.FailedCalls = 0
	}
	turn.SteeredSeen = turn.Steered
	turn.noteRepeat()
	turn.EarlierTools, turn.Tools = keptCalls(turn.EarlierTools, turn.Tools), nil
	call := &ModelCall{
		ModelRequestID: p.ModelRequestID, StepID: f.e.StepID, Provider: p.Provider, Model: p.Model,
		Status: CallRunning, Step: p.Step, Attempt: p.Attempt, Purpose: p.Purpose, Tries: 1, StartedAt: f.e.Time,
	}
	if c := turn.Call; c != nil && c.Step == call.Step && c.Provider == call.Provider && c.Model == call.Model {
		call.Tries = c.Tries + 1
	}
	turn.Call = call
}

func (f *fold) modelDelta() {
	turn := f.turn()
	if turn == nil {
		return
	}
	turn.Phase = "streaming"
	if turn.Call != nil {
		turn.Call.Deltas++
	}
}

func (f *fold) modelCompleted(p *event.ModelCompleted) {
	f.modelAnswered(p)
	turn := f.turn()
	if turn == nil {
		return
	}
	turn.Usage = addUsage(turn.Usage, p.Usage)
	if turn.Call == nil || turn.Call.ModelRequestID != p.ModelRequestID {
		return
	}
	t := f.s.Thread(f.e.ThreadID)
	t.ModelCalls++
	t.CallsEnded++
	t.ContextTokens = p.Usage.InputTokens + p.Usage.OutputTokens
	turn.Phase = "running"
	turn.Call.Status, turn.Call.StopReason, turn.Call.EndSequence = CallCompleted, p.StopReason, f.e.Sequence
	if p.Message == nil {
		return
	}
	for _, c := range p.Message.ToolCalls {
		turn.Tools = append(turn.Tools, &ToolCall{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Status: ToolRequested})
	}
}

func addUsage(a, b event.Usage) event.Usage {
	return event.Usage{
		InputTokens:       a.InputTokens + b.InputTokens,
		OutputTokens:      a.OutputTokens + b.OutputTokens,
		CachedInputTokens: a.CachedInputTokens + b.CachedInputTokens,
		ReasoningTokens:   a.ReasoningTokens + b.ReasoningTokens,
	}
}

func (f *fold) modelFailed(p *event.ModelFailed) {
	turn := f.turn()
	if turn == nil || turn.Call == nil || turn.Call.ModelRequestID != p.ModelRequestID {
		return
	}
	c := turn.Call
	c.Status, c.ErrorCategory, c.Message, c.Retryable, c.RetryAfterMs = CallFailed, p.ErrorCategory, p.Message, p.Retryable, p.RetryAfterMs
	c.EndSequence = f.e.Sequence
	if p.ErrorCategory != "interrupted" {
		turn.FailedCalls++
		f.s.Thread(f.e.ThreadID).CallsEnded++
	}
}

// toolCall returns the call that the fact is about, made known if it isn't yet.
func (f *fold) toolCall(name string) *ToolCall {
	turn := f.turn()
	if turn == nil || f.e.ToolCallID == event.NotApplicable {
		return nil
	}
	for _, c := range turn.Tools {
		if c.ToolCallID == f.e.ToolCallID {
			return c
		}
	}
	c := &ToolCall{ToolCallID: f.e.ToolCallID, ToolName: name, Status: ToolRequested}
	turn.Tools = append(turn.Tools, c)
	return c
}

// digest is a short fingerprint of texts, for comparing them within a turn.
func digest(texts ...string) string {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t)) // a hash takes everything
		_, _ = h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// noteRepeat compares the calls that just ended with those before them: a model
// that asks for the same things and gets the same answers is going in circles.
func (t *Turn) noteRepeat() {
	if len(t.Tools) == 0 {
		return
	}
	texts := make([]string, len(t.Tools))
	for i, c := range t.Tools {
		texts[i] = c.Digest
	}
	d := digest(texts...)
	if d == t.StepDigest {
		t.Repeats++
	} else {
		t.Repeats, t.StepDigest = 0, d
	}
}

func (f *fold) toolResult(p *event.ToolResult) {
	f.planUpdated(p)
	if c := f.toolCall(p.ToolName); c != nil {
		c.Status, c.OutputRef, c.EndSequence = ToolDone, p.OutputRef, f.e.Sequence
		c.Digest = digest(c.Digest, p.Status, p.Preview, p.OutputRef)
	}
}

func (f *fold) toolFailed(p *event.ToolFailed) {
	c := f.toolCall(p.ToolName)
	if c == nil {
		return
	}
	f.turn().FailedTools++
	c.Status, c.ErrorCategory, c.Message, c.EndSequence = ToolFailed, p.ErrorCategory, p.Message, f.e.Sequence
	c.Digest = digest(c.Digest, p.ErrorCategory, p.Message)
	f.incident("tool_"+p.ErrorCategory, p.ToolName+": "+p.Message, false)
}
