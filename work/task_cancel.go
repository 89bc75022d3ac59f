package work

import (
	"context"
	"errors"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

func (w *Work) cancelTask(ctx context.Context, caller command.Caller, p *command.CancelTask) (*command.TaskResult, error) {
	propagate := p.Propagate == nil || *p.Propagate
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return err
		}
		if err := e.askToStop(p.Reason, propagate); err != nil {
			return err
		}
		edits := []*edit{e}
		if propagate {
			if err := visitSubtasks(e, func(c *edit) error {
				if !acceptsCommand(&c.t, p.Command()) {
					return nil
				}
				edits = append(edits, c)
				return c.askToStop("task "+e.t.TaskID+" is cancelled", true)
			}); err != nil {
				return err
			}
		}
		return settleCancelled(edits)
	})
}

// askToStop records the wish, before anything is done about it.
func (e *edit) askToStop(reason string, propagate bool) error {
	return e.becomeStatus(event.TypeTaskCancelRequested, &event.TaskStatusChanged{Status: state.TaskCancelling, StatusReason: reason, Propagate: propagate})
}

// settleCancelled stops what works for the tasks of a cancellation and ends those
// that have nothing under way, children before their parents. The others settle
// when their work has stopped.
func settleCancelled(edits []*edit) error {
	settled := map[string]bool{}
	for _, e := range slices.Backward(edits) {
		if !e.stopWork(nil) || e.childrenActive(settled) {
			continue
		}
		if err := e.becomeCancelled(e.t.StatusReason); err != nil {
			return err
		}
		settled[e.t.TaskID] = true
	}
	return nil
}

// nextCancelling stops what is under way and, when nothing is any more, settles.
// The wish reaches children that it has not reached yet.
func (w *Work) nextCancelling(e *edit, o outlook) error {
	if e.propagates() {
		for _, c := range children(e.tx.State, e.t.TaskID) {
			if c.Status == state.TaskCancelling || !acceptsCommand(c, "cancel_task") {
				continue
			}
			if err := newEdit(e.tx, c, e.by).askToStop("task "+e.t.TaskID+" is cancelled", true); err != nil {
				return err
			}
		}
	}
	if !e.stopWork(o.unreachable) || e.childrenActive(nil) {
		return nil
	}
	return e.becomeCancelled(e.t.StatusReason)
}

func (e *edit) propagates() bool { return e.t.Cancel != nil && e.t.Cancel.Propagate }

func (e *edit) becomeCancelled(reason string) error {
	err := e.becomeStatus(event.TypeTaskCancelled, &event.TaskStatusChanged{Status: state.TaskCancelled, StatusReason: reason})
	if err == nil {
		e.archiveThreads()
	}
	return err
}

// stopWork stops the attempt under way and, if the wish propagates, what others do
// for the task. It reports whether all of it is over.
func (e *edit) stopWork(unreachable map[string]bool) bool {
	reason := orElse(e.t.StatusReason, "the task is stopped")
	over := e.stopAttempt(reason)
	if !e.propagates() {
		return over
	}
	h := helpers(e.tx.State, &e.t)
	h.stop(e, reason)
	return over && !h.active(unreachable)
}

// stopAttempt stops the attempt under way and reports whether it is over.
func (e *edit) stopAttempt(reason string) bool {
	a := underWay(&e.t)
	if a == nil {
		return true
	}
	f := newFailure("interrupted", true, "%s", orElse(reason, "the task is stopped"))
	if e.atPeer(a) {
		return false // the client of the peer cancels it, and reports the outcome
	}
	if external(&e.t) {
		// The worker can't be made to stop; its attempt is over all the same, and it is
		// told so when it reports.
		e.failAttempt(a, state.AttemptCancelled, f, "")
		return true
	}
	_, turn := turnOf(e.tx.State, a)
	if turn == nil || !turn.EndedAt.IsZero() {
		e.failAttempt(a, state.AttemptCancelled, f, "")
		return true
	}
	if turn.Interrupt == nil {
		e.interruptTurn(a, f.Message, "")
	}
	return false
}

// help is the work that others do for a task: turns that were submitted for it,
// subagents and their own children, jobs, processes.
type help struct {
	taskID string
	// threads are those that work for the task: its own, those of its subagents and
	// of the items of its jobs.
	threads []*state.Thread
	// guests are other threads with turns for the task.
	guests    []*state.Thread
	children  []*state.Subagent
	jobs      []*state.Job
	processes []*state.Process
}

// helpers finds who works for a task, from the session's state alone.
func helpers(st *state.Session, t *state.Task) *help {
	h := &help{taskID: t.TaskID}
	mine := map[string]bool{}
	for _, th := range st.Threads {
		switch {
		case th.TaskID == t.TaskID:
			mine[th.ThreadID] = true
		case slices.ContainsFunc(turnsOf(th), func(x *state.Turn) bool { return x.TaskID == t.TaskID }):
			h.guests = append(h.guests, th)
		}
	}
	h.addChildren(st, t, mine)
	for _, j := range st.Jobs.Open {
		if j.TaskID == t.TaskID {
			h.jobs = append(h.jobs, j)
		}
	}
	for _, th := range st.Threads {
		if mine[th.ThreadID] {
			h.threads = append(h.threads, th)
		}
	}
	for _, p := range st.Environment.Active {
		if mine[p.ThreadID] || slices.ContainsFunc(t.Attempts, func(a state.Attempt) bool { return a.TurnID != "" && a.TurnID == p.TurnID }) {
			h.processes = append(h.processes, p)
		}
	}
	return h
}

// addChildren finds the task's subagents and all below them. The threads of those
// that have ended count too: they may still be busy.
func (h *help) addChildren(st *state.Session, t *state.Task, mine map[string]bool) {
	edges := neighbours(t, "spawned_subagent")
	for grown := true; grown; {
		grown = false
		for i, list := range [...][]*state.Subagent{st.Subagents.Open, st.Subagents.Recent} {
			for _, a := range list {
				if mine[a.ThreadID] || a.TaskID != t.TaskID && !mine[a.ParentThreadID] && !slices.Contains(edges, a.SubagentID) {
					continue
				}
				mine[a.ThreadID], grown = true, true
				if i == 0 {
					h.children = append(h.children, a)
				}
			}
		}
	}
}

// turnsOf are the unfinished turns of a thread.
func turnsOf(t *state.Thread) []*state.Turn {
	if t.Active == nil {
		return t.Queue
	}
	return append([]*state.Turn{t.Active}, t.Queue...)
}

// stop records the end of what works for the task. Processes are ended outside of
// the decision.
func (h *help) stop(e *edit, reason string) {
	own := underWay(&e.t)
	for _, a := range slices.Backward(h.children) {
		closeChild(e.tx, a, e.by, reason)
	}
	for _, j := range h.jobs {
		emitJobCancelled(e.tx, j, e.by, reason)
	}
	closed := func(id string) bool {
		return slices.ContainsFunc(h.children, func(a *state.Subagent) bool { return a.ThreadID == id }) ||
			slices.ContainsFunc(h.jobs, func(j *state.Job) bool {
				return slices.ContainsFunc(j.Running, func(i *state.JobItem) bool { return i.ThreadID == id })
			})
	}
	for _, t := range h.threads {
		if t.Busy() && !closed(t.ThreadID) && (own == nil || own.ThreadID != t.ThreadID || external(&e.t)) {
			e.tx.Interrupt(e.by, t, reason, true)
		}
	}
	for _, t := range h.guests {
		// One at a time: a decision doesn't see what it did to the queue.
		if i := slices.IndexFunc(t.Queue, func(x *state.Turn) bool { return x.TaskID == e.t.TaskID }); i >= 0 {
			e.tx.CancelQueued(e.by, t, t.Queue[i].TurnID, reason)
		}
		if t.Active != nil && t.Active.TaskID == e.t.TaskID {
			e.tx.Interrupt(e.by, t, reason, false)
		}
	}
}

// active reports whether some of it had not stopped when it was looked at. A
// process that can't be reached is not waited for.
func (h *help) active(unreachable map[string]bool) bool {
	return len(h.guests)+len(h.children)+len(h.jobs) > 0 ||
		slices.ContainsFunc(h.threads, (*state.Thread).Busy) ||
		slices.ContainsFunc(h.processes, func(p *state.Process) bool { return !unreachable[p.ProcessID] })
}

// left are the processes that nothing ends: those of a running call end with it.
func (h *help) left(unreachable map[string]bool) []string {
	var out []string
	for _, p := range h.processes {
		busy := slices.ContainsFunc(h.threads, func(t *state.Thread) bool { return t.ThreadID == p.ThreadID && t.Busy() })
		if !unreachable[p.ProcessID] && (p.Background || !busy) {
			out = append(out, p.ProcessID)
		}
	}
	return out
}

// endProcesses ends the processes of a task that is being cancelled, then has the
// task looked at again.
func (w *Work) endProcesses(p place, t *state.Task) {
	defer w.book.passed(p.taskID)
	var left []string
	err := w.m.View(w.ctx, p.sessionID, func(st *state.Session) error {
		left = helpers(st, t).left(w.book.outlook([]string{p.taskID}).unreachable)
		return nil
	})
	if err == nil && len(left) == 0 {
		return
	}
	for _, id := range left {
		_, e := w.opt.Do(w.ctx, localCaller(), &command.TerminateProcess{ProcessID: id, Reason: orElse(t.Cancel.Reason, "task "+t.TaskID+" is cancelled")})
		switch {
		case e == nil, fault.KindOf(e) == fault.Conflict: // it ends, or has ended
		case fault.KindOf(e) == fault.NotFound, errors.Is(e, session.ErrUnreachable):
			w.book.giveUp(p.taskID, id)
			w.opt.Logger.Warn("a process of a cancelled task can't be reached; not waiting for it", "taskId", t.TaskID, "processId", id, "error", e)
		default:
			err = errors.Join(err, e)
		}
	}
	if w.ctx.Err() != nil {
		return
	}
	again := w.m.Now()
	if err != nil {
		w.opt.Logger.Warn("some processes of a cancelled task could not be ended", "taskId", t.TaskID, "error", err)
		again = again.Add(tryAgain)
	}
	w.timers.set(p.sessionID, p.taskID, again)
	w.book.wake()
}

// underCancelled refuses new work below a task that is being cancelled.
func underCancelled(tx *session.Tx, t *state.Task) error {
	if p := above(tx.State, t, func(p *state.Task) bool { return p.Status == state.TaskCancelling }); p != nil {
		return conflict(p, "it accepts no new work")
	}
	return nil
}
