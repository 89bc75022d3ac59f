package state

import (
	"slices"

	"agentd/event"
)

// fold is the application of one fact to a session.
type fold struct {
	s       *Session
	e       *event.Event
	evicted []Evicted
}

func (f *fold) evict(name string, data any) {
	f.evicted = append(f.evicted, Evicted{Name: name, Data: data})
}

// turn returns the unfinished turn that the fact belongs to, or nil.
func (f *fold) turn() *Turn {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return nil
	}
	return t.Turn(f.e.TurnID)
}

// incident records a failure that people should know of.
func (f *fold) incident(code, message string, active bool) {
	list := f.s.Incidents
	if len(list) == keepIncidents {
		// One that still stands in the way isn't forgotten for those that don't.
		list = removed(list, max(0, slices.IndexFunc(list, func(i Incident) bool { return !i.Active })))
	}
	f.s.Incidents = slices.Concat(list, []Incident{{
		EventID: f.e.ID, Sequence: f.e.Sequence, Type: f.e.Type, Time: f.e.Time,
		ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, Code: code, Message: message, Active: active,
	}})
}

// settleIncidents says that what blocked a thread, or ended a turn of it, no longer stands
// in the way. Turn may be empty.
func (f *fold) settleIncidents(threadID, turnID string) {
	for i := range f.s.Incidents {
		x := &f.s.Incidents[i]
		if x.ThreadID == threadID && (x.Type == event.TypeThreadUpdated || turnID != "" && x.TurnID == turnID) {
			x.Active = false
		}
	}
}

// apply folds the fact. Every type of the catalogue is listed: a new type
// doesn't pass the linter until it is decided what it means for the state.
func (f *fold) apply() { //nolint:funlen // it is a table
	if f.e.SubagentID != "" {
		f.subagentSpent()
	}
	switch f.e.Type {
	case event.TypeSessionCreated:
		f.sessionCreated(f.e.Payload.(*event.SessionCreated))
	case event.TypeSessionUpdated:
		f.sessionUpdated(f.e.Payload.(*event.SessionUpdated))
	case event.TypeSessionDeleted:
		if p := f.e.Payload.(*event.SessionDeleted); p.DeletedSessionID == f.s.SessionID {
			f.s.Status = SessionDeleted
		}
	case event.TypeThreadStarted:
		f.threadStarted(f.e.Payload.(*event.ThreadStarted))
	case event.TypeThreadUpdated:
		f.threadUpdated(f.e.Payload.(*event.ThreadUpdated))

	case event.TypeTurnSubmitted:
		f.turnSubmitted(f.e.Payload.(*event.TurnSubmitted))
	case event.TypeTurnStarted:
		f.turnStarted(f.e.Payload.(*event.TurnStarted))
	case event.TypeTurnCompleted:
		f.turnCompleted(f.e.Payload.(*event.TurnCompleted))
	case event.TypeTurnFailed:
		f.turnFailed(f.e.Payload.(*event.TurnFailed))
	case event.TypeTurnInterruptRequested:
		f.interruptRequested(f.e.Payload.(*event.TurnInterruptRequested))
	case event.TypeTurnSteered:
		f.turnSteered()
	case event.TypeQueueChanged:
		f.queueChanged(f.e.Payload.(*event.QueueChanged))
	case event.TypeRunStatus:
		f.runStatus(f.e.Payload.(*event.RunStatus))

	case event.TypeModelRequested:
		f.modelRequested(f.e.Payload.(*event.ModelRequested))
	case event.TypeModelDelta, event.TypeReasoningDelta:
		f.modelDelta()
	case event.TypeModelCompleted:
		f.modelCompleted(f.e.Payload.(*event.ModelCompleted))
	case event.TypeModelFailed:
		f.modelFailed(f.e.Payload.(*event.ModelFailed))

	case event.TypeToolStarted:
		f.toolStarted(f.e.Payload.(*event.ToolStarted))
	case event.TypeToolResult:
		f.toolResult(f.e.Payload.(*event.ToolResult))
	case event.TypeToolFailed:
		f.toolFailed(f.e.Payload.(*event.ToolFailed))
	case event.TypeToolCatalogResolved:
		f.toolCatalogResolved(f.e.Payload.(*event.ToolCatalogResolved))
	case event.TypeToolProgress:
		f.toolProgress(f.e.Payload.(*event.ToolProgress))
	case event.TypeToolArgs:
		f.toolArgs(f.e.Payload.(*event.ToolArgs))
	case event.TypeReasoningSummary:
		// Nothing that a read model shows; the journal has them.

	case event.TypeActionRequired:
		f.actionRequired(f.e.Payload.(*event.ActionRequired))
	case event.TypeActionResolved:
		f.actionResolved(f.e.Payload.(*event.ActionResolved))

	case event.TypeTaskCreated, event.TypeTaskAccepted, event.TypeTaskQueued, event.TypeTaskStarted, event.TypeTaskUpdated,
		event.TypeTaskProgress, event.TypeTaskWaiting, event.TypeTaskBlocked, event.TypeTaskPaused, event.TypeTaskResumed,
		event.TypeTaskRetrying, event.TypeTaskCancelRequested, event.TypeTaskCancelled, event.TypeTaskTimedOut,
		event.TypeTaskFailed, event.TypeTaskLost, event.TypeTaskCompleted, event.TypeTaskArchived,
		event.TypeTaskDelegated, event.TypeTaskDependencyUpdated,
		event.TypeTaskAttemptStarted, event.TypeTaskAttemptCompleted, event.TypeTaskAttemptFailed:
		f.task()

	case event.TypeContextResolved, event.TypeContextCompactionStarted, event.TypeContextCompactionCompleted, event.TypeContextCompactionFailed:
		f.context()
	case event.TypeArtifactChanged:
		f.artifactChanged(f.e.Payload.(*event.ArtifactChanged))
	case event.TypeEvidenceChanged:
		f.evidenceChanged(f.e.Payload.(*event.EvidenceChanged))

	case event.TypeSubagentSpawned, event.TypeSubagentStatus, event.TypeSubagentInput, event.TypeSubagentOutput,
		event.TypeSubagentCompleted, event.TypeSubagentFailed, event.TypeSubagentClosed:
		f.subagent()

	case event.TypePermissionEvaluated, event.TypePermissionReviewed, event.TypePermissionRequested, event.TypePermissionResolved,
		event.TypeSandboxApplied, event.TypeSandboxViolation, event.TypeHookStarted, event.TypeHookCompleted, event.TypeHookFailed,
		event.TypePolicyChanged:
		f.governance()

	case event.TypeProcessStarted, event.TypeProcessOutput, event.TypeProcessInput, event.TypeProcessCompleted,
		event.TypeProcessFailed, event.TypeProcessTerminated:
		f.process()

	case event.TypeTaskProfileResolved, event.TypeRoutingCandidatesResolved, event.TypeRoutingDecided,
		event.TypeRoutingFallbackApplied, event.TypeRoutingNotPossible, event.TypeRoutingSingleCandidate,
		event.TypeCostEstimated, event.TypeCostRecorded, event.TypeRateLimitHit, event.TypeQuotaLow, event.TypeQuotaBlocked,
		event.TypeLimitChanged:
		f.routing()

	case event.TypeChannelConnected, event.TypeChannelDisconnected, event.TypeChannelResumed, event.TypeChannelMessage,
		event.TypeChannelPermissionForwarded, event.TypeChannelPermissionReturned,
		event.TypeChannelPeerTaskLinked, event.TypeChannelPeerTaskUpdated:
		f.channel()
	case event.TypeChannelPeerPushConfigured, event.TypeChannelPeerPushRemoved, event.TypeChannelPeerPushReported:
		// The index has them; no read model of a session shows them.

	case event.TypeJobCreated, event.TypeJobStarted, event.TypeJobProgress, event.TypeJobItemStarted, event.TypeJobItemCompleted,
		event.TypeJobItemFailed, event.TypeJobCompleted, event.TypeJobFailed, event.TypeJobCancelled, event.TypeJobHeld:
		f.job()

	case event.TypeScheduleCreated, event.TypeScheduleFired, event.TypeScheduleMissed, event.TypeScheduleDeleted,
		event.TypeScheduleQueued, event.TypeSchedulePaused, event.TypeScheduleResumed:
		f.schedule()

	case event.TypeOutputSpilled, event.TypeOutputTruncated, event.TypeOutputRedacted, event.TypeOutputExpired:
		f.output()

	case event.TypeHistoryWindowLoaded, event.TypeHistoryReconstructed, event.TypeHistoryRollbackStarted,
		event.TypeHistoryRollbackCompleted, event.TypeSnapshotRepaired, event.TypeSnapshotUpdated:
		f.history()

	case event.TypeBenchmarkDatasetResolved, event.TypeBenchmarkConfigurationResolved, event.TypeBenchmarkTrialStarted,
		event.TypeBenchmarkTrialCompleted, event.TypeBenchmarkTrialFailed, event.TypeBenchmarkRewardRecorded,
		event.TypeBenchmarkComparisonCompleted:
		f.benchmark()

	case event.TypeRuntimeChanged:
		// It changes nothing of the session that records it.
	case event.TypeRuntimeWarning:
		p := f.e.Payload.(*event.RuntimeNotice)
		f.incident(p.Code, p.Message, false)
	case event.TypeRuntimeError:
		p := f.e.Payload.(*event.RuntimeNotice)
		f.incident(p.Code, p.Message, true)
	}
}

func (f *fold) sessionCreated(p *event.SessionCreated) {
	s := f.s
	s.CreatedAt = f.e.Time
	s.Title, s.Account, s.Workspace, s.PermissionMode = p.Title, p.Account, p.Workspace, p.PermissionMode
	s.Metadata, s.CreatedBy, s.ForkedFrom, s.Place = p.Metadata, p.CreatedBy, p.ForkedFrom, p.Place
	s.Status = "open"
}

func (f *fold) sessionUpdated(p *event.SessionUpdated) {
	s := f.s
	if p.Title != nil {
		s.Title = *p.Title
	}
	if p.Workspace != nil {
		s.Workspace = p.Workspace
	}
	if p.Place != nil {
		s.Place = p.Place
	}
	if p.LeavesFiles {
		s.FilesSince = f.e.Sequence
	}
	if p.PermissionMode != "" {
		s.PermissionMode = p.PermissionMode
	}
	if len(p.Metadata) > 0 {
		s.Metadata = p.Metadata
	}
	if p.Status != "" {
		s.Status = p.Status
	}
	if len(p.PinnedThreads) > 0 {
		s.PinnedThreads = p.PinnedThreads
	}
	if len(p.Tags) > 0 {
		s.Tags = p.Tags
	}
	if p.Pinned != nil {
		s.Pinned = *p.Pinned
	}
	for _, field := range p.Cleared {
		switch field {
		case ClearedTags:
			s.Tags = nil
		case ClearedPinnedThreads:
			s.PinnedThreads = nil
		case ClearedMetadata:
			s.Metadata = nil
		case ClearedPlace:
			s.Place = nil
		}
	}
}

// Fields that session.updated can empty.
const (
	ClearedTags          = "tags"
	ClearedPinnedThreads = "pinnedThreads"
	ClearedMetadata      = "metadata"
	ClearedPlace         = "place"
)

// Statuses of a session that isn't open.
const (
	// SessionArchived: it was put away.
	SessionArchived = "archived"
	// SessionDeleted: it can't be seen any more.
	SessionDeleted = "deleted"
)

// Tombstone returns what stands for the facts of a session that is deleted: nothing of
// what they said but whose it was.
func (s *Session) Tombstone() *Session {
	return &Session{
		Version: Version, RuntimeID: s.RuntimeID, SessionID: s.SessionID, Sequence: s.Sequence, Account: s.Account,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}
