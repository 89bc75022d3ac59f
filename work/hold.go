package work

import (
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// With recovery: manual nothing goes on by itself after a restart. The loop blocks
// the threads that were at work; here everything is held that would start something
// new: each as a fact, each with the command that lets it go on.

// heldCode is why something is held, for programs.
const heldCode = "recovery_manual"

// heldReason is why something is held, for people; the command is what lets it go on.
func heldReason(command string) string {
	return "the runtime was restarted and recovery is manual; use " + command
}

// isManualRecovery reports whether everything waits for a person after a restart.
func (w *Work) isManualRecovery() bool { return w.opt.Recovery == "manual" }

// holdTask pauses a task that would go on by itself. One that is at work waits with
// its thread, one that is being stopped is stopped, and a worker outside goes on.
func holdTask(e *edit) error {
	switch e.t.Status {
	case state.TaskQueued, state.TaskRetrying, state.TaskPreparing:
	case state.TaskBlocked:
		if e.t.NativeStatus != byDependency || len(openDependencies(&e.t)) > 0 {
			return nil
		}
	default:
		return nil
	}
	return e.becomeStatus(event.TypeTaskPaused, &event.TaskStatusChanged{Status: state.TaskPaused, NativeStatus: heldCode, StatusReason: heldReason("resume_task")})
}

// holdJobs lets the running jobs of a session wait.
func holdJobs(tx *session.Tx) {
	for _, j := range tx.State.Jobs.Open {
		if j.Status == jobRunning {
			tx.Emit(event.Event{Type: event.TypeJobHeld, Scope: jobScope(j), Payload: &event.JobHeld{
				Status: jobPending, Code: heldCode, Reason: heldReason("start_job"), HeldBy: byRuntime(),
			}})
		}
	}
}

// holdSchedules pauses the schedules of a session.
func holdSchedules(tx *session.Tx) {
	for _, x := range tx.State.Schedules.Open {
		if x.Pause == nil {
			tx.Emit(event.Event{Type: event.TypeSchedulePaused, Payload: &event.SchedulePaused{
				ScheduleID: x.ScheduleID, Code: heldCode, Reason: heldReason("resume_schedule"), PausedBy: byRuntime(),
			}})
		}
	}
}

// resumeItems lets the items go on that were at work when their job was held.
func resumeItems(tx *session.Tx, j *state.Job, by *event.Actor) {
	for _, item := range j.Running {
		resumeHeld(tx, tx.State.Thread(item.ThreadID), by, "start_job")
	}
}

// resumeHeld lets a thread go on that waits since a restart.
func resumeHeld(tx *session.Tx, t *state.Thread, by *event.Actor, why string) {
	if t == nil || t.Block == nil || t.Block.Code != heldCode {
		return
	}
	tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
		Status: "resumed", Reason: why, ChangedBy: by,
	}})
}

// isHeldAfterRestart reports whether the task is at work in a thread that waits since a restart.
func (e *edit) isHeldAfterRestart() bool {
	a := underWay(&e.t)
	if e.t.Status != state.TaskBlocked || e.t.NativeStatus != byThread || a == nil {
		return false
	}
	t := e.tx.State.Thread(a.ThreadID)
	return t != nil && t.Block != nil && t.Block.Code == heldCode
}

// resumeThread lets a task go on whose thread waits since a restart.
func (e *edit) resumeThread(reason string) error {
	if !e.isHeldAfterRestart() {
		return conflict(&e.t, "resume_task is not allowed: the task is waiting for something else")
	}
	resumeHeld(e.tx, e.tx.State.Thread(underWay(&e.t).ThreadID), e.by, "resume_task")
	return e.becomeStatus(event.TypeTaskResumed, &event.TaskStatusChanged{Status: state.TaskRunning, StatusReason: reason})
}
