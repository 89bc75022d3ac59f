package work

import (
	"slices"

	"agentd/command"
	"agentd/fault"
	"agentd/state"
)

// standing is one row of the machine: what can become of a task with a status.
type standing struct {
	// to are the statuses that may follow.
	to []string
	// commands are what may be asked of a task that has the status.
	commands []command.Name
}

// Statuses that tasks in a snapshot can have when nothing better is known. No
// decision gives a task one of them.
const (
	taskStale   = "stale"
	taskUnknown = "unknown"
)

// Groups of statuses and commands that several rows share.
var (
	waits = []string{state.TaskWaitingInput, state.TaskWaitingPermission, state.TaskWaitingResource}
	ends  = []string{state.TaskTimedOut, state.TaskFailed, state.TaskLost, state.TaskCompleted}
	holds = []string{state.TaskBlocked, state.TaskPaused, state.TaskCancelling}

	atWork = standing{
		to:       slices.Concat([]string{state.TaskRunning, state.TaskRetrying}, waits, holds, ends),
		commands: []command.Name{"append_task_progress", "complete_task", "fail_task", "pause_task", "cancel_task"},
	}
	ended = standing{
		to:       []string{state.TaskRetrying, state.TaskArchived},
		commands: []command.Name{"retry_task", "archive_task"},
	}
	uncertain = standing{
		to:       []string{state.TaskRetrying, state.TaskCancelling, state.TaskFailed, state.TaskLost, state.TaskArchived},
		commands: []command.Name{"retry_task", "cancel_task", "archive_task"},
	}
)

// machine is the whole state machine of tasks: every status with what may follow
// it. What isn't here is refused. update_task, link_tasks and unlink_tasks have
// rules of their own, and reading is always possible.
var machine = map[string]standing{
	state.TaskDraft: {
		to:       []string{state.TaskAccepted, state.TaskCancelling},
		commands: []command.Name{"start_task", "cancel_task"},
	},
	state.TaskAccepted: {
		to:       []string{state.TaskQueued, state.TaskRunning, state.TaskBlocked, state.TaskCancelling},
		commands: []command.Name{"start_task", "cancel_task"},
	},
	state.TaskQueued: {
		to:       slices.Concat([]string{state.TaskPreparing, state.TaskRunning, state.TaskTimedOut, state.TaskFailed}, holds),
		commands: []command.Name{"pause_task", "cancel_task"},
	},
	state.TaskPreparing:         atWork,
	state.TaskRunning:           atWork,
	state.TaskWaitingInput:      atWork,
	state.TaskWaitingPermission: atWork,
	state.TaskWaitingResource:   atWork,
	state.TaskBlocked: {
		to:       slices.Concat([]string{state.TaskQueued, state.TaskRunning, state.TaskRetrying}, waits, holds, ends),
		commands: []command.Name{"append_task_progress", "complete_task", "fail_task", "pause_task", "resume_task", "cancel_task", "retry_task"},
	},
	state.TaskPaused: {
		to:       slices.Concat([]string{state.TaskQueued, state.TaskRunning, state.TaskRetrying}, holds, ends),
		commands: []command.Name{"append_task_progress", "complete_task", "fail_task", "resume_task", "cancel_task"},
	},
	state.TaskRetrying: {
		to:       slices.Concat([]string{state.TaskQueued, state.TaskPreparing, state.TaskRunning, state.TaskTimedOut, state.TaskFailed}, holds),
		commands: []command.Name{"start_task", "retry_task", "pause_task", "cancel_task"},
	},
	state.TaskCancelling: {to: []string{state.TaskCancelled}},
	state.TaskCancelled:  ended,
	state.TaskTimedOut:   ended,
	state.TaskFailed:     ended,
	state.TaskLost:       ended,
	state.TaskCompleted:  ended,
	state.TaskArchived:   {},
	taskStale:            uncertain,
	taskUnknown:          uncertain,
}

// mayBecome reports whether a task may go from one status to another.
func mayBecome(from, to string) bool { return slices.Contains(machine[from].to, to) }

// mayAsk refuses a command that a task with this status doesn't take; the fault
// names the status.
func mayAsk(t *state.Task, name command.Name) error {
	if acceptsCommand(t, name) {
		return nil
	}
	return conflict(t, "%s is not allowed", name)
}

// acceptsCommand reports whether a task with this status takes a command.
func acceptsCommand(t *state.Task, name command.Name) bool {
	return slices.Contains(machine[t.Status].commands, name)
}

// conflict is the refusal of what a task's standing doesn't allow; it names the
// status.
func conflict(t *state.Task, format string, args ...any) *fault.Error {
	f := fault.New(fault.Conflict, format, args...)
	why := ""
	if t.StatusReason != "" {
		why = " (" + t.StatusReason + ")"
	}
	return fault.New(fault.Conflict, "task %s is %s%s: %s", t.TaskID, t.Status, why, f.Detail)
}
