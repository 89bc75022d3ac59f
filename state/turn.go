package state

import (
	"cmp"
	"hash/fnv"
	"strconv"

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

// Inactivity reports whether the turn is stopped because it showed no progress: it
// ends as timed out, not as interrupted.
func (i *Interrupt) Inactivity() bool { return i.Cause == event.InterruptInactivity }

// Statuses of a model call.
const (
	CallRunning   = "running"
	CallCompleted = "completed"
	CallFailed    = "failed"
)

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
		InputTokens:           a.InputTokens + b.InputTokens,
		OutputTokens:          a.OutputTokens + b.OutputTokens,
		CachedInputTokens:     a.CachedInputTokens + b.CachedInputTokens,
		CacheWriteInputTokens: a.CacheWriteInputTokens + b.CacheWriteInputTokens,
		ReasoningTokens:       a.ReasoningTokens + b.ReasoningTokens,
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
