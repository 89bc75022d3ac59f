package work

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// found is a task that a command is about.
type found struct {
	sessionID, account string
	// task is a copy of the record.
	task *state.Task
	// record is set if the task left its session's working set.
	record event.Raw
}

// findVisibleTask returns a task that the caller may see. One that it may not is not found.
func (w *Work) findVisibleTask(ctx context.Context, caller command.Caller, taskID string) (*found, error) {
	sessionID, err := w.m.TaskSession(ctx, taskID)
	if err != nil {
		return nil, err
	}
	f := &found{sessionID: sessionID}
	err = w.m.ViewAs(ctx, caller, sessionID, func(st *state.Session) error {
		f.account = st.Account
		if t := st.Tasks.Find(taskID); t != nil {
			c := *t
			f.task = &c
		}
		return nil
	})
	if fault.KindOf(err) == fault.NotFound && err != nil {
		return nil, notFound(taskID)
	}
	if err != nil || f.task != nil {
		return f, err
	}
	if f.record, err = w.m.Record(ctx, sessionID, "task/"+taskID); err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil, notFound(taskID)
		}
		return nil, err
	}
	f.task = &state.Task{}
	if err := json.Unmarshal(f.record, f.task); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of task %s can't be read", taskID)
	}
	return f, nil
}

// place is where the task runs, as limits see it.
func (f *found) place() place { return place{f.task.TaskID, f.sessionID, f.account} }

// edit begins a decision about the task.
func (f *found) edit(tx *session.Tx, by *event.Actor) (*edit, error) {
	if t := tx.State.Tasks.Find(f.task.TaskID); t != nil {
		return newEdit(tx, t, by), nil
	}
	if f.record == nil {
		return nil, fault.New(fault.Unavailable, "task %s is being archived; try again", f.task.TaskID)
	}
	e := newEdit(tx, f.task, by)
	e.restore = f.record
	return e, nil
}

// changeTask carries out a command that changes one task.
func (w *Work) changeTask(ctx context.Context, caller command.Caller, p command.Params, taskID string, decide func(*edit) error) (*command.TaskResult, error) {
	f, err := w.findVisibleTask(ctx, caller, taskID)
	if err != nil {
		return nil, err
	}
	if err := notOfTurn(f.task); err != nil {
		return nil, err
	}
	return session.Write(ctx, w.m, caller, p, f.sessionID, asWork, func(tx *session.Tx) (*command.TaskResult, error) {
		e, err := f.edit(tx, session.ActorOf(caller))
		if err != nil {
			return nil, err
		}
		if err := decide(e); err != nil {
			return nil, err
		}
		return &command.TaskResult{TaskID: taskID, Status: e.t.Status}, nil
	})
}

// notOfTurn refuses to change the implicit task of a turn, which follows its turn.
func notOfTurn(t *state.Task) error {
	if t.TaskKind != state.TaskKindTurn {
		return nil
	}
	return conflict(t, "it belongs to turn %s and follows it; use the commands for turns", t.TurnID)
}

func (w *Work) archiveTask(ctx context.Context, caller command.Caller, p *command.ArchiveTask) (*command.TaskResult, error) {
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return err
		}
		return e.becomeStatus(event.TypeTaskArchived, &event.TaskStatusChanged{Status: state.TaskArchived, NativeStatus: e.t.Status, StatusReason: p.Reason})
	})
}

func (w *Work) updateTask(ctx context.Context, caller command.Caller, p *command.UpdateTask) (*command.TaskResult, error) {
	if err := w.checkFields(&p.TaskFields); err != nil {
		return nil, err
	}
	if p.ParentTaskID != "" || p.DependsOn != nil {
		// A node that repeats the command skips the edges that already exist.
		if err := w.moveTask(command.PassOver(ctx), caller, p); err != nil {
			return nil, err
		}
	}
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		up, about := w.updateFact(e, p)
		switch {
		case e.t.Status == state.TaskArchived:
			return conflict(&e.t, "it can no longer be changed")
		case e.t.Terminal() && about != "":
			return conflict(&e.t, "%s can no longer be changed, only delivery, validation, artifacts, evidence and metadata", about)
		}
		if err := e.assignWorker(p.Worker); err != nil {
			return err
		}
		e.observeDeliverables(p.Artifacts)
		e.emitFact(event.TypeTaskUpdated, up)
		return nil
	})
}

// updateFact returns the fact of a change, and the name of a field in it that belongs
// to the work itself, if there is one.
func (w *Work) updateFact(e *edit, p *command.UpdateTask) (up *event.TaskUpdated, about string) {
	up = &event.TaskUpdated{
		TaskKind: ofTask(p.TaskKind), Priority: string(p.Priority), Visibility: p.Visibility, Owner: p.Owner, Assignee: p.Assignee, Constraints: p.Constraints,
		TaskProfile: givenProfile(p.TaskProfile), Acceptance: recordJudges(p.Criteria(), e.by), RetryPolicy: p.RetryPolicy, HeartbeatTimeoutMs: p.HeartbeatTimeoutMs,
		TaskFamily: p.TaskFamily, Scope: p.Scope, Metadata: p.Metadata, ValidationState: p.ValidationState,
		Artifacts: p.Artifacts, EvidenceRefs: p.EvidenceRefs, Reason: p.Reason, ChangedBy: e.by,
	}
	if p.DeliveryState != nil {
		up.DeliveryState = &p.DeliveryState.DeliveryState
	}
	if p.Title != "" {
		up.Title, about = &p.Title, "title"
	}
	if p.Objective != "" {
		text, ref := objective(e.tx, p.Objective, e.t.Acceptance)
		up.Objective, up.ObjectiveRef, about = &text, ref, "objective"
	}
	return up, orElse(about, workField(p))
}

// workField returns the name of a field that belongs to the work and is changed.
func workField(p *command.UpdateTask) string {
	switch {
	case p.TaskKind != "", p.TaskFamily != "":
		return "its kind"
	case p.Scope != nil:
		return "scope"
	case p.Worker != "":
		return "who works on it"
	case p.Constraints != nil:
		return "constraints"
	case p.TaskProfile != nil:
		return "taskProfile"
	case len(p.Acceptance) > 0:
		return "acceptance"
	case p.RetryPolicy != nil:
		return "retryPolicy"
	case p.HeartbeatTimeoutMs != 0:
		return "heartbeatTimeoutMs"
	case p.Priority != "", p.Visibility != "":
		return "its place in the lists"
	case p.Owner != nil, p.Assignee != nil:
		return "who it belongs to"
	}
	return ""
}

// recordJudges says who satisfied or waived criteria.
func recordJudges(list []event.AcceptanceCriterion, by *event.Actor) []event.AcceptanceCriterion {
	for i := range list {
		if s := list[i].Status; s == "satisfied" || s == "waived" {
			list[i].By = by
		}
	}
	return list
}

// checkFields refuses what could not be meant.
func (w *Work) checkFields(f *command.TaskFields) error {
	for i, c := range f.Acceptance {
		if c.Status == "waived" && c.Reason == "" {
			return fault.Param(fmt.Sprintf("acceptance[%d].reason", i), "is missing: waiving a criterion needs a reason")
		}
		if slices.ContainsFunc(f.Acceptance[:i], func(x command.Criterion) bool { return x.ID == c.ID }) {
			return fault.Param(fmt.Sprintf("acceptance[%d].id", i), "%q is listed twice", c.ID)
		}
	}
	if f.Constraints == nil || w.opt.CheckTurn == nil {
		return nil
	}
	err := w.opt.CheckTurn(turnOptions(&state.Task{Constraints: f.Constraints}))
	if err != nil && fault.KindOf(err) == fault.InvalidParams {
		return fault.Param("constraints", "%s", err)
	}
	return err
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }
