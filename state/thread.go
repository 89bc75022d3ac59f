package state

import (
	"cmp"
	"time"

	"agentd/event"
)

// Statuses of a thread on the wire.
const (
	ThreadIdle      = "idle"
	ThreadQueued    = "queued"
	ThreadRunning   = "running"
	ThreadBlocked   = "blocked"
	ThreadCompleted = "completed"
	ThreadFailed    = "failed"
	ThreadCancelled = "cancelled"
)

// Thread is an ordered execution context of a session.
type Thread struct {
	ThreadID       string `json:"threadId"`
	Role           string `json:"role"`
	Title          string `json:"title,omitempty"`
	ParentThreadID string `json:"parentThreadId,omitempty"`
	ParentTurnID   string `json:"parentTurnId,omitempty"`
	SubagentID     string `json:"subagentId,omitempty"`
	// RootTurnID is the turn that a subagent's work hangs on, over all levels, and
	// TraceID the trace that its caller sent, if it sent one, with TraceState.
	RootTurnID     string    `json:"rootTurnId,omitempty"`
	TraceID        string    `json:"traceId,omitempty"`
	TraceState     string    `json:"traceState,omitempty"`
	TaskID         string    `json:"taskId,omitempty"`
	Cwd            string    `json:"cwd,omitempty"`
	PermissionMode string    `json:"permissionMode,omitempty"`
	Model          string    `json:"model,omitempty"`
	StartedAt      time.Time `json:"startedAt"`
	UpdatedAt      time.Time `json:"updatedAt"`
	// StartedSequence is where the thread's facts begin, LastSequence its newest one,
	// which happened at LastAt.
	StartedSequence uint64    `json:"startedSequence,omitempty"`
	LastSequence    uint64    `json:"lastSequence,omitempty"`
	LastAt          time.Time `json:"lastAt,omitzero"`

	// Block is set while the thread can't go on and says why.
	Block *Block `json:"block,omitempty"`
	// Active is the turn that was accepted or runs; at most one.
	Active *Turn `json:"active,omitempty"`
	// Queue holds the turns that wait, first to run first.
	Queue []*Turn `json:"queue,omitempty"`
	// Recent holds the last finished turns, oldest first.
	Recent []*Turn `json:"recent,omitempty"`
	// Inherited are the last turns that a fork has from other sessions, oldest first,
	// as long as they come right before Recent; MoreInherited says that there are others.
	Inherited     []event.InheritedTurn `json:"inherited,omitempty"`
	MoreInherited bool                  `json:"moreInherited,omitempty"`
	// Base is where the history of a fork that was rolled back behind its beginning
	// ends in another session; nil if that is where the session was forked.
	Base *event.ForkPoint `json:"base,omitempty"`
	// FailedTools are the last tool calls of finished turns that failed, oldest first.
	FailedTools []ToolCall `json:"failedTools,omitempty"`
	// TurnCount counts the turns that were ever submitted.
	TurnCount int64 `json:"turnCount"`
	// ModelCalls counts the model calls that ever ended with an answer.
	ModelCalls int64 `json:"modelCalls"`
	// CallsEnded counts the model calls that ever ended by themselves, with an answer
	// or with an error.
	CallsEnded int64 `json:"callsEnded"`
	// ContextTokens is how many tokens the last answered call took and gave.
	ContextTokens int64 `json:"contextTokens,omitempty"`

	// Context, Routing, Sandbox and Inventory are what the thread's newest facts
	// of their kind say; nil before the first.
	Context   *ThreadContext  `json:"context,omitempty"`
	Routing   *ThreadRouting  `json:"routing,omitempty"`
	Sandbox   *AppliedSandbox `json:"sandbox,omitempty"`
	Inventory *ToolInventory  `json:"inventory,omitempty"`
	// Environment is where the thread's last turn works.
	Environment *event.ExecutionEnvironment `json:"environment,omitempty"`
	// Plan is what the agent last said that it will do.
	Plan *Plan `json:"plan,omitempty"`
	// Correlation counts the thread's facts with and without a trace.
	Correlation Correlation `json:"correlation,omitzero"`
}

// Block says why a thread can't go on.
type Block struct {
	// Reason says why the thread can't go on.
	Reason string `json:"reason"`
	// Code classifies the reason.
	Code string `json:"code,omitempty"`
	// ActionIDs are the actions that would let the thread go on.
	ActionIDs []string `json:"actionIds,omitempty"`
	// Since is when it stopped.
	Since time.Time `json:"since"`
}

// Status returns the thread's coarse status: what it does now, and when it does
// nothing, how its last turn ended.
func (t *Thread) Status() string {
	switch {
	case t.Block != nil:
		return ThreadBlocked
	case t.Active != nil && len(t.Active.Waiting) > 0:
		return ThreadBlocked
	case t.Active != nil:
		return ThreadRunning
	case len(t.Queue) > 0:
		return ThreadQueued
	case len(t.Recent) == 0:
		return ThreadIdle
	}
	switch t.Recent[len(t.Recent)-1].Status {
	case TurnCompleted:
		return ThreadCompleted
	case TurnCancelled:
		return ThreadCancelled
	default:
		return ThreadFailed
	}
}

// Phase returns what the thread does in the standard's finer words.
func (t *Thread) Phase() string {
	switch {
	case t.Block != nil:
		return "blocked"
	case t.Active != nil:
		return t.Active.Phase
	case len(t.Queue) > 0:
		return "queued"
	}
	return t.Status()
}

// Busy reports whether a new turn would have to wait.
func (t *Thread) Busy() bool { return t.Active != nil || len(t.Queue) > 0 }

// Turn returns an unfinished turn of the thread, or nil.
func (t *Thread) Turn(id string) *Turn {
	if t.Active != nil && t.Active.TurnID == id {
		return t.Active
	}
	for _, q := range t.Queue {
		if q.TurnID == id {
			return q
		}
	}
	return nil
}

// Known returns a turn that the state still holds, an unfinished one or one of the
// last that ended, or nil.
func (t *Thread) Known(id string) *Turn {
	if turn := t.Turn(id); turn != nil {
		return turn
	}
	for _, turn := range t.Recent {
		if turn.TurnID == id {
			return turn
		}
	}
	return nil
}

func (f *fold) threadStarted(p *event.ThreadStarted) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		t = &Thread{ThreadID: f.e.ThreadID, StartedAt: f.e.Time, StartedSequence: f.e.Sequence}
		f.s.Threads = append(f.s.Threads, t)
	}
	t.Role, t.Title = p.Role, p.Title
	t.ParentThreadID, t.ParentTurnID = p.ParentThreadID, p.ParentTurnID
	f.inheritTrace(t)
	t.SubagentID, t.TaskID = f.e.SubagentID, f.e.TaskID
	t.Cwd, t.PermissionMode, t.Model = p.Cwd, p.PermissionMode, p.Model
	t.UpdatedAt = f.e.Time
}

func (f *fold) threadUpdated(p *event.ThreadUpdated) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	t.UpdatedAt = f.e.Time
	if p.Title != "" {
		t.Title = p.Title
	}
	switch p.Status {
	case "blocked":
		t.Block = &Block{Reason: p.Reason, Code: p.Code, ActionIDs: p.ActionIDs, Since: f.e.Time}
		f.incident(cmp.Or(p.Code, ThreadBlocked), p.Reason, true)
	case "resumed", "open":
		t.Block = nil
		f.settleIncidents(t.ThreadID, "")
	case "archived":
		f.archiveThread(t)
	}
	if t.Active != nil {
		f.turnTaskWaits(t.Active)
	}
}

// archiveThread takes a thread out of the working set.
func (f *fold) archiveThread(t *Thread) {
	for i, o := range f.s.Threads {
		if o == t {
			f.s.Threads = append(f.s.Threads[:i], f.s.Threads[i+1:]...)
			break
		}
	}
	f.s.ArchivedThreads++
	f.evict("thread/"+t.ThreadID, t)
}
