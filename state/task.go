package state

import (
	"encoding/json"
	"slices"
	"time"

	"agentd/event"
)

// Statuses of a task on the wire.
const (
	TaskDraft             = "draft"
	TaskAccepted          = "accepted"
	TaskQueued            = "queued"
	TaskPreparing         = "preparing"
	TaskRunning           = "running"
	TaskWaitingInput      = "waiting_input"
	TaskWaitingPermission = "waiting_permission"
	TaskWaitingResource   = "waiting_resource"
	TaskBlocked           = "blocked"
	TaskPaused            = "paused"
	TaskRetrying          = "retrying"
	TaskCancelling        = "cancelling"
	TaskCancelled         = "cancelled"
	TaskTimedOut          = "timed_out"
	TaskFailed            = "failed"
	TaskLost              = "lost"
	TaskCompleted         = "completed"
	TaskArchived          = "archived"
)

// TaskKindTurn is the kind of the implicit task that a turn without one gets.
const TaskKindTurn = "turn"

// keepRefs bounds the references that one record lists; the newest stay.
const keepRefs = 100

// Terminal reports whether the task's work is over. A terminal task can be
// retried, which opens it again.
func (t *Task) Terminal() bool { return TaskEnded(t.Status) }

// TaskEnded reports whether the work of a task with that status is over.
func TaskEnded(status string) bool {
	switch status {
	case TaskCancelled, TaskTimedOut, TaskFailed, TaskLost, TaskCompleted, TaskArchived:
		return true
	}
	return false
}

// Find returns a task of the working set, or nil.
func (t *Tasks) Find(id string) *Task {
	if t.byID == nil {
		t.byID = make(map[string]*Task, len(t.Open)+len(t.Recent))
		for _, list := range [...][]*Task{t.Recent, t.Open} {
			for _, x := range list {
				t.byID[x.TaskID] = x
			}
		}
	}
	return t.byID[id]
}

// open reports whether there is unfinished work of its own: the implicit task of
// a turn doesn't count, its turn is what is open.
func (t *Tasks) open() bool {
	for _, x := range t.Open {
		if x.TaskKind != TaskKindTurn {
			return true
		}
	}
	return false
}

// insert puts a task among the open ones, in the order of creation.
func (t *Tasks) insert(task *Task) {
	i := len(t.Open)
	for i > 0 && t.Open[i-1].CreatedSequence > task.CreatedSequence {
		i--
	}
	t.Open = slices.Insert(t.Open, i, task)
	t.Find(task.TaskID) // so that byID is there
	t.byID[task.TaskID] = task
}

// removeTask removes a task from the list that holds it.
func (t *Tasks) removeTask(task *Task) {
	same := func(x *Task) bool { return x == task }
	if i := indexWhere(t.Open, same); i >= 0 {
		t.Open = removed(t.Open, i)
	}
	if i := indexWhere(t.Recent, same); i >= 0 {
		t.Recent = removed(t.Recent, i)
	}
}

// task folds the facts of tasks and their attempts.
func (f *fold) task() {
	switch p := f.e.Payload.(type) {
	case *event.TaskCreated:
		f.taskCreated(p)
		return
	case *event.TaskUpdated:
		f.taskRestored(p)
	}
	t := f.s.Tasks.Find(f.e.TaskID)
	if t == nil {
		return
	}
	t.UpdatedAt = f.e.Time
	switch p := f.e.Payload.(type) {
	case *event.TaskStatusChanged:
		f.taskStatus(t, p)
	case *event.TaskUpdated:
		f.taskUpdated(t, p)
	case *event.TaskProgressed:
		f.taskProgressed(t, p)
	case *event.TaskCompleted:
		f.taskCompleted(t, p)
	case *event.TaskDelegated:
		f.taskDelegated(t, p)
	case *event.TaskDependencyUpdated:
		f.taskDependency(t, p)
	case *event.TaskAttemptStarted:
		f.attemptStarted(t, p)
	case *event.TaskAttemptCompleted:
		f.attemptCompleted(t, p)
	case *event.TaskAttemptFailed:
		f.attemptFailed(t, p)
	}
}

// taskCreated adds a task. An identity is given once: a second fact for the same
// id changes nothing.
func (f *fold) taskCreated(p *event.TaskCreated) {
	if f.s.Tasks.Find(f.e.TaskID) != nil {
		return
	}
	t := &Task{
		TaskID: f.e.TaskID, ParentTaskID: f.e.ParentTaskID, RootTaskID: f.e.RootTaskID, SessionID: f.e.SessionID,
		SubagentID: f.e.SubagentID, JobID: f.e.JobID,
		Title: p.Title, Objective: p.Objective, ObjectiveRef: p.ObjectiveRef, TaskKind: p.TaskKind, TaskFamily: p.TaskFamily,
		Visibility: p.Visibility, Priority: p.Priority, Status: p.Status,
		RequestedBy: p.RequestedBy, Owner: p.Owner, Assignee: p.Assignee, WorkerKind: p.WorkerKind, Peer: p.Peer,
		HeartbeatTimeoutMs: p.HeartbeatTimeoutMs,
		Scope:              asObject(p.Scope), Constraints: p.Constraints, TaskProfile: p.TaskProfile, Acceptance: firstN(p.Acceptance, len(p.Acceptance)),
		RetryPolicy: p.RetryPolicy, Metadata: presentValue(p.Metadata),
		CreatedAt: f.e.Time, UpdatedAt: f.e.Time, CreatedSequence: f.e.Sequence, StatusSequence: f.e.Sequence,
	}
	f.placeTask(t)
	f.s.Tasks.Created++
	f.s.Tasks.Counts = addCount(f.s.Tasks.Counts, t.Status, 1)
	f.s.Tasks.insert(t)
	for _, id := range p.DependsOn {
		f.linkTask(t, "blocked_by", id, "active", "")
	}
	if !isKnown(t.ParentTaskID) {
		return
	}
	f.linkTask(t, "parent", t.ParentTaskID, "active", "")
	// The turns of a job's items are too many for edges of their own; the job has one.
	if parent := f.s.Tasks.Find(t.ParentTaskID); parent != nil && t.TaskKind != TaskKindTurn {
		f.linkTask(parent, "child", t.TaskID, "active", "")
	}
}

// placeTask notes the thread and the turn that the fact places the task in.
func (f *fold) placeTask(t *Task) {
	if isKnown(f.e.ThreadID) {
		t.ThreadID = f.e.ThreadID
	}
	if isKnown(f.e.TurnID) {
		t.TurnID = f.e.TurnID
	}
}

// taskRestored takes a task back into the working set. A task that is there
// already keeps its record, which is at least as new.
func (f *fold) taskRestored(p *event.TaskUpdated) {
	if len(p.Record) == 0 || f.s.Tasks.Find(f.e.TaskID) != nil {
		return
	}
	t := &Task{}
	if err := json.Unmarshal(p.Record, t); err != nil || t.TaskID != f.e.TaskID {
		f.incident("task_record_unreadable", "task "+f.e.TaskID+": the record that was written back is not this task's", false)
		return
	}
	if t.Terminal() {
		f.keepEndedTask(t)
		return
	}
	f.s.Tasks.insert(t)
}

func (f *fold) taskStatus(t *Task, p *event.TaskStatusChanged) {
	t.NativeStatus, t.StatusReason, t.StatusSequence = p.NativeStatus, p.StatusReason, f.e.Sequence
	t.Blockers = firstN(p.Blockers, keepRefs)
	t.RetryAt, t.QueuePosition = journalTime(p.RetryAt), max(0, p.Position)
	if p.Error != nil {
		t.LastError = p.Error
	}
	if f.e.Type == event.TypeTaskCancelRequested {
		t.Cancel = &CancelIntent{Reason: p.StatusReason, By: p.ChangedBy, Propagate: p.Propagate, At: f.e.Time}
	}
	if f.e.Type == event.TypeTaskStarted {
		f.placeTask(t)
		t.CurrentRunID, t.LastSeenAt = f.e.RunID, f.e.Time
		if t.StartedAt.IsZero() {
			t.StartedAt = f.e.Time
		}
	}
	if f.e.Type == event.TypeTaskResumed {
		// A resumed worker gets the full time again to report.
		t.LastSeenAt = f.e.Time
	}
	if f.e.Type == event.TypeTaskRetrying {
		// A retry is asked for after the wish to stop; the wish is answered.
		t.Cancel = nil
	}
	f.setTaskStatus(t, p.Status)
	f.taskIncident(t, p)
}

// taskIncident tells people of a task that ended badly. A turn tells of itself.
func (f *fold) taskIncident(t *Task, p *event.TaskStatusChanged) {
	switch p.Status {
	case TaskFailed, TaskLost, TaskTimedOut:
	default:
		return
	}
	if t.TaskKind == TaskKindTurn {
		return
	}
	message := p.StatusReason
	if p.Error != nil {
		message = p.Error.Message
	}
	f.incident("task_"+p.Status, t.TaskID+": "+message, false)
}

// setTaskStatus moves a task to another status and to the list where it belongs.
func (f *fold) setTaskStatus(t *Task, status string) {
	was := t.Terminal()
	f.s.Tasks.Counts = addCount(f.s.Tasks.Counts, t.Status, -1)
	f.s.Tasks.Counts = addCount(f.s.Tasks.Counts, status, 1)
	t.Status = status
	switch is := t.Terminal(); {
	case is && !was:
		t.EndedAt = f.e.Time
		f.settleAttempt(t)
		f.settlePeerTasks(t.TaskID)
		f.s.Tasks.removeTask(t)
		f.keepEndedTask(t)
	case was && !is:
		t.EndedAt = time.Time{}
		f.s.Tasks.removeTask(t)
		f.s.Tasks.insert(t)
	}
}

// keepEndedTask puts a terminal task among the recent ones; the oldest leaves.
func (f *fold) keepEndedTask(t *Task) {
	f.s.Tasks.Find(t.TaskID) // so that byID is there
	if r := f.s.Tasks.Recent; len(r) == keepTasks {
		f.evict("task/"+r[0].TaskID, r[0])
		delete(f.s.Tasks.byID, r[0].TaskID)
	}
	f.s.Tasks.Recent = recent(f.s.Tasks.Recent, t, keepTasks)
	f.s.Tasks.byID[t.TaskID] = t
}

func (f *fold) taskUpdated(t *Task, p *event.TaskUpdated) {
	if p.Title != nil {
		t.Title = *p.Title
	}
	if p.Objective != nil {
		t.Objective, t.ObjectiveRef = *p.Objective, p.ObjectiveRef
	}
	setIf(&t.TaskKind, p.TaskKind)
	setIf(&t.TaskFamily, p.TaskFamily)
	setIf(&t.WorkerKind, p.WorkerKind)
	setIf(&t.Priority, p.Priority)
	setIf(&t.Visibility, p.Visibility)
	setIf(&t.HeartbeatTimeoutMs, p.HeartbeatTimeoutMs)
	setIf(&t.Owner, p.Owner)
	setIf(&t.Assignee, p.Assignee)
	setIf(&t.Constraints, p.Constraints)
	setIf(&t.TaskProfile, p.TaskProfile)
	setIf(&t.RetryPolicy, p.RetryPolicy)
	setIf(&t.DeliveryState, p.DeliveryState)
	setIf(&t.ValidationState, p.ValidationState)
	if p.Scope != nil {
		t.Scope = asObject(p.Scope)
	}
	if p.Metadata != nil {
		t.Metadata = presentValue(p.Metadata)
	}
	t.Acceptance = mergeCriteria(t.Acceptance, p.Acceptance)
	f.linkResults(t, p.Artifacts, p.EvidenceRefs)
}

// setIf sets a field that the fact gives; what is absent stays.
func setIf[T comparable](field *T, v T) {
	var zero T
	if v != zero {
		*field = v
	}
}

// mergeCriteria returns the criteria with those of the update in the place of
// the ones with the same id. A criterion never vanishes by being left out.
func mergeCriteria(have, update []event.AcceptanceCriterion) []event.AcceptanceCriterion {
	if len(update) == 0 {
		return have
	}
	out := slices.Clone(have)
	for _, c := range update {
		i := slices.IndexFunc(out, func(x event.AcceptanceCriterion) bool { return x.ID == c.ID })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i] = c
	}
	return out
}

// taskProgressed takes a report of the worker. A late one is noted on its
// attempt and moves nothing else.
func (f *fold) taskProgressed(t *Task, p *event.TaskProgressed) {
	if p.Late {
		f.lateReport(t, LateReport{Status: p.Progress.Phase, Summary: preview(p.Progress.Summary), OutputRefs: firstN(p.OutputRefs, keepRefs)})
		return
	}
	t.LastSeenAt = f.e.Time
	t.Progress = mergeProgress(t.Progress, &p.Progress)
	setIf(&t.DeliveryState, p.DeliveryState)
	setIf(&t.ValidationState, p.ValidationState)
	f.changeAttempt(t, func(a *Attempt) {
		a.addOutputs(p.OutputRefs)
		a.addCheckpoints(p.CheckpointRefs)
		if p.Heartbeat {
			a.HeardAt = f.e.Time
		}
	})
}

// mergeProgress returns the progress after a report: what the report leaves out
// stays as it was last said, counters come as a whole.
func mergeProgress(have, update *event.Progress) *event.Progress {
	var out event.Progress
	if have != nil {
		out = *have
	}
	setIf(&out.Phase, update.Phase)
	setIf(&out.Percent, update.Percent)
	setIf(&out.Summary, update.Summary)
	setIf(&out.CurrentStep, update.CurrentStep)
	if len(update.Counters) > 0 {
		out.Counters = update.Counters
	}
	return &out
}

func (f *fold) taskCompleted(t *Task, p *event.TaskCompleted) {
	t.Summary, t.StatusReason, t.StatusSequence = p.Summary, p.StatusReason, f.e.Sequence
	t.NativeStatus, t.Blockers, t.RetryAt, t.QueuePosition = "", nil, time.Time{}, 0
	setIf(&t.DeliveryState, p.DeliveryState)
	t.Acceptance = mergeCriteria(t.Acceptance, p.Acceptance)
	f.linkResults(t, p.Artifacts, p.EvidenceRefs)
	f.setTaskStatus(t, TaskCompleted)
}
