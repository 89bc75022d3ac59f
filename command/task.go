package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// TaskFields are what create_task and update_task have in common.
type TaskFields struct {
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// Acceptance lists the conditions of completion: objects, or short texts.
	Acceptance []Criterion `json:"acceptance,omitempty" also:"string" max:"100"`
	// Constraints bound what the work may do.
	Constraints *event.TaskConstraints `json:"constraints,omitempty"`
	// TaskProfile says what kind of model the work needs.
	TaskProfile *event.TaskProfile `json:"taskProfile,omitempty"`
	// RetryPolicy bounds the attempts.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// HeartbeatTimeoutMs is how long an external worker may be silent before the
	// task is lost.
	HeartbeatTimeoutMs int64 `json:"heartbeatTimeoutMs,omitempty" max:"31536000000"`
	// Visibility says where the task is shown; default foreground.
	Visibility string `json:"visibility,omitempty" enum:"@taskVisibility"`
	// Priority is a hint for the scheduler, a word or a number.
	Priority Priority `json:"priority,omitempty" also:"number" max:"100"`
	// Owner is who answers for the task.
	Owner *event.Actor `json:"owner,omitempty"`
	// Assignee is who works on it.
	Assignee *event.Actor `json:"assignee,omitempty"`
	// TaskFamily groups kinds of tasks coarsely.
	TaskFamily string `json:"taskFamily,omitempty" max:"128"`
	// Scope names what the work is about: references to a workspace, a project, an
	// environment or another boundary of the host.
	Scope event.Raw `json:"scope,omitempty" check:"object" max:"65536"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
}

// number gives criteria without an id one.
func (f *TaskFields) number() {
	for i := range f.Acceptance {
		if f.Acceptance[i].ID == "" {
			f.Acceptance[i].ID = fmt.Sprintf("criterion_%d", i+1)
		}
	}
}

// Criterion is a condition of a task's completion. On the wire it may be a text
// alone.
type Criterion struct {
	// ID of the criterion within its task; made if absent.
	ID string `json:"id,omitempty" check:"id"`
	// Description says what must hold.
	Description string `json:"description" max:"10000"`
	// Status of the criterion; default open.
	Status string `json:"status,omitempty" enum:"@criterionStatus"`
	// Reason says why it was satisfied or waived.
	Reason string `json:"reason,omitempty" max:"10000"`
	// EvidenceRefs point to evidence for it.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Criterion) UnmarshalJSON(b []byte) error {
	type object Criterion // without this method
	return shortForm(b, &c.Description, (*object)(c))
}

// Criteria returns the conditions of completion as facts state them.
func (f *TaskFields) Criteria() []event.AcceptanceCriterion {
	var list []event.AcceptanceCriterion
	for _, c := range f.Acceptance {
		list = append(list, event.AcceptanceCriterion{
			ID: c.ID, Description: c.Description, Status: cmp.Or(c.Status, "open"), Reason: c.Reason, EvidenceRefs: c.EvidenceRefs,
		})
	}
	return list
}

// Priority is a scheduling hint.
type Priority string

// UnmarshalJSON implements [json.Unmarshaler]; a number is taken as its text.
func (p *Priority) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && strings.ContainsRune("-0123456789", rune(b[0])) {
		*p = Priority(b)
		return nil
	}
	return wire.DecodeValue("", b, (*string)(p))
}

// shortForm reads a value that is a string, for one field, or the whole object.
func shortForm(b []byte, text *string, whole any) error {
	switch {
	case string(b) == "null":
		return nil
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, text)
	default:
		return wire.DecodeValue("", b, whole)
	}
}

// CreateTask creates a task.
type CreateTask struct {
	Mutation
	// TaskID is the task's id; made if absent.
	TaskID string `json:"taskId,omitempty" check:"id"`
	// SessionID of the task; a session of its own if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Objective says what is to be achieved.
	Objective string `json:"objective" max:"1048576"`
	TaskFields
	// TaskKind classifies the task; default general.
	TaskKind string `json:"taskKind,omitempty" max:"128"`
	// ParentTaskID is the task that this one is a part of.
	ParentTaskID string `json:"parentTaskId,omitempty" check:"id"`
	// DependsOn lists the tasks that must be completed before this one starts.
	DependsOn []string `json:"dependsOn,omitempty" check:"id"`
	// Worker says who works: agentd in a thread of its own (runtime, the default),
	// or the caller, who reports (external).
	Worker string `json:"worker,omitempty" enum:"@taskWorker"`
	// Peer is another agent that works on the task: the id of a configured one, or the
	// address of an agent card.
	Peer string `json:"peer,omitempty" max:"2048"`
	// Start starts the task at once; default false.
	Start bool `json:"start,omitempty"`
	// Draft defines the task without handing it to the runtime; start_task does that.
	Draft bool `json:"draft,omitempty"`
}

// Command implements [Params].
func (*CreateTask) Command() Name       { return "create_task" }
func (*CreateTask) returns(*TaskResult) {}

// NewID implements [Creating].
func (p *CreateTask) NewID() (noun, id string) { return "task", p.TaskID }

// Validate implements [Params]. It gives criteria without an id one.
func (p *CreateTask) Validate() error {
	p.number()
	return firstError(check(p), notRuntime(p.SessionID), selfReference(p.TaskID, p.ParentTaskID, p.DependsOn), oneWorker(p.Worker, p.Peer), p.notStartedDraft())
}

// notStartedDraft refuses a draft that is to start.
func (p *CreateTask) notStartedDraft() error {
	if p.Draft && p.Start {
		return fault.Param("draft", "a draft doesn't start; leave out draft or start")
	}
	return nil
}

// selfReference refuses a task that waits for itself or is its own parent.
func selfReference(id, parent string, dependsOn []string) error {
	if id == "" {
		return nil
	}
	if id == parent {
		return notSelf("parent", id, id)
	}
	if slices.Contains(dependsOn, id) {
		return notSelf("blocked_by", id, id)
	}
	return nil
}

// notRuntime refuses work in the runtime's own session.
func notRuntime(sessionID string) error {
	if sessionID == event.RuntimeSession {
		return fault.Param("sessionId", "%s is the runtime's own session and accepts no work; use another session", event.RuntimeSession)
	}
	return nil
}

// UpdateTask changes a task; what is absent stays.
type UpdateTask struct {
	Mutation
	// TaskID is the task's id.
	TaskID string `json:"taskId" check:"id"`
	// Objective says what is to be achieved.
	Objective string `json:"objective,omitempty" max:"1048576"`
	TaskFields
	// TaskKind classifies the task.
	TaskKind string `json:"taskKind,omitempty" max:"128"`
	// ParentTaskID is the task that this one becomes a part of.
	ParentTaskID string `json:"parentTaskId,omitempty" check:"id"`
	// DependsOn lists all the tasks that must be completed before this one starts;
	// an empty list takes every dependency away.
	DependsOn []string `json:"dependsOn,omitzero" check:"id"`
	// Worker says who works: agentd (runtime) or the caller (external).
	Worker string `json:"worker,omitempty" enum:"@taskWorker"`
	// DeliveryState says whether the result reached who asked for it.
	DeliveryState *Delivery `json:"deliveryState,omitempty" also:"string"`
	// ValidationState says how far the result was validated.
	ValidationState string `json:"validationState,omitempty" max:"128"`
	// Artifacts are added to the task's deliverables.
	Artifacts []event.ArtifactLink `json:"artifacts,omitempty"`
	// EvidenceRefs are added to the task's evidence.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*UpdateTask) Command() Name       { return "update_task" }
func (*UpdateTask) returns(*TaskResult) {}

// Validate implements [Params]. It gives criteria without an id one.
func (p *UpdateTask) Validate() error {
	p.number()
	return firstError(check(p), selfReference(p.TaskID, p.ParentTaskID, p.DependsOn), artifactIDs(p.Artifacts))
}

// artifactIDs refuses deliverables whose ids no fact could carry.
func artifactIDs(list []event.ArtifactLink) error {
	for i, a := range list {
		if !event.ValidID(a.ArtifactID) {
			return fault.Param(fmt.Sprintf("artifacts[%d].artifactId", i), "expected an id of 1 to 128 letters, digits, or _ . : -, not %q", clipQuoted(a.ArtifactID))
		}
	}
	return nil
}

// Delivery is a delivery state. On the wire it may be the status alone.
type Delivery struct{ event.DeliveryState }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Delivery) UnmarshalJSON(b []byte) error { return shortForm(b, &d.Status, &d.DeliveryState) }

// TaskResult is a task's standing after a command.
type TaskResult struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId"`
	// Status of the task.
	Status string `json:"status"`
}

// TaskRunResult is a task's standing after it was started.
type TaskRunResult struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId"`
	// Status of the task; blocked while its dependencies are not completed.
	Status string `json:"status"`
	// RunID of the attempt that was started, if one was.
	RunID string `json:"runId,omitempty"`
	// AttemptCount counts the task's attempts.
	AttemptCount int64 `json:"attemptCount"`
}

// TaskRecord is the record of a task. This is the part that callers in Go rely on.
type TaskRecord struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId"`
	// SessionID of the task.
	SessionID string `json:"sessionId"`
	// ParentTaskID is the task that this one is a part of.
	ParentTaskID string `json:"parentTaskId,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Objective says what is to be achieved.
	Objective string `json:"objective,omitempty"`
	// TaskKind classifies the task.
	TaskKind string `json:"taskKind"`
	// Visibility says where the task is shown.
	Visibility string `json:"visibility"`
	// Status of the task.
	Status string `json:"status"`
	// StatusReason says why, where the status doesn't speak for itself.
	StatusReason string `json:"statusReason,omitempty"`
	// Blockers are the tasks and actions that the task waits for.
	Blockers []string `json:"blockers,omitempty"`
	// Progress is how far the work is.
	Progress *event.Progress `json:"progress,omitempty"`
	// CurrentRunID is the attempt under way.
	CurrentRunID string `json:"currentRunId,omitempty"`
	// Attempts are the newest attempts, oldest first.
	Attempts []AttemptRecord `json:"attempts,omitempty"`
	// Relationships are the task's edges in the graph.
	Relationships []Relationship `json:"relationships,omitempty"`
	// Artifacts are the task's deliverables.
	Artifacts []event.ArtifactLink `json:"artifacts,omitempty"`
	// EvidenceRefs point to evidence.
	EvidenceRefs []string `json:"evidenceRefs,omitempty"`
	// LastError is why the last attempt failed.
	LastError *event.Failure `json:"lastError,omitempty"`
	// CreatedAt is when the task was created.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
}

// AttemptRecord is the record of an attempt. This is the part that callers in Go rely on.
type AttemptRecord struct {
	// RunID is the attempt's run.
	RunID string `json:"runId"`
	// AttemptID is the attempt's id.
	AttemptID string `json:"attemptId,omitempty"`
	// Status of the attempt.
	Status string `json:"status"`
	// AttemptCount is the attempt's ordinal, from 1.
	AttemptCount int64 `json:"attemptCount"`
	// LastError is why it failed.
	LastError *event.Failure `json:"lastError,omitempty"`
}

// Relationship is one edge of the task graph.
type Relationship struct {
	// Kind of the edge.
	Kind string `json:"kind"`
	// TargetID is the edge's other end.
	TargetID string `json:"targetId"`
	// Status of the edge: a satisfied dependency no longer blocks.
	Status string `json:"status"`
	// Reason for people.
	Reason string `json:"reason,omitempty"`
	// CreatedAt is when the edge was drawn.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when its status last changed.
	UpdatedAt time.Time `json:"updatedAt"`
}
