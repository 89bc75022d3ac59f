package state

import (
	"maps"
	"time"

	"agentd/event"
)

// Available is the status of a section that has facts. A section without facts
// says [Unknown] where the signal applies to every session and nothing was said
// yet, [NotApplicable] where it applies only once it is used, and
// [Unavailable] where the environment doesn't offer it:
//
//   - unknown: routing, limits, cost, sandbox, execution environment, context,
//     tool inventory, evidence;
//   - not_applicable: subagents, jobs, channels, benchmark, outputs, artifacts,
//     history, delivery;
//   - unavailable: telemetry without a trace, and diagnostics that need a clock.
//
// Tasks, permission and queue always have facts: none is a fact too.
const Available = "available"

// SessionSnapshot is the wire form of a session. It satisfies the standard's
// snapshot schema and its strict profile. It shares no memory with the session
// that later facts change, so another goroutine may encode it.
type SessionSnapshot struct {
	SchemaVersion  string           `json:"schemaVersion"`
	RuntimeID      string           `json:"runtimeId"`
	SessionID      string           `json:"sessionId"`
	Sequence       uint64           `json:"sequence"`
	Title          string           `json:"title,omitempty"`
	Account        string           `json:"account,omitempty"`
	WorkspaceID    string           `json:"workspaceId,omitempty"`
	Workspace      *event.Workspace `json:"workspace,omitempty"`
	Status         string           `json:"status"`
	PermissionMode string           `json:"permissionMode,omitempty"`
	Metadata       event.Raw        `json:"metadata,omitempty"`
	Tags           []string         `json:"tags"`
	Pinned         bool             `json:"pinned"`
	Archived       bool             `json:"archived"`
	CreatedBy      *event.Actor     `json:"createdBy,omitempty"`
	ForkedFrom     *event.ForkPoint `json:"forkedFrom,omitempty"`
	CreatedAt      time.Time        `json:"createdAt"`
	UpdatedAt      time.Time        `json:"updatedAt"`

	// ActiveThreadIDs are the threads with a turn that isn't finished.
	ActiveThreadIDs []string `json:"activeThreadIds"`
	PinnedThreadIDs []string `json:"pinnedThreadIds"`
	ArchivedThreads int64    `json:"archivedThreads"`
	// Stale: a part may not be current. Truncated: older turns or threads are not
	// shown. Degraded: the last recovery was partial.
	Stale     bool `json:"stale"`
	Truncated bool `json:"truncated"`
	Degraded  bool `json:"degraded"`
	// RepairStatus is set if the snapshot stands for facts that can't be redelivered:
	// stale or unavailable, as snapshot.repaired says.
	RepairStatus string `json:"repairStatus,omitempty"`

	Threads   []*ThreadReadModel `json:"threads"`
	Queue     QueueSnapshot      `json:"queue"`
	Incidents []Incident         `json:"incidents"`

	Tasks         []Task          `json:"tasks"`
	TaskSummary   TaskSummary     `json:"taskSummary"`
	TaskGraph     TaskGraph       `json:"taskGraph"`
	Attempts      []TaskAttempt   `json:"attempts"`
	BlockedTasks  []BlockedTask   `json:"blockedTasks"`
	DeliveryState DeliverySummary `json:"deliveryState"`

	ToolInventoryRef     string              `json:"toolInventoryRef,omitempty"`
	ExecutionEnvironment EnvironmentSnapshot `json:"executionEnvironment"`
	PermissionState      PermissionState     `json:"permissionState"`
	SandboxState         SandboxState        `json:"sandboxState"`
	RoutingLimitSummary  RoutingLimitSummary `json:"routingLimitSummary"`
	SubagentJobSummary   SubagentJobSummary  `json:"subagentJobSummary"`
	ChannelSummary       ChannelSummary      `json:"channelSummary"`
	TelemetrySummary     TelemetrySummary    `json:"telemetrySummary"`
	OutputSummary        OutputSummary       `json:"outputSummary"`
	HistorySummary       HistorySummary      `json:"historySummary"`
	ContextBoundary      ContextBoundary     `json:"contextBoundary"`
	ArtifactCheckpoint   ArtifactSummary     `json:"artifactCheckpointSummary"`
	EvidenceSummary      EvidenceSummary     `json:"evidenceSummary"`
	EvidenceRefs         []string            `json:"evidenceRefs"`
	BenchmarkSummary     BenchmarkSummary    `json:"benchmarkSummary"`
}

// Snapshot returns the session's wire form. A session without threads shows one
// whose id is not_applicable, because the strict profile demands one and an id
// is never made up.
func (s *Session) Snapshot() *SessionSnapshot {
	main := s.MainThread()
	snap := &SessionSnapshot{
		SchemaVersion: event.SchemaStandard, RuntimeID: orUnknown(s.RuntimeID), SessionID: s.SessionID, Sequence: s.Sequence,
		Title: s.Title, Account: s.Account, Workspace: s.Workspace, Status: orUnknown(s.Status), PermissionMode: s.PermissionMode,
		Metadata: s.Metadata, CreatedBy: s.CreatedBy, ForkedFrom: s.ForkedFrom, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		Tags: listCopy(s.Tags), Pinned: s.Pinned, Archived: s.Status == SessionArchived,
		PinnedThreadIDs: listCopy(s.PinnedThreads), ArchivedThreads: s.ArchivedThreads,
		Queue: s.queueSnapshot(), Incidents: listCopy(s.Incidents),
		ExecutionEnvironment: s.environmentSnapshot(main), PermissionState: s.permissionState(""), SandboxState: s.sandboxState(nil),
		RoutingLimitSummary: s.routingLimitSummary(), SubagentJobSummary: s.subagentJobSummary(), ChannelSummary: s.channelSummary(),
		TelemetrySummary: s.telemetrySummary(nil), OutputSummary: s.outputSummary(), HistorySummary: s.historySummary(""),
		ContextBoundary: contextBoundary(main), ArtifactCheckpoint: s.artifactSummary(""),
		EvidenceSummary: s.evidenceSummary(""), BenchmarkSummary: s.benchmarkSummary(),
	}
	if s.Workspace != nil {
		snap.WorkspaceID = s.Workspace.WorkspaceID
	}
	if main != nil && main.Inventory != nil {
		snap.ToolInventoryRef = main.Inventory.InventoryRef
	}
	snap.EvidenceRefs = snap.EvidenceSummary.EvidenceRefs
	s.snapshotTasks(snap)
	s.snapshotThreads(snap)
	return snap
}

func (s *Session) snapshotTasks(snap *SessionSnapshot) {
	tasks := s.tasksOf("")
	snap.Tasks = tasks
	snap.TaskSummary = s.taskSummary()
	snap.TaskGraph = taskGraph(tasks)
	snap.Attempts = visibleAttempts(tasks)
	snap.BlockedTasks = s.blockedTasks(tasks)
	snap.DeliveryState = deliverySummary(tasks)
}

func (s *Session) snapshotThreads(snap *SessionSnapshot) {
	snap.ActiveThreadIDs = []string{}
	snap.Truncated = s.ArchivedThreads > 0
	for _, t := range s.Threads {
		view := s.threadRead(t)
		snap.Threads = append(snap.Threads, view)
		snap.Truncated = snap.Truncated || view.Truncated
		if t.Busy() {
			snap.ActiveThreadIDs = append(snap.ActiveThreadIDs, t.ThreadID)
		}
	}
	if len(snap.Threads) == 0 {
		none := s.threadRead(&Thread{ThreadID: event.NotApplicable, StartedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt})
		none.Status, none.Phase = Unknown, Unknown
		snap.Threads = []*ThreadReadModel{none}
	}
	h := &s.History
	snap.Degraded = s.Status == "degraded" || h.Reconstruction != nil && h.Reconstruction.Degraded
	for i := range h.Repairs {
		if h.Repairs[i].ChannelID == "" { // a peer's gap is its own
			snap.MarkRepaired(h.Repairs[i].Status)
		}
	}
}

// MarkRepaired says that the snapshot stands for facts that can't be redelivered: what
// its reader has of them is stale, or they are unavailable.
func (s *SessionSnapshot) MarkRepaired(status string) {
	switch status {
	case Stale:
		s.Stale = true
	case Unavailable:
		s.Truncated = true
	}
	s.RepairStatus = status
}

// QueueSnapshot is what waits, over all threads.
type QueueSnapshot struct {
	Length  int           `json:"length"`
	Threads []ThreadQueue `json:"threads"`
}

// ThreadQueue is what waits in one thread.
type ThreadQueue struct {
	ThreadID string `json:"threadId"`
	// ResumeState says what the first turn waits for: "ready" when nothing is in
	// its way, "behind_turn" or "blocked".
	ResumeState  string       `json:"resumeState"`
	ActiveTurnID string       `json:"activeTurnId,omitempty"`
	Turns        []QueuedTurn `json:"turns"`
}

func (s *Session) queueSnapshot() QueueSnapshot {
	q := QueueSnapshot{Threads: []ThreadQueue{}}
	for _, t := range s.Threads {
		if len(t.Queue) == 0 {
			continue
		}
		one := ThreadQueue{ThreadID: t.ThreadID, ResumeState: resumeState(t), Turns: queuedTurns(t)}
		if t.Active != nil {
			one.ActiveTurnID = t.Active.TurnID
		}
		q.Length += len(t.Queue)
		q.Threads = append(q.Threads, one)
	}
	return q
}

// resumeState says what keeps a thread's queue from going on.
func resumeState(t *Thread) string {
	switch {
	case t.Block != nil:
		return "blocked"
	case t.Active != nil:
		return "behind_turn"
	}
	return "ready"
}

func orUnknown(s string) string {
	if s == "" {
		return Unknown
	}
	return s
}

// listCopy returns a copy of a list that encodes as an array, also when it is empty.
func listCopy[T any](list []T) []T { return append(make([]T, 0, len(list)), list...) }

// chosen returns copies of the elements that the view wants.
func chosen[T any](list []T, want func(*T) bool) []T {
	out := []T{}
	for i := range list {
		if want(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// copied returns copies of the elements that the view wants, of several lists.
func copied[T any](want func(*T) bool, lists ...[]*T) []T {
	out := []T{}
	for _, list := range lists {
		for _, x := range list {
			if want(x) {
				out = append(out, *x)
			}
		}
	}
	return out
}

// inView reports whether something of thread id is in view: everything is when
// the view is of the whole session.
func inView(view, id string) bool { return view == "" || view == id }

// statusOf is the status of a section.
func statusOf(has bool, otherwise string) string {
	if has {
		return Available
	}
	return otherwise
}

// countsCopy returns a copy that encodes as an object, also when it is empty.
func countsCopy(m map[string]int64) map[string]int64 {
	out := make(map[string]int64, len(m))
	maps.Copy(out, m)
	return out
}
