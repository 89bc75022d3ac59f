package state

import (
	"time"

	"agentd/event"
)

// ThreadReadModel answers what is happening in a thread now. Status is the
// standard's coarse word, Phase the finer one beside it.
type ThreadReadModel struct {
	ThreadID  string `json:"threadId"`
	SessionID string `json:"sessionId"`
	// Role of the thread.
	Role string `json:"role,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// ParentThreadID is the thread that a child's thread works for.
	ParentThreadID string `json:"parentThreadId,omitempty"`
	// ParentTurnID is the turn that a child's thread works for.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// SubagentID is the child whose thread it is.
	SubagentID string `json:"subagentId,omitempty"`
	// TaskID is the task that the thread works on.
	TaskID string `json:"taskId,omitempty"`
	// Cwd is the folder that the thread works in, if it has one of its own.
	Cwd string `json:"cwd,omitempty"`
	// Model that the thread uses, if it has one of its own.
	Model  string `json:"model,omitempty"`
	Status string `json:"status"`
	Phase  string `json:"phase"`
	// Block is set while the thread can't go on and says why.
	Block        *Block `json:"block,omitempty"`
	ActiveTurnID string `json:"activeTurnId,omitempty"`
	// LastOutcome is how the thread's last finished turn ended.
	LastOutcome *LastOutcome `json:"lastOutcome,omitempty"`
	// StartedAt is when the thread was started.
	StartedAt time.Time `json:"startedAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
	TurnCount int64     `json:"turnCount"`
	// Truncated says that older turns are not shown.
	Truncated bool `json:"truncated"`

	Turns           []TurnView   `json:"turns"`
	QueuedTurns     []QueuedTurn `json:"queuedTurns"`
	PendingRequests []Action     `json:"pendingRequests"`
	// Actions that wait, and the last resolved ones.
	Actions []Action `json:"actions"`
	// Incidents are the thread's last warnings and errors, oldest first.
	Incidents []Incident `json:"incidents"`
	// ToolCalls are those of the active turn.
	ToolCalls []ToolCall `json:"toolCalls"`
	// Processes that have not ended, and the last ended ones.
	Processes []Process `json:"processes"`
	// Diagnostics is what stands out.
	Diagnostics Diagnostics `json:"diagnostics"`
	// Plan is what the agent last said that it will do.
	Plan *Plan `json:"plan,omitempty"`

	// PermissionState says what may run and what was decided.
	PermissionState PermissionState `json:"permissionState"`
	// SandboxState is the boundary that was applied last.
	SandboxState SandboxState `json:"sandboxState"`
	// ExecutionEnvironment is where the thread's commands run.
	ExecutionEnvironment EnvironmentSnapshot `json:"executionEnvironment"`
	// ModelRouting is how the thread's model was chosen.
	ModelRouting ModelRouting `json:"modelRouting"`
	// LimitState says how much is left.
	LimitState LimitState `json:"limitState"`
	// CostState is what model calls cost.
	CostState CostState `json:"costState"`
	// ContextBoundary is what the thread's model calls see.
	ContextBoundary ContextBoundary `json:"contextBoundary"`
	// ToolInventory says which tools the newest turn may use.
	ToolInventory InventorySnapshot `json:"toolInventory"`

	// Tasks that have not ended, and the last ended ones.
	Tasks []Task `json:"tasks"`
	// TaskGraph is the edges of its tasks.
	TaskGraph TaskGraph `json:"taskGraph"`
	// Attempts are those under way, and the newest one of each task.
	Attempts []TaskAttempt `json:"attempts"`
	// BlockedTasks can't go on by themselves.
	BlockedTasks []BlockedTask `json:"blockedTasks"`
	// DeliveryState says whether results reached who asked for them.
	DeliveryState DeliverySummary `json:"deliveryState"`
	// Subagents are the children of the thread, and the child whose thread it is.
	Subagents []Subagent `json:"subagents"`
	// SubagentGraph leads from the thread to its children and theirs.
	SubagentGraph []SubagentEdge `json:"subagentGraph"`
	// Jobs are the thread's batches.
	Jobs []JobView `json:"jobs"`
	// Channels are the session's remote peers.
	Channels []Channel `json:"channels"`

	// Telemetry says how facts are joined to traces.
	Telemetry TelemetrySummary `json:"telemetry"`
	// History is what happened to the record of the thread.
	History HistorySummary `json:"history"`
	// Outputs are the last large outputs.
	Outputs []Output `json:"outputs"`
	// Artifacts are the deliverables that changed last.
	Artifacts ArtifactSummary `json:"artifacts"`
	// EvidenceSummary is what was exported or observed to prove what happened.
	EvidenceSummary EvidenceSummary `json:"evidenceSummary"`
}

// LastOutcome is how the thread's last finished turn ended.
type LastOutcome struct {
	// TurnID is the turn that ended last.
	TurnID string `json:"turnId"`
	// Status of the turn.
	Status string `json:"status"`
	// Outcome of the turn.
	Outcome string `json:"outcome,omitempty"`
	// FailureCategory classifies the failure.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Error is why it failed.
	Error *event.Failure `json:"error,omitempty"`
	// EndedAt is when the turn ended.
	EndedAt time.Time `json:"endedAt"`
}

// ThreadRead returns the read model of a thread, or nil if the session has no
// such thread that isn't archived.
func (s *Session) ThreadRead(threadID string) *ThreadReadModel {
	t := s.Thread(threadID)
	if t == nil {
		return nil
	}
	return s.threadRead(t)
}

func (s *Session) threadRead(t *Thread) *ThreadReadModel {
	id := t.ThreadID
	m := &ThreadReadModel{
		ThreadID: id, SessionID: s.SessionID, Role: t.Role, Title: t.Title, ParentThreadID: t.ParentThreadID, ParentTurnID: t.ParentTurnID,
		SubagentID: t.SubagentID, TaskID: t.TaskID, Cwd: t.Cwd, Model: t.Model,
		Status: t.Status(), Phase: s.threadPhase(t), Block: t.Block, LastOutcome: lastOutcome(t),
		StartedAt: t.StartedAt, UpdatedAt: t.UpdatedAt, TurnCount: t.TurnCount,
		Turns: s.turns(t), QueuedTurns: queuedTurns(t), ToolCalls: toolCalls(t.Active), Plan: t.Plan,
		PermissionState: s.permissionState(id), SandboxState: s.sandboxState(t), ExecutionEnvironment: s.environmentSnapshot(t),
		ModelRouting: modelRouting(t), LimitState: s.limitState(), CostState: s.costState(t), ContextBoundary: contextBoundary(t),
		ToolInventory: inventorySnapshot(t), Channels: s.channels(),
		Telemetry: s.telemetrySummary(t), History: s.historySummary(id), Artifacts: s.artifactSummary(id), EvidenceSummary: s.evidenceSummary(id),
	}
	if t.Active != nil {
		m.ActiveTurnID = t.Active.TurnID
	}
	m.Truncated = t.MoreInherited || t.TurnCount > int64(len(m.Turns)-len(t.Inherited))
	s.threadLists(m)
	m.Diagnostics = s.diagnostics(t, m)
	return m
}

// Fill adds what the runtime knows of where the thread's commands run.
func (m *ThreadReadModel) Fill(p *Place) {
	m.ExecutionEnvironment.fill(p)
	m.PermissionState.fill(p)
}

// threadLists fills the lists that hold the thread's part of the session's.
func (s *Session) threadLists(m *ThreadReadModel) {
	id := m.ThreadID
	m.PendingRequests = copied(func(a *Action) bool { return a.ThreadID == id }, s.Actions.Pending)
	m.Actions = copied(func(a *Action) bool { return a.ThreadID == id }, s.Actions.Pending, s.Actions.Recent)
	m.Incidents = chosen(s.Incidents, func(i *Incident) bool { return i.ThreadID == id || !isKnown(i.ThreadID) })
	m.Processes = copied(func(p *Process) bool { return p.ThreadID == id }, s.Environment.Active, s.Environment.Recent)
	m.Outputs = copied(func(o *Output) bool { return o.ThreadID == id }, s.Outputs.Recent)
	m.Tasks = s.tasksOf(id)
	m.TaskGraph = taskGraph(m.Tasks)
	m.Attempts = visibleAttempts(m.Tasks)
	m.BlockedTasks = s.blockedTasks(m.Tasks)
	m.DeliveryState = deliverySummary(m.Tasks)
	m.Subagents = copied(func(a *Subagent) bool { return a.ParentThreadID == id || a.ThreadID == id }, s.Subagents.Open, s.Subagents.Recent)
	m.SubagentGraph = s.descendants(id)
	m.Jobs = s.jobsOf(id)
}

// threadPhase is the thread's phase; a turn that waits says what for.
func (s *Session) threadPhase(t *Thread) string {
	if t.Block == nil && t.Active != nil {
		return s.turnPhase(t.Active)
	}
	return t.Phase()
}

func lastOutcome(t *Thread) *LastOutcome {
	if len(t.Recent) == 0 {
		return nil
	}
	last := t.Recent[len(t.Recent)-1]
	return &LastOutcome{
		TurnID: last.TurnID, Status: last.Status, Outcome: last.Outcome, FailureCategory: last.FailureCategory,
		Error: last.Error, EndedAt: last.EndedAt,
	}
}

// Diagnostics is what stands out in a thread. What the runtime doesn't look at
// says so: nothing here means that all is well.
type Diagnostics struct {
	// Warnings are the thread's incidents in one line each.
	Warnings []string `json:"warnings"`
	// FailedTools are the last tool calls that failed, also of earlier turns.
	FailedTools []ToolCall `json:"failedTools"`
	// FailedCommands are the processes that ended with an error.
	FailedCommands []string `json:"failedCommands"`
	// PendingRequests counts the actions that wait for an answer.
	PendingRequests int `json:"pendingRequests"`
	// LostWorkers are the tasks whose worker is lost.
	LostWorkers []string `json:"lostWorkers"`
	// Interrupt is set while the active turn is to be stopped.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// QuotaBlocks are the budgets and quotas that are spent.
	QuotaBlocks []Quota `json:"quotaBlocks"`
	// ContextGaps says what could not be found for the last turn's context.
	ContextGaps []string `json:"contextGaps"`
	// StalledTurns is unavailable: a fold has no clock.
	StalledTurns string `json:"stalledTurns"`
	// StalledTasks is unavailable: a fold has no clock.
	StalledTasks string `json:"stalledTasks"`
}

func (s *Session) diagnostics(t *Thread, m *ThreadReadModel) Diagnostics {
	d := Diagnostics{
		Warnings: []string{}, FailedCommands: []string{}, LostWorkers: []string{}, ContextGaps: []string{},
		FailedTools:     failedTools(t, m.ToolCalls),
		PendingRequests: len(m.PendingRequests),
		QuotaBlocks:     chosen(s.Routing.Quotas, func(q *Quota) bool { return q.Status == "blocked" }),
		StalledTurns:    Unavailable, StalledTasks: Unavailable,
	}
	for _, i := range m.Incidents {
		d.Warnings = append(d.Warnings, i.Code+": "+i.Message)
	}
	for _, p := range m.Processes {
		if p.Status == ProcessFailed || p.ExitCode != nil && *p.ExitCode != 0 {
			d.FailedCommands = append(d.FailedCommands, p.ProcessID)
		}
	}
	for _, x := range m.Tasks {
		if x.Status == TaskLost {
			d.LostWorkers = append(d.LostWorkers, x.TaskID)
		}
	}
	if t.Active != nil {
		d.Interrupt = t.Active.Interrupt
	}
	if t.Context != nil && t.Context.Resolved != nil {
		d.ContextGaps = listCopy(t.Context.Resolved.MissingFacts)
	}
	return d
}
