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
	// SchemaVersion of the snapshot.
	SchemaVersion string `json:"schemaVersion"`
	// RuntimeID of the runtime that answers.
	RuntimeID string `json:"runtimeId"`
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// Sequence of the newest fact that the snapshot covers.
	Sequence uint64 `json:"sequence"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Account that owns the session.
	Account string `json:"account,omitempty"`
	// WorkspaceID is the workspace's id.
	WorkspaceID string `json:"workspaceId,omitempty"`
	// Workspace is the folder that the session works in.
	Workspace *event.Workspace `json:"workspace,omitempty"`
	// Place is where the session's files are, if the runtime has several nodes.
	Place *event.WorkspacePlace `json:"place,omitempty"`
	// Status of the session.
	Status string `json:"status"`
	// PermissionMode of the session, if it has one of its own.
	PermissionMode string `json:"permissionMode,omitempty"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty"`
	// Tags of the session.
	Tags []string `json:"tags"`
	// Pinned sessions are kept in sight.
	Pinned bool `json:"pinned"`
	// Archived sessions are left out of lists unless they are asked for.
	Archived bool `json:"archived"`
	// CreatedBy opened the session.
	CreatedBy *event.Actor `json:"createdBy,omitempty"`
	// ForkedFrom is where another session was forked.
	ForkedFrom *event.ForkPoint `json:"forkedFrom,omitempty"`
	// CreatedAt is when the session was opened.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when the newest fact that the snapshot covers happened.
	UpdatedAt time.Time `json:"updatedAt"`

	// ActiveThreadIDs are the threads with a turn that isn't finished.
	ActiveThreadIDs []string `json:"activeThreadIds"`
	// PinnedThreadIDs are the threads that are kept in sight.
	PinnedThreadIDs []string `json:"pinnedThreadIds"`
	// ArchivedThreads counts the threads that left the snapshot.
	ArchivedThreads int64 `json:"archivedThreads"`
	// Stale says that a part may not be current.
	Stale bool `json:"stale"`
	// Truncated says that older turns or threads are not shown.
	Truncated bool `json:"truncated"`
	// Degraded says that the last recovery was partial.
	Degraded bool `json:"degraded"`
	// RepairStatus is set if the snapshot stands for facts that can't be redelivered:
	// stale or unavailable, as snapshot.repaired says.
	RepairStatus string `json:"repairStatus,omitempty"`

	// Threads are the read models of the session's threads.
	Threads []*ThreadReadModel `json:"threads"`
	// Queue is what waits, over all threads.
	Queue QueueSnapshot `json:"queue"`
	// Incidents are the last warnings and errors, oldest first.
	Incidents []Incident `json:"incidents"`

	// Tasks that have not ended, and the last ended ones.
	Tasks []Task `json:"tasks"`
	// TaskSummary counts tasks over all time.
	TaskSummary TaskSummary `json:"taskSummary"`
	// TaskGraph is the edges between tasks and what they are made of.
	TaskGraph TaskGraph `json:"taskGraph"`
	// Attempts are those under way, and the newest one of each task.
	Attempts []TaskAttempt `json:"attempts"`
	// BlockedTasks can't go on by themselves.
	BlockedTasks []BlockedTask `json:"blockedTasks"`
	// DeliveryState says whether results reached who asked for them.
	DeliveryState DeliverySummary `json:"deliveryState"`

	// ToolInventoryRef is where the main thread's tools are listed.
	ToolInventoryRef string `json:"toolInventoryRef,omitempty"`
	// ExecutionEnvironment is where the main thread's commands run.
	ExecutionEnvironment EnvironmentSnapshot `json:"executionEnvironment"`
	// PermissionState says what may run and what was decided.
	PermissionState PermissionState `json:"permissionState"`
	// SandboxState is the boundary that was applied last.
	SandboxState SandboxState `json:"sandboxState"`
	// RoutingLimitSummary is how the last model was chosen, what it cost and what is left.
	RoutingLimitSummary RoutingLimitSummary `json:"routingLimitSummary"`
	// SubagentJobSummary are the children and the batches.
	SubagentJobSummary SubagentJobSummary `json:"subagentJobSummary"`
	// ChannelSummary are the remote peers.
	ChannelSummary ChannelSummary `json:"channelSummary"`
	// TelemetrySummary says how facts are joined to traces.
	TelemetrySummary TelemetrySummary `json:"telemetrySummary"`
	// OutputSummary are the large outputs.
	OutputSummary OutputSummary `json:"outputSummary"`
	// HistorySummary is what happened to the record of the session.
	HistorySummary HistorySummary `json:"historySummary"`
	// ContextBoundary is what the main thread's model calls see.
	ContextBoundary ContextBoundary `json:"contextBoundary"`
	// ArtifactCheckpoint are the deliverables that changed last.
	ArtifactCheckpoint ArtifactSummary `json:"artifactCheckpointSummary"`
	// EvidenceSummary is what was exported or observed to prove what happened.
	EvidenceSummary EvidenceSummary `json:"evidenceSummary"`
	// EvidenceRefs are the ids of the last evidence.
	EvidenceRefs []string `json:"evidenceRefs"`
	// BenchmarkSummary are the trials that the session is part of.
	BenchmarkSummary BenchmarkSummary `json:"benchmarkSummary"`
}

// Snapshot returns the session's wire form. A session without threads shows one
// whose id is not_applicable, because the strict profile demands one and an id
// is never made up.
func (s *Session) Snapshot() *SessionSnapshot {
	main := s.MainThread()
	snap := &SessionSnapshot{
		SchemaVersion: event.SchemaStandard, RuntimeID: orUnknown(s.RuntimeID), SessionID: s.SessionID, Sequence: s.Sequence,
		Title: s.Title, Account: s.Account, Workspace: s.Workspace, Place: s.Place, Status: orUnknown(s.Status), PermissionMode: s.PermissionMode,
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
	// Length counts the turns that wait.
	Length int `json:"length"`
	// Threads with turns that wait.
	Threads []ThreadQueue `json:"threads"`
}

// ThreadQueue is what waits in one thread.
type ThreadQueue struct {
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId"`
	// ResumeState says what the first turn waits for: "ready" when nothing is in
	// its way, "behind_turn" or "blocked".
	ResumeState string `json:"resumeState"`
	// ActiveTurnID is the turn that runs.
	ActiveTurnID string `json:"activeTurnId,omitempty"`
	// Turns that wait, the next one first.
	Turns []QueuedTurn `json:"turns"`
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
