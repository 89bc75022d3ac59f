package work

import (
	"context"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

func (w *Work) startTask(ctx context.Context, caller command.Caller, p *command.StartTask) (*command.TaskRunResult, error) {
	return w.launchAttempt(ctx, caller, p, p.TaskID, p.Worker, func(e *edit, slot bool) (string, error) {
		e.why = p.Reason
		if a := underWay(&e.t); a != nil && e.t.Status == state.TaskRunning && unclaimed(&e.t, a) {
			return e.takeOver(a), nil
		}
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return "", err
		}
		if err := e.acceptDraft(); err != nil {
			return "", err
		}
		if err := e.assignWorker(p.Worker); err != nil {
			return "", err
		}
		return w.beginAttempt(e, slot)
	})
}

// acceptDraft takes on a task that was only defined.
func (e *edit) acceptDraft() error {
	if e.t.Status != state.TaskDraft {
		return nil
	}
	return e.becomeStatus(event.TypeTaskAccepted, &event.TaskStatusChanged{Status: state.TaskAccepted, StatusReason: e.why})
}

// unclaimed reports whether an attempt began by itself, after a wait or when a
// dependency was completed, and no external worker has taken it or reported about
// it: who starts the task then gets this one.
func unclaimed(t *state.Task, a *state.Attempt) bool {
	return external(t) && a.EndedAt.IsZero() && a.Worker != nil && a.Worker.ID == "" && a.HeardAt.IsZero()
}

func (w *Work) retryTask(ctx context.Context, caller command.Caller, p *command.RetryTask) (*command.TaskRunResult, error) {
	return w.launchAttempt(ctx, caller, p, p.TaskID, p.Worker, func(e *edit, slot bool) (string, error) {
		e.why = p.Reason
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return "", err
		}
		if e.t.Status == state.TaskBlocked && (underWay(&e.t) != nil || e.t.NativeStatus == byDependency) {
			return "", conflict(&e.t, "%s is not allowed", p.Command())
		}
		if err := e.assignWorker(p.Worker); err != nil {
			return "", err
		}
		if e.t.Status != state.TaskRetrying {
			if err := e.becomeStatus(event.TypeTaskRetrying, &event.TaskStatusChanged{
				Status: state.TaskRetrying, NativeStatus: forRerun, StatusReason: p.Reason, RetryAt: e.tx.Now(),
			}); err != nil {
				return "", err
			}
		}
		return w.beginAttempt(e, slot)
	})
}

// assignWorker changes who works on the task.
func (e *edit) assignWorker(worker string) error {
	if worker == "" || worker == e.t.WorkerKind {
		return nil
	}
	if underWay(&e.t) != nil {
		return conflict(&e.t, "an attempt is running, so its worker can't be changed")
	}
	e.emitFact(event.TypeTaskUpdated, &event.TaskUpdated{WorkerKind: worker, ChangedBy: e.by})
	e.t.WorkerKind = worker
	return nil
}

// launchAttempt carries out a command that may start an attempt, in the same write if
// there is room.
func (w *Work) launchAttempt(ctx context.Context, caller command.Caller, p command.Params, taskID, worker string, start func(e *edit, slot bool) (string, error)) (*command.TaskRunResult, error) {
	f, err := w.findVisibleTask(ctx, caller, taskID)
	if err != nil {
		return nil, err
	}
	if err := notOfTurn(f.task); err != nil {
		return nil, err
	}
	o := w.book.outlook([]string{taskID})
	if o.standings, err = w.taskStandings(ctx, f.sessionID, []string{taskID}); err != nil {
		return nil, err
	}
	reserved := !external(&state.Task{WorkerKind: orElse(worker, f.task.WorkerKind)}) && w.slots.reserve(f.place())
	started := false
	res, err := session.Write(ctx, w.m, caller, p, f.sessionID, event.ByWork, func(tx *session.Tx) (*command.TaskRunResult, error) {
		started = false
		e, err := f.edit(tx, session.ActorOf(caller))
		if err != nil {
			return nil, err
		}
		if err := underCancelled(tx, &e.t); err != nil {
			return nil, err
		}
		settleEdges(e, o)
		runID, err := start(e, reserved)
		if err != nil {
			return nil, err
		}
		started = runID != ""
		return &command.TaskRunResult{TaskID: taskID, Status: e.t.Status, RunID: runID, AttemptCount: countAttempts(&e.t)}, nil
	})
	if reserved {
		w.slots.settle(f.place(), started && err == nil)
	}
	return res, err
}

func (w *Work) pauseTask(ctx context.Context, caller command.Caller, p *command.PauseTask) (*command.TaskResult, error) {
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return err
		}
		if err := e.pauseTask(p.Reason); err != nil {
			return err
		}
		if p.Propagate == nil || !*p.Propagate {
			return nil
		}
		return visitSubtasks(e, func(c *edit) error {
			if !acceptsCommand(&c.t, p.Command()) {
				return nil
			}
			return c.pauseTask(p.Reason)
		})
	})
}

// pauseTask holds a task. The turn of the runtime is stopped; an external worker is
// told when it looks.
func (e *edit) pauseTask(reason string) error {
	if a := underWay(&e.t); a != nil && !external(&e.t) {
		if _, turn := turnOf(e.tx.State, a); turn != nil && turn.EndedAt.IsZero() && turn.Interrupt == nil {
			e.interruptTurn(a, orElse(reason, "the task is paused"), "")
		}
	}
	return e.becomeStatus(event.TypeTaskPaused, &event.TaskStatusChanged{Status: state.TaskPaused, StatusReason: reason})
}

// visitSubtasks visits the tasks under one, in the same session, parents first.
func visitSubtasks(e *edit, visit func(*edit) error) error {
	parts := map[string][]*state.Task{}
	for _, t := range e.tx.State.Tasks.Open {
		if t.ParentTaskID != "" && t.TaskKind != state.TaskKindTurn {
			parts[t.ParentTaskID] = append(parts[t.ParentTaskID], t)
		}
	}
	for queue := []string{e.t.TaskID}; len(queue) > 0; queue = queue[1:] {
		list := parts[queue[0]]
		delete(parts, queue[0])
		for _, c := range list {
			if err := visit(newEdit(e.tx, c, e.by)); err != nil {
				return err
			}
			queue = append(queue, c.TaskID)
		}
	}
	return nil
}

func (w *Work) resumeTask(ctx context.Context, caller command.Caller, p *command.ResumeTask) (*command.TaskResult, error) {
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return err
		}
		if err := underCancelled(e.tx, &e.t); err != nil {
			return err
		}
		if err := w.resumePaused(e, p.Reason); err != nil {
			return err
		}
		if p.Propagate == nil || !*p.Propagate {
			return nil
		}
		return visitSubtasks(e, func(c *edit) error {
			if c.t.Status != state.TaskPaused && !c.isHeldAfterRestart() {
				return nil
			}
			return w.resumePaused(c, p.Reason)
		})
	})
}

// resumePaused lets a paused task go on: an external worker where it is, the runtime
// with another attempt, unless the work was done before it could be stopped.
func (w *Work) resumePaused(e *edit, reason string) error {
	a := currentAttempt(&e.t)
	switch {
	case e.heldByPeer():
		return e.becomeStatus(event.TypeTaskResumed, &event.TaskStatusChanged{Status: state.TaskRunning, StatusReason: reason})
	case e.t.Status == state.TaskBlocked:
		return e.resumeThread(reason)
	case a != nil && external(&e.t) && a.EndedAt.IsZero():
		return e.becomeStatus(event.TypeTaskResumed, &event.TaskStatusChanged{Status: state.TaskRunning, StatusReason: reason})
	case a != nil && a.Status == state.AttemptCompleted && !a.EndedAt.IsZero():
		return e.afterSuccess()
	}
	if err := e.becomeStatus(event.TypeTaskResumed, &event.TaskStatusChanged{Status: state.TaskQueued, StatusReason: orElse(reason, "waits for room")}); err != nil {
		return err
	}
	if external(&e.t) || len(openDependencies(&e.t)) > 0 {
		_, err := w.beginAttempt(e, false)
		return err
	}
	return nil
}
