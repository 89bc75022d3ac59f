package evidence

import (
	"time"

	"agentd/event"
)

// openCall is a tool or model call that has begun.
type openCall struct {
	startedAt time.Time
	sequence  uint64
	eventID   string
	name      string
	event     event.Scope
	// status is requested until a tool call runs.
	status string
}

// CallLine is one tool or model call in a pack.
type CallLine struct {
	ChangedFiles   []string     `json:"changedFiles,omitempty"`
	DurationMs     int64        `json:"durationMs,omitempty"`
	EndEventID     string       `json:"endEventId,omitempty"`
	EndSequence    uint64       `json:"endSequence,omitempty"`
	ErrorCategory  string       `json:"errorCategory,omitempty"`
	ExitCode       *int64       `json:"exitCode,omitempty"`
	Message        string       `json:"message,omitempty"`
	ModelRequestID string       `json:"modelRequestId,omitempty"`
	Name           string       `json:"name"`
	OutputRef      string       `json:"outputRef,omitempty"`
	StartEventID   string       `json:"startEventId,omitempty"`
	StartSequence  uint64       `json:"startSequence,omitempty"`
	Status         string       `json:"status"`
	StepID         string       `json:"stepId,omitempty"`
	StopReason     string       `json:"stopReason,omitempty"`
	SubagentID     string       `json:"subagentId,omitempty"`
	ThreadID       string       `json:"threadId,omitempty"`
	ToolCallID     string       `json:"toolCallId,omitempty"`
	TurnID         string       `json:"turnId,omitempty"`
	Usage          *event.Usage `json:"usage,omitempty"`
}

// turnLine is one turn in a pack.
type turnLine struct {
	EndEventID      string    `json:"endEventId,omitempty"`
	EndSequence     uint64    `json:"endSequence,omitempty"`
	FailureCategory string    `json:"failureCategory,omitempty"`
	Outcome         string    `json:"outcome,omitempty"`
	Preview         string    `json:"preview,omitempty"`
	RunID           string    `json:"runId,omitempty"`
	Status          string    `json:"status"`
	SubmitEventID   string    `json:"submitEventId,omitempty"`
	SubmitSequence  uint64    `json:"submitSequence,omitempty"`
	SubmittedAt     time.Time `json:"submittedAt"`
	TaskID          string    `json:"taskId,omitempty"`
	ThreadID        string    `json:"threadId,omitempty"`
	TurnID          string    `json:"turnId"`
}

// calls follows turns, model calls and tool calls from their beginning to their
// end.
func (c *collector) calls(e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		c.turns[e.TurnID] = &turnLine{
			TurnID: e.TurnID, ThreadID: e.ThreadID, TaskID: e.TaskID, RunID: e.RunID, Status: p.Status, Preview: clipText(p.Preview),
			SubmitEventID: e.ID, SubmitSequence: e.Sequence, SubmittedAt: e.Time,
		}
	case *event.TurnStarted:
		if t := c.turns[e.TurnID]; t != nil {
			t.Status, t.RunID = p.Status, e.RunID
		}
	case *event.TurnCompleted:
		return c.turnEnds(e, p.Status, p.Outcome, "")
	case *event.TurnFailed:
		return c.turnEnds(e, p.Status, p.Outcome, p.FailureCategory)
	case *event.ToolStarted:
		c.opens(e, e.ToolCallID, p.ToolName, !p.Runs())
	case *event.ToolProgress:
		if o := c.open[e.ToolCallID]; o != nil && p.Phase != "" {
			o.status = callStatus(p.Phase != event.PhaseRunning)
		}
	case *event.ModelRequested:
		c.opens(e, e.ModelRequestID, p.Provider+"/"+p.Model, false)
	case *event.ModelCompleted:
		line := c.ends(e, e.ModelRequestID, p.Provider+"/"+p.Model)
		line.Status, line.StopReason, line.Usage, line.DurationMs = "completed", p.StopReason, &p.Usage, p.DurationMs
		return c.lists["modelCalls"].add(line)
	case *event.ModelFailed:
		line := c.ends(e, e.ModelRequestID, p.Provider+"/"+p.Model)
		line.Status, line.ErrorCategory, line.Message = "failed", p.ErrorCategory, clipText(p.Message)
		return c.addFailedCall("modelCalls", line)
	case *event.ToolResult:
		return c.toolResult(e, p)
	case *event.ToolFailed:
		line := c.ends(e, e.ToolCallID, p.ToolName)
		line.Status, line.ErrorCategory, line.Message = "failed", p.ErrorCategory, clipText(p.Message)
		line.DurationMs, line.OutputRef, line.ChangedFiles = p.DurationMs, p.OutputRef, c.changedPaths(p.ChangedFiles)
		return c.addFailedCall("toolCalls", line)
	}
	return nil
}

func (c *collector) toolResult(e *event.Event, p *event.ToolResult) error {
	line := c.ends(e, e.ToolCallID, p.ToolName)
	line.Status, line.DurationMs, line.OutputRef, line.ChangedFiles = p.Status, p.DurationMs, p.OutputRef, c.changedPaths(p.ChangedFiles)
	if p.ExitCode.Present && !p.ExitCode.Null {
		line.ExitCode = &p.ExitCode.Value
	}
	if p.Status == "error" {
		return c.addFailedCall("toolCalls", line)
	}
	return c.lists["toolCalls"].add(line)
}

// addFailedCall adds a call to its list and to that of failed calls.
func (c *collector) addFailedCall(list string, line *CallLine) error {
	if err := c.lists[list].add(line); err != nil {
		return err
	}
	return c.lists["failedCalls"].add(line)
}

func (c *collector) changedPaths(files []event.FileChange) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Change+" "+f.Path)
		if f.BeforeRef != "" {
			c.sealed++
		}
	}
	return out
}

func (c *collector) opens(e *event.Event, id, name string, requested bool) {
	c.open[id] = &openCall{e.Time, e.Sequence, e.ID, name, e.Scope, callStatus(requested)}
}

// callStatus is the status of a call without an end.
func callStatus(requested bool) string {
	if requested {
		return "requested"
	}
	return "running"
}

// ends returns the line of a call that ends with a fact.
func (c *collector) ends(e *event.Event, id, name string) *CallLine {
	line := lineOf(&e.Scope, name)
	line.EndEventID, line.EndSequence = e.ID, e.Sequence
	if o := c.open[id]; o != nil {
		line.StartEventID, line.StartSequence = o.eventID, o.sequence
		delete(c.open, id)
	}
	return line
}

func lineOf(s *event.Scope, name string) *CallLine {
	return &CallLine{
		ThreadID: s.ThreadID, TurnID: s.TurnID, StepID: s.StepID, ToolCallID: applicable(s.ToolCallID), ModelRequestID: s.ModelRequestID,
		SubagentID: s.SubagentID, Name: name,
	}
}

func (c *collector) turnEnds(e *event.Event, status, outcome, category string) error {
	t := c.turns[e.TurnID]
	if t == nil {
		t = &turnLine{TurnID: e.TurnID, ThreadID: e.ThreadID, TaskID: e.TaskID}
	}
	delete(c.turns, e.TurnID)
	t.RunID = e.RunID // after a crash that of the last attempt
	t.Status, t.Outcome, t.FailureCategory, t.EndEventID, t.EndSequence = status, outcome, category, e.ID, e.Sequence
	return c.lists["turns"].add(t)
}

// unfinished adds the turns and calls that have no end yet, and returns how many
// calls there are.
func (c *collector) unfinished() (calls []string, err error) {
	for _, t := range sortedBy(c.turns, func(t *turnLine) uint64 { return t.SubmitSequence }) {
		if err := c.lists["turns"].add(t); err != nil {
			return nil, err
		}
	}
	for _, o := range sortedBy(c.open, func(o *openCall) uint64 { return o.sequence }) {
		line := lineOf(&o.event, o.name)
		line.Status, line.StartEventID, line.StartSequence = o.status, o.eventID, o.sequence
		list := "toolCalls"
		if line.ToolCallID == "" {
			list = "modelCalls"
		}
		if err := c.lists[list].add(line); err != nil {
			return nil, err
		}
		calls = append(calls, o.eventID)
	}
	return calls, nil
}
