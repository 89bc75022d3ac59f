package state

import (
	"time"

	"agentd/event"
)

// ThreadReadModel answers what is happening in a thread now. Status is the
// standard's coarse word, Phase the finer one beside it.
type ThreadReadModel struct {
	ThreadID       string       `json:"threadId"`
	SessionID      string       `json:"sessionId"`
	Role           string       `json:"role,omitempty"`
	Title          string       `json:"title,omitempty"`
	ParentThreadID string       `json:"parentThreadId,omitempty"`
	ParentTurnID   string       `json:"parentTurnId,omitempty"`
	SubagentID     string       `json:"subagentId,omitempty"`
	TaskID         string       `json:"taskId,omitempty"`
	Cwd            string       `json:"cwd,omitempty"`
	Model          string       `json:"model,omitempty"`
	Status         string       `json:"status"`
	Phase          string       `json:"phase"`
	Block          *Block       `json:"block,omitempty"`
	ActiveTurnID   string       `json:"activeTurnId,omitempty"`
	LastOutcome    *LastOutcome `json:"lastOutcome,omitempty"`
	StartedAt      time.Time    `json:"startedAt"`
	UpdatedAt      time.Time    `json:"updatedAt"`
	TurnCount      int64        `json:"turnCount"`
	// Truncated says that older turns are not shown.
	Truncated bool `json:"truncated"`

	Turns           []TurnView   `json:"turns"`
	QueuedTurns     []QueuedTurn `json:"queuedTurns"`
	PendingRequests []Action     `json:"pendingRequests"`
	Actions         []Action     `json:"actions"`
	Incidents       []Incident   `json:"incidents"`
	ToolCalls       []ToolCall   `json:"toolCalls"`
	Processes       []Process    `json:"processes"`
	Diagnostics     Diagnostics  `json:"diagnostics"`
	// Plan is what the agent last said that it will do.
	Plan *Plan `json:"plan,omitempty"`

	PermissionState      PermissionState     `json:"permissionState"`
	SandboxState         SandboxState        `json:"sandboxState"`
	ExecutionEnvironment EnvironmentSnapshot `json:"executionEnvironment"`
	ModelRouting         ModelRouting        `json:"modelRouting"`
	LimitState           LimitState          `json:"limitState"`
	CostState            CostState           `json:"costState"`
	ContextBoundary      ContextBoundary     `json:"contextBoundary"`
	ToolInventory        InventorySnapshot   `json:"toolInventory"`

	Tasks         []Task          `json:"tasks"`
	TaskGraph     TaskGraph       `json:"taskGraph"`
	Attempts      []TaskAttempt   `json:"attempts"`
	BlockedTasks  []BlockedTask   `json:"blockedTasks"`
	DeliveryState DeliverySummary `json:"deliveryState"`
	Subagents     []Subagent      `json:"subagents"`
	SubagentGraph []SubagentEdge  `json:"subagentGraph"`
	Jobs          []JobView       `json:"jobs"`
	Channels      []Channel       `json:"channels"`

	Telemetry       TelemetrySummary `json:"telemetry"`
	History         HistorySummary   `json:"history"`
	Outputs         []Output         `json:"outputs"`
	Artifacts       ArtifactSummary  `json:"artifacts"`
	EvidenceSummary EvidenceSummary  `json:"evidenceSummary"`
}

// LastOutcome is how the thread's last finished turn ended.
type LastOutcome struct {
	TurnID          string         `json:"turnId"`
	Status          string         `json:"status"`
	Outcome         string         `json:"outcome,omitempty"`
	FailureCategory string         `json:"failureCategory,omitempty"`
	Error           *event.Failure `json:"error,omitempty"`
	EndedAt         time.Time      `json:"endedAt"`
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
	Warnings []string `json:"warnings"`
	// FailedTools are the last tool calls that failed, also of earlier turns.
	FailedTools     []ToolCall `json:"failedTools"`
	FailedCommands  []string   `json:"failedCommands"`
	PendingRequests int        `json:"pendingRequests"`
	LostWorkers     []string   `json:"lostWorkers"`
	Interrupt       *Interrupt `json:"interrupt,omitempty"`
	QuotaBlocks     []Quota    `json:"quotaBlocks"`
	ContextGaps     []string   `json:"contextGaps"`
	// StalledTurns and StalledTasks need a clock, which a fold doesn't have.
	StalledTurns string `json:"stalledTurns"`
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
