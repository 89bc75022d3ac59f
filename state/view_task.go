package state

import (
	"slices"
	"time"

	"agentd/event"
)

// TaskSummary counts tasks over all time and lists the last that ended. The
// implicit tasks of turns are tasks too.
type TaskSummary struct {
	// Status is available: that there are none is known too.
	Status string `json:"status"`
	// Total counts all tasks.
	Total int64 `json:"total"`
	// Active counts what isn't terminal; waiting and blocked tasks are part of it.
	Active int64 `json:"active"`
	// Waiting counts the tasks that wait for input, permission or a resource.
	Waiting int64 `json:"waiting"`
	// Blocked counts the blocked tasks.
	Blocked int64 `json:"blocked"`
	// Terminal counts what has ended.
	Terminal int64 `json:"terminal"`
	// Completed counts the completed tasks.
	Completed int64 `json:"completed"`
	// Failed counts the failed tasks.
	Failed int64 `json:"failed"`
	// TimedOut counts the tasks that timed out.
	TimedOut int64 `json:"timedOut"`
	// Cancelled counts the cancelled tasks.
	Cancelled int64 `json:"cancelled"`
	// Lost counts the tasks whose worker was lost.
	Lost int64 `json:"lost"`
	// Archived counts the archived tasks.
	Archived int64 `json:"archived"`
	// ByStatus has all counts in the words of the tasks.
	ByStatus map[string]int64 `json:"byStatus"`
	// RecentTerminal are the last that ended, oldest first.
	RecentTerminal []EndedTask `json:"recentTerminal"`
}

// EndedTask is a terminal task in short.
type EndedTask struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// TaskKind classifies the task.
	TaskKind string `json:"taskKind"`
	// Status that it ended with.
	Status string `json:"status"`
	// StatusReason says why.
	StatusReason string `json:"statusReason,omitempty"`
	// LastError is why the last attempt failed.
	LastError *event.Failure `json:"lastError,omitempty"`
	// EndedAt is when it ended.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

func (s *Session) taskSummary() TaskSummary {
	n := s.Tasks.Counts
	sum := TaskSummary{
		Status: Available, Waiting: n[TaskWaitingInput] + n[TaskWaitingPermission] + n[TaskWaitingResource], Blocked: n[TaskBlocked],
		Completed: n[TaskCompleted], Failed: n[TaskFailed], TimedOut: n[TaskTimedOut], Cancelled: n[TaskCancelled],
		Lost: n[TaskLost], Archived: n[TaskArchived], ByStatus: countsCopy(n), RecentTerminal: []EndedTask{},
	}
	for status, k := range n {
		sum.Total += k
		if TaskEnded(status) {
			sum.Terminal += k
		}
	}
	sum.Active = sum.Total - sum.Terminal
	for _, t := range s.Tasks.Recent {
		sum.RecentTerminal = append(sum.RecentTerminal, EndedTask{
			TaskID: t.TaskID, Title: t.Title, TaskKind: t.TaskKind, Status: t.Status, StatusReason: t.StatusReason,
			LastError: t.LastError, EndedAt: t.EndedAt,
		})
	}
	return sum
}

// tasksOf returns the tasks of a thread, or of the session.
func (s *Session) tasksOf(thread string) []Task {
	return copied(func(t *Task) bool { return inView(thread, t.ThreadID) }, s.Tasks.Open, s.Tasks.Recent)
}

// TaskGraph is the edges between tasks and what they are made of.
type TaskGraph struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Edges of the tasks that are shown.
	Edges []TaskEdge `json:"edges"`
	// Dropped counts settled edges that are not kept.
	Dropped int64 `json:"dropped"`
}

// TaskEdge is one edge of the graph.
type TaskEdge struct {
	// TaskID is where the edge begins.
	TaskID string `json:"taskId"`
	Relationship
}

func taskGraph(tasks []Task) TaskGraph {
	g := TaskGraph{Edges: []TaskEdge{}}
	for _, t := range tasks {
		g.Dropped += t.OlderRelationships
		for _, r := range t.Relationships {
			g.Edges = append(g.Edges, TaskEdge{TaskID: t.TaskID, Relationship: r})
		}
	}
	g.Status = statusOf(len(tasks) > 0, NotApplicable)
	return g
}

// TaskAttempt is an attempt with its task.
type TaskAttempt struct {
	// TaskID is the task of the attempt.
	TaskID string `json:"taskId"`
	Attempt
}

// visibleAttempts returns the attempts under way and the newest one of each task.
func visibleAttempts(tasks []Task) []TaskAttempt {
	out := []TaskAttempt{}
	for _, t := range tasks {
		for i, a := range t.Attempts {
			if a.EndedAt.IsZero() || i == len(t.Attempts)-1 {
				out = append(out, TaskAttempt{TaskID: t.TaskID, Attempt: a})
			}
		}
	}
	return out
}

// BlockedTask is a task that can't go on by itself.
type BlockedTask struct {
	// TaskID is the task's id.
	TaskID string `json:"taskId"`
	// Status of the task.
	Status string `json:"status"`
	// StatusReason says why it waits.
	StatusReason string `json:"statusReason,omitempty"`
	// Blockers are the tasks and actions that it waits for.
	Blockers []string `json:"blockers"`
	// ActionIDs are the pending actions that the task waits for.
	ActionIDs []string `json:"actionIds"`
	// Since is when its newest fact happened.
	Since time.Time `json:"since"`
}

func (s *Session) blockedTasks(tasks []Task) []BlockedTask {
	out := []BlockedTask{}
	for _, t := range tasks {
		switch t.Status {
		case TaskBlocked, TaskWaitingInput, TaskWaitingPermission, TaskWaitingResource:
		default:
			continue
		}
		b := BlockedTask{
			TaskID: t.TaskID, Status: t.Status, StatusReason: t.StatusReason, Blockers: listCopy(t.Blockers),
			ActionIDs: []string{}, Since: t.UpdatedAt,
		}
		for _, a := range s.Actions.Pending {
			if a.TaskID == t.TaskID || slices.Contains(t.Blockers, a.ActionID) {
				b.ActionIDs = append(b.ActionIDs, a.ActionID)
			}
		}
		out = append(out, b)
	}
	return out
}

// DeliverySummary says whether results reached who asked for them.
type DeliverySummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// ByStatus counts the tasks by the status of their delivery.
	ByStatus map[string]int64 `json:"byStatus"`
	// Open are the deliveries that have not succeeded yet.
	Open []TaskDelivery `json:"open"`
}

// TaskDelivery is the delivery of one task's result that has not succeeded yet.
type TaskDelivery struct {
	// TaskID is the task whose result is delivered.
	TaskID string `json:"taskId"`
	event.DeliveryState
}

func deliverySummary(tasks []Task) DeliverySummary {
	d := DeliverySummary{ByStatus: map[string]int64{}, Open: []TaskDelivery{}}
	for _, t := range tasks {
		if t.DeliveryState == nil {
			continue
		}
		d.ByStatus[t.DeliveryState.Status]++
		switch t.DeliveryState.Status {
		case "delivered", NotApplicable:
		default:
			d.Open = append(d.Open, TaskDelivery{TaskID: t.TaskID, DeliveryState: *t.DeliveryState})
		}
	}
	d.Status = statusOf(len(d.ByStatus) > 0, NotApplicable)
	return d
}
