package work

import (
	"context"
	"fmt"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// reported is what a worker's report came to. Late says that it came after its
// attempt was over: it was kept, and the result says so.
type reported struct {
	TaskID string `json:"taskId"`
	Status string `json:"status"`
	Late   string `json:"late,omitempty"`
}

// reportAttempt carries out what a worker says about an attempt. Decide gets the attempt
// under way, or nil if the task has none; late emits the fact that keeps a report
// which came too late.
func (w *Work) reportAttempt(ctx context.Context, caller command.Caller, p command.Params, taskID, runID string, decide func(*edit, *state.Attempt) error, late func(*edit, *state.Attempt)) (*command.TaskResult, error) {
	f, err := w.findVisibleTask(ctx, caller, taskID)
	if err != nil {
		return nil, err
	}
	if err := notOfTurn(f.task); err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, f.sessionID, event.ByWork, func(tx *session.Tx) (*reported, error) {
		e, err := f.edit(tx, session.ActorOf(caller))
		if err != nil {
			return nil, err
		}
		a, err := attemptFor(&e.t, runID, e.by)
		if err != nil {
			return nil, err
		}
		if a != nil && cameTooLate(&e.t, a) {
			late(e, a)
			return &reported{TaskID: taskID, Status: e.t.Status, Late: lateness(&e.t, a)}, nil
		}
		if err := mayAsk(&e.t, p.Command()); err != nil {
			return nil, err
		}
		if a != nil && !a.EndedAt.IsZero() && runID != "" && a != currentAttempt(&e.t) {
			return nil, conflict(&e.t, "run %s is %s", a.RunID, a.Status)
		}
		if err := decide(e, a); err != nil {
			return nil, err
		}
		return &reported{TaskID: taskID, Status: e.t.Status}, nil
	})
	if err != nil {
		return nil, err
	}
	if res.Late != "" {
		return nil, fault.New(fault.Conflict, "%s", res.Late)
	}
	return &command.TaskResult{TaskID: res.TaskID, Status: res.Status}, nil
}

// attemptFor returns the attempt that a report is about: the one that it names, or
// the newest. A worker that was given up and names none could mean its own: it is
// taken for the newest run only if that can't be another worker's.
func attemptFor(t *state.Task, runID string, by *event.Actor) (*state.Attempt, error) {
	if runID != "" {
		if a := attemptOfRun(t, runID); a != nil {
			return a, nil
		}
		return nil, fault.New(fault.NotFound, "task %s has no run %s", t.TaskID, runID)
	}
	a := currentAttempt(t)
	if a == nil || !external(t) || !a.EndedAt.IsZero() || a.Worker == nil {
		return a, nil
	}
	mine, nobodys := givenUp(t, nameOf(by)), givenUp(t, "")
	switch {
	case a.Worker.ID != "" && a.Worker.ID != nameOf(by) && mine != nil:
		return mine, nil
	case unclaimed(t, a) && (mine != nil || nobodys != nil):
		return nil, conflict(t, "an earlier run was given up and run %s has no owner yet: name the run you mean in runId, or claim it with start_task", a.RunID)
	}
	return a, nil
}

// givenUp returns the newest attempt of a worker that was ended without its word,
// or nil.
func givenUp(t *state.Task, worker string) *state.Attempt {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		a := &t.Attempts[i]
		if isSchedulerAttempt(a) && cameTooLate(t, a) && a.Worker != nil && a.Worker.ID == worker {
			return a
		}
	}
	return nil
}

// cameTooLate reports whether an attempt was ended without its worker's word: it
// was lost, timed out or stopped. What the worker says then is kept as a fact.
func cameTooLate(t *state.Task, a *state.Attempt) bool {
	if a.EndedAt.IsZero() || !external(t) {
		return false
	}
	switch a.Status {
	case state.AttemptUnknown, state.AttemptCancelled:
		return true
	}
	return a.LastError != nil && a.LastError.Category == state.TaskTimedOut
}

// lateness tells a worker what became of its attempt.
func lateness(t *state.Task, a *state.Attempt) string {
	what := "was stopped"
	if a.LastError != nil {
		switch a.LastError.Category {
		case state.TaskLost:
			what = "was declared lost"
		case state.TaskTimedOut:
			what = "timed out"
		}
	}
	out := fmt.Sprintf("task %s is %s: run %s %s; the report is kept as late and changes nothing", t.TaskID, t.Status, a.RunID, what)
	if t.CurrentRunID != a.RunID {
		out += "; the newest run is " + t.CurrentRunID
	}
	return out
}

func (w *Work) appendProgress(ctx context.Context, caller command.Caller, p *command.AppendTaskProgress) (*command.TaskResult, error) {
	fact := func() *event.TaskProgressed {
		out := &event.TaskProgressed{OutputRefs: links(p.OutputRefs), CheckpointRefs: links(p.CheckpointRefs), ValidationState: p.ValidationState}
		if p.Progress != nil {
			out.Progress = *p.Progress
		}
		if p.DeliveryState != nil {
			out.DeliveryState = &p.DeliveryState.DeliveryState
		}
		return out
	}
	return w.reportAttempt(ctx, caller, p, p.TaskID, p.RunID, func(e *edit, a *state.Attempt) error {
		if a == nil || !a.EndedAt.IsZero() {
			return conflict(&e.t, "no attempt is running")
		}
		out := fact()
		out.Heartbeat = external(&e.t)
		e.emitScoped(event.TypeTaskProgress, e.attemptScope(a), out)
		return nil
	}, func(e *edit, a *state.Attempt) {
		out := fact()
		out.Late = true
		e.emitScoped(event.TypeTaskProgress, e.attemptScope(a), out)
	})
}

func links(refs []command.OutputRef) []event.OutputLink {
	var out []event.OutputLink
	for _, r := range refs {
		out = append(out, r.OutputLink)
	}
	return out
}

func (w *Work) completeTask(ctx context.Context, caller command.Caller, p *command.CompleteTask) (*command.TaskResult, error) {
	return w.reportAttempt(ctx, caller, p, p.TaskID, p.RunID, func(e *edit, a *state.Attempt) error {
		done, err := w.completionFact(e, p)
		if err != nil {
			return err
		}
		switch {
		case a == nil:
			return conflict(&e.t, "it has had no attempt")
		case a.EndedAt.IsZero() && !external(&e.t):
			return conflict(&e.t, "agentd is running it and will complete it")
		case a.EndedAt.IsZero():
			e.emitScoped(event.TypeTaskAttemptCompleted, e.attemptScope(a), &event.TaskAttemptCompleted{
				Status: state.AttemptCompleted, CompletionSummary: p.Summary, DurationMs: since(e.tx.Now(), a.StartedAt),
				OutputRefs: links(p.OutputRefs), CheckpointRefs: links(p.CheckpointRefs),
			})
			e.endAttempt(a.RunID, state.AttemptCompleted, nil)
		case a.Status != state.AttemptCompleted:
			return conflict(&e.t, "its last attempt is %s", a.Status)
		}
		e.observeDeliverables(p.Artifacts)
		return e.completeTask(done)
	}, func(e *edit, a *state.Attempt) {
		e.emitScoped(event.TypeTaskAttemptCompleted, e.attemptScope(a), &event.TaskAttemptCompleted{
			Status: state.AttemptCompleted, CompletionSummary: p.Summary, OutputRefs: links(p.OutputRefs), CheckpointRefs: links(p.CheckpointRefs), Late: true,
		})
	})
}

// observeDeliverables records deliverables that the task didn't have yet. A worker that reports
// them made them; the runtime saw a reference.
func (e *edit) observeDeliverables(links []event.ArtifactLink) {
	for _, l := range links {
		if slices.ContainsFunc(e.t.Artifacts, func(x event.ArtifactLink) bool { return x.ArtifactID == l.ArtifactID }) {
			continue
		}
		scope := e.scope(e.t.CurrentRunID)
		scope.ArtifactID = l.ArtifactID
		e.emitScoped(event.TypeArtifactChanged, scope, &event.ArtifactChanged{Change: "observed", Kind: "output", URI: l.URI, MediaType: l.MediaType})
	}
}

// completionFact is the fact of a task's end, if nothing is open.
func (w *Work) completionFact(e *edit, p *command.CompleteTask) (*event.TaskCompleted, error) {
	t := e.t
	t.Acceptance = slices.Clone(t.Acceptance)
	out := &event.TaskCompleted{Summary: p.Summary, Artifacts: p.Artifacts, EvidenceRefs: p.EvidenceRefs, DeliveryState: delivered(&t)}
	if p.DeliveryState != nil {
		out.DeliveryState = &p.DeliveryState.DeliveryState
	}
	for i, r := range p.Acceptance {
		j := slices.IndexFunc(t.Acceptance, func(c event.AcceptanceCriterion) bool { return c.ID == r.ID })
		if j < 0 {
			return nil, fault.Param(fmt.Sprintf("acceptance[%d].id", i), "task %s has no criterion %q", t.TaskID, r.ID)
		}
		c := &t.Acceptance[j]
		c.Status, c.Reason, c.By = r.Status, r.Reason, e.by
		c.EvidenceRefs = append(slices.Clone(c.EvidenceRefs), r.EvidenceRefs...)
		out.Acceptance = append(out.Acceptance, *c)
	}
	if open := openParts(e.tx.State, &t); len(open) > 0 {
		return nil, conflict(&e.t, "parts of it are not done: %v; end or cancel them first", open)
	}
	switch native, open := unreconciled(&t, out.DeliveryState); native {
	case byAcceptance:
		return nil, conflict(&e.t, "unmet acceptance criteria: %v; satisfy or waive each with a reason", open)
	case byDelivery:
		return nil, conflict(&e.t, "the delivery is %s; a task can only be completed once its result was delivered", open[0])
	}
	return out, nil
}

func (w *Work) failTask(ctx context.Context, caller command.Caller, p *command.FailTask) (*command.TaskResult, error) {
	f := *p.Error
	f.Category = orElse(f.Category, "failed")
	return w.reportAttempt(ctx, caller, p, p.TaskID, p.RunID, func(e *edit, a *state.Attempt) error {
		switch {
		case a == nil:
			return conflict(&e.t, "it has had no attempt")
		case a.EndedAt.IsZero() && !external(&e.t):
			return conflict(&e.t, "agentd is running it; use cancel_task to stop it")
		case a.EndedAt.IsZero():
			e.endFailed(a, &event.TaskAttemptFailed{Status: state.AttemptFailed, Error: &f, OutputRefs: links(p.OutputRefs), CheckpointRefs: links(p.CheckpointRefs)})
			return w.afterFailure(e, &f)
		}
		// The work is done, and who judges it says that it isn't good enough.
		f.Retryable = false
		return w.afterFailure(e, &f)
	}, func(e *edit, a *state.Attempt) {
		e.emitScoped(event.TypeTaskAttemptFailed, e.attemptScope(a), &event.TaskAttemptFailed{
			Status: state.AttemptFailed, FailureCategory: f.Category, Error: &f, Retryable: f.Retryable, Late: true,
			OutputRefs: links(p.OutputRefs), CheckpointRefs: links(p.CheckpointRefs),
		})
	})
}
