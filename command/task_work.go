package command

import (
	"fmt"

	"agentd/event"
	"agentd/fault"
)

// StartTask starts a task.
type StartTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Worker changes who works; the task's own if absent.
	Worker string `json:"worker,omitempty" enum:"@taskWorker"`
}

// Command implements [Params].
func (*StartTask) Command() Name          { return "start_task" }
func (*StartTask) returns(*TaskRunResult) {}

// Validate implements [Params].
func (p *StartTask) Validate() error { return check(p) }

// RetryTask starts a new attempt at a task.
type RetryTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Worker changes who works; the task's own if absent.
	Worker string `json:"worker,omitempty" enum:"@taskWorker"`
}

// Command implements [Params].
func (*RetryTask) Command() Name          { return "retry_task" }
func (*RetryTask) returns(*TaskRunResult) {}

// Validate implements [Params].
func (p *RetryTask) Validate() error { return check(p) }

// AppendTaskProgress reports progress; it is an external worker's heartbeat too.
type AppendTaskProgress struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// RunID is the attempt that reports; the current one if absent.
	RunID string `json:"runId,omitempty" check:"id"`
	// Progress is how far the work is; percent is from 0 to 100.
	Progress *event.Progress `json:"progress"`
	// OutputRefs point to what is new.
	OutputRefs []OutputRef `json:"outputRefs,omitempty" also:"string"`
	// CheckpointRefs point to states that the work can go on from.
	CheckpointRefs []OutputRef `json:"checkpointRefs,omitempty" also:"string"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *Delivery `json:"deliveryState,omitempty" also:"string"`
	// ValidationState says how far the result was validated.
	ValidationState string `json:"validationState,omitempty" max:"128"`
}

// Command implements [Params].
func (*AppendTaskProgress) Command() Name       { return "append_task_progress" }
func (*AppendTaskProgress) returns(*TaskResult) {}

// Validate implements [Params].
func (p *AppendTaskProgress) Validate() error {
	if p.Progress != nil && p.Progress.Percent != nil && *p.Progress.Percent > 100 {
		return fault.Param("progress.percent", "%v is more than 100", *p.Progress.Percent)
	}
	return check(p)
}

// OutputRef points into an output. On the wire it may be the reference alone.
type OutputRef struct{ event.OutputLink }

// UnmarshalJSON implements [json.Unmarshaler].
func (r *OutputRef) UnmarshalJSON(b []byte) error { return shortForm(b, &r.OutputRef, &r.OutputLink) }

// PauseTask holds a task.
type PauseTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Propagate pauses the task's children too; default false.
	Propagate *bool `json:"propagate,omitempty"`
}

// Command implements [Params].
func (*PauseTask) Command() Name       { return "pause_task" }
func (*PauseTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *PauseTask) Validate() error { return check(p) }

// ResumeTask lets a paused task go on.
type ResumeTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Propagate resumes the task's children too; default false.
	Propagate *bool `json:"propagate,omitempty"`
}

// Command implements [Params].
func (*ResumeTask) Command() Name       { return "resume_task" }
func (*ResumeTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *ResumeTask) Validate() error { return check(p) }

// CancelTask stops a task.
type CancelTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Propagate stops the task's children, jobs, processes and subagents too;
	// default true.
	Propagate *bool `json:"propagate,omitempty"`
}

// Command implements [Params].
func (*CancelTask) Command() Name       { return "cancel_task" }
func (*CancelTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *CancelTask) Validate() error { return check(p) }

// CompleteTask ends a task well.
type CompleteTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// RunID is the attempt that reports; the current one if absent.
	RunID string `json:"runId,omitempty" check:"id"`
	// Summary for people; it decides nothing.
	Summary string `json:"summary,omitempty" max:"1048576"`
	// Artifacts are the task's deliverables.
	Artifacts []event.ArtifactLink `json:"artifacts,omitempty"`
	// EvidenceRefs point to evidence.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
	// OutputRefs point to what the attempt gave.
	OutputRefs []OutputRef `json:"outputRefs,omitempty" also:"string"`
	// CheckpointRefs point to states that the work could go on from.
	CheckpointRefs []OutputRef `json:"checkpointRefs,omitempty" also:"string"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *Delivery `json:"deliveryState,omitempty" also:"string"`
	// Acceptance says which conditions are satisfied or waived.
	Acceptance []CriterionResult `json:"acceptance,omitempty" max:"100"`
}

// CriterionResult says what became of a condition of a task's completion.
type CriterionResult struct {
	// ID of the criterion within its task.
	ID string `json:"id" check:"id"`
	// Status of the criterion.
	Status string `json:"status" enum:"satisfied waived"`
	// Reason says why; a waived criterion needs one.
	Reason string `json:"reason,omitempty" max:"10000"`
	// EvidenceRefs point to evidence for it.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
}

// Command implements [Params].
func (*CompleteTask) Command() Name       { return "complete_task" }
func (*CompleteTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *CompleteTask) Validate() error {
	if err := firstError(check(p), artifactIDs(p.Artifacts)); err != nil {
		return err
	}
	for i, c := range p.Acceptance {
		if c.Status == "waived" && c.Reason == "" {
			return fault.Param(fmt.Sprintf("acceptance[%d].reason", i), "is missing: waiving a criterion needs a reason")
		}
	}
	return nil
}

// FailTask ends a task, or an attempt at it, otherwise.
type FailTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// RunID is the attempt that reports; the current one if absent.
	RunID string `json:"runId,omitempty" check:"id"`
	// Error says why.
	Error *event.Failure `json:"error"`
	// OutputRefs point to what the attempt gave.
	OutputRefs []OutputRef `json:"outputRefs,omitempty" also:"string"`
	// CheckpointRefs point to states that the next attempt can go on from.
	CheckpointRefs []OutputRef `json:"checkpointRefs,omitempty" also:"string"`
}

// Command implements [Params].
func (*FailTask) Command() Name       { return "fail_task" }
func (*FailTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *FailTask) Validate() error { return check(p) }

// GetTask returns the record of a task.
type GetTask struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
}

// Command implements [Params].
func (*GetTask) Command() Name       { return "get_task" }
func (*GetTask) returns(*TaskRecord) {}

// Validate implements [Params].
func (p *GetTask) Validate() error { return check(p) }

// ListTasks lists tasks.
type ListTasks struct {
	Page
	// SessionID keeps the tasks of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the tasks with that status.
	Status string `json:"status,omitempty" enum:"@taskStatus"`
	// ParentTaskID keeps the children of one task.
	ParentTaskID string `json:"parentTaskId,omitempty" check:"id"`
	// Type keeps the tasks whose taskKind it is.
	Type string `json:"type,omitempty" max:"256"`
	Narrowing
	// Sort is what the tasks are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"@workOrder"`
}

// Command implements [Params].
func (*ListTasks) Command() Name            { return "list_tasks" }
func (*ListTasks) returns(*ListTasksResult) {}

// Validate implements [Params].
func (p *ListTasks) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListTasksResult is a page of tasks.
type ListTasksResult struct {
	// Tasks of this page.
	Tasks []TaskRecord `json:"tasks"`
	// Total counts the tasks that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ArchiveTask takes an ended task out of the lists.
type ArchiveTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*ArchiveTask) Command() Name       { return "archive_task" }
func (*ArchiveTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *ArchiveTask) Validate() error { return check(p) }

// LinkTasks adds an edge to the task graph.
type LinkTasks struct {
	Mutation
	// TaskID is the edge's near end.
	TaskID string `json:"taskId" check:"id"`
	// Kind of the edge.
	Kind string `json:"kind" enum:"@taskRelation"`
	// TargetID is the edge's other end.
	TargetID string `json:"targetId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*LinkTasks) Command() Name                { return "link_tasks" }
func (*LinkTasks) returns(*RelationshipsResult) {}

// Validate implements [Params].
func (p *LinkTasks) Validate() error {
	return firstError(check(p), notSelf(p.Kind, p.TaskID, p.TargetID))
}

// notSelf refuses an edge from a task to itself. Where the kind orders tasks that
// edge is the smallest circle there is.
func notSelf(kind, taskID, targetID string) error {
	if taskID != targetID {
		return nil
	}
	switch kind {
	case "parent", "child", "blocks", "blocked_by":
		return fault.New(fault.Conflict, "edge %s from task %s to itself would create a cycle", kind, taskID)
	}
	return fault.Param("targetId", "a task can't be linked to itself")
}

// UnlinkTasks takes an edge out of the task graph.
type UnlinkTasks struct {
	Mutation
	// TaskID is the edge's near end.
	TaskID string `json:"taskId" check:"id"`
	// Kind of the edge.
	Kind string `json:"kind" enum:"@taskRelation"`
	// TargetID is the edge's other end.
	TargetID string `json:"targetId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*UnlinkTasks) Command() Name                { return "unlink_tasks" }
func (*UnlinkTasks) returns(*RelationshipsResult) {}

// Validate implements [Params].
func (p *UnlinkTasks) Validate() error { return check(p) }

// RelationshipsResult is a task's edges after a change.
type RelationshipsResult struct {
	// Relationships are the task's edges in the graph.
	Relationships []Relationship `json:"relationships"`
}
