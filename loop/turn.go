package loop

import (
	"slices"
	"strings"

	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

func scopeOf(t *state.Thread, turn *state.Turn) event.Scope {
	return event.Scope{
		ThreadID: t.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID, SubagentID: t.SubagentID, TraceID: turn.TraceID,
		ParentTaskID: turn.ParentTaskID, JobID: turn.JobID,
	}
}

func modelScope(t *state.Thread, turn *state.Turn, c *state.ModelCall) event.Scope {
	s := scopeOf(t, turn)
	s.ModelRequestID, s.StepID = c.ModelRequestID, c.StepID
	return s
}

func toolScope(t *state.Thread, turn *state.Turn, c *state.ToolCall) event.Scope {
	s := scopeOf(t, turn)
	s.ToolCallID, s.StepID = c.ToolCallID, c.StepID
	if s.StepID == "" {
		s.StepID = event.NotApplicable
	}
	return s
}

// implicit reports whether the turn's task exists only for the turn and so ends with it.
func implicit(tx *session.Tx, turn *state.Turn) bool {
	task := tx.State.Tasks.Find(turn.TaskID)
	return task != nil && task.TaskKind == "turn"
}

// startTurn takes a turn into work and prepares it.
func (l *Loop) startTurn(k key, e StartTurn) error {
	if err := l.adoptRules(k, e.TurnID); err != nil {
		return err
	}
	if err := l.beforeTurn(k, e); err != nil {
		return err
	}
	p, err := l.gatherPreparation(k, e.TurnID)
	if err != nil {
		return err
	}
	return l.emitSoon(k, e, func(tx *session.Tx, t *state.Thread) error {
		turn := t.Turn(e.TurnID)
		scope := scopeOf(t, turn)
		if task := tx.State.Tasks.Find(turn.TaskID); task != nil {
			scope.ParentTaskID, scope.JobID = task.ParentTaskID, task.JobID
		}
		if t.Active == nil {
			tx.Emit(session.QueueStarted(t, turn.TurnID))
		}
		count, begun := attemptOf(tx.State, turn)
		if !begun {
			tx.Emit(event.Event{Type: event.TypeTaskAttemptStarted, Scope: ofAttempt(scope), Payload: &event.TaskAttemptStarted{
				Status: "running", AttemptCount: count, Reason: attemptReason(count), Worker: &event.Worker{Kind: "agent", ThreadID: t.ThreadID},
			}})
		}
		if implicit(tx, turn) {
			tx.Emit(event.Event{Type: event.TypeTaskStarted, Scope: scope, Payload: &event.TaskStatusChanged{Status: "running"}})
		}
		tx.Emit(event.Event{Type: event.TypeTurnStarted, Scope: scope, Payload: &event.TurnStarted{
			Status: state.TurnRunning, AttemptCount: count, QueueWaitMs: tx.Now().Sub(turn.SubmittedAt).Milliseconds(),
			ConfigurationRef: l.configurationRef(tx),
			Environment:      l.turnEnvironment(tx.State, t, turn), Policy: l.turnPolicy(tx.State, t, turn),
		}})
		l.emitBudget(tx, scope)
		l.emitPrepared(tx, t, turn, p, "")
		return nil
	})
}

// attemptOf is the ordinal of the turn's attempt at its task, and whether the
// attempt has begun: a scheduler that gives out a turn says so itself, and an
// attempt begins once.
func attemptOf(s *state.Session, turn *state.Turn) (count int64, begun bool) {
	task := s.Tasks.Find(turn.TaskID)
	if task == nil {
		return 1, false
	}
	for _, a := range task.Attempts {
		if a.RunID == turn.RunID {
			return max(1, a.AttemptCount), true
		}
		count = max(count, a.AttemptCount)
	}
	return count + 1, false
}

// attemptReason says why a submitted turn is an attempt at its task.
func attemptReason(count int64) string {
	if count > 1 {
		return "rerun"
	}
	return "first"
}

// ofAttempt is the scope of a fact about an attempt: an attempt is a run, and has
// its id.
func ofAttempt(s event.Scope) event.Scope {
	s.AttemptID = s.RunID
	return s
}

// afterAttempt says what follows an attempt that failed. No one tries the task of
// a turn again; of another one its scheduler decides.
func afterAttempt(implicit bool, status string) string {
	switch {
	case implicit:
		return "none: submit another turn"
	case status == state.TurnCancelled:
		return event.NextAttemptAsked
	}
	return event.NextAttemptByPolicy
}

// emitTurnCompleted ends a turn well. Answer is what the model said last, structured the
// same for a turn with an output schema.
func (l *Loop) emitTurnCompleted(tx *session.Tx, t *state.Thread, outcome, answer string, structured event.Raw) {
	turn := t.Active
	scope := scopeOf(t, turn)
	usage := turn.Usage
	said := l.outcomeOf(tx, turn, answer)
	emitAnswerArtifact(tx, t, outcome, answer, structured)
	tx.Emit(event.Event{Type: event.TypeTurnCompleted, Scope: scope, Payload: &event.TurnCompleted{
		Status: state.TurnCompleted, Outcome: outcome, Steps: turn.Step, DurationMs: elapsed(tx, turn), Usage: &usage, CostUSD: turn.CostUSD,
		Preview: said.preview, MessageRef: said.messageRef, StructuredOutput: structured, ConfigurationRef: l.configurationRef(tx),
	}})
	said.tellProgress(tx, scope, turn)
	tx.Emit(event.Event{Type: event.TypeTaskAttemptCompleted, Scope: ofAttempt(scope), Payload: &event.TaskAttemptCompleted{
		Status: "completed", DurationMs: attemptTook(tx, turn), CompletionSummary: said.preview, OutputRefs: said.outputs,
	}})
	if implicit(tx, turn) {
		tx.Emit(event.Event{Type: event.TypeTaskCompleted, Scope: scope, Payload: &event.TaskCompleted{
			Status: "completed", DeliveryState: &event.DeliveryState{Status: "delivered", Target: "thread"},
		}})
	}
}

func elapsed(tx *session.Tx, turn *state.Turn) int64 {
	if turn.StartedAt.IsZero() {
		return 0
	}
	return tx.Now().Sub(turn.StartedAt).Milliseconds()
}

// attemptTook is the time of the attempt that a turn is in: after a crash it began
// later than the turn.
func attemptTook(tx *session.Tx, turn *state.Turn) int64 {
	if task := tx.State.Tasks.Find(turn.TaskID); task != nil {
		for _, a := range slices.Backward(task.Attempts) {
			if a.RunID == turn.RunID && a.Reason == state.AttemptAfterCrash {
				return tx.Now().Sub(a.StartedAt).Milliseconds()
			}
		}
	}
	return elapsed(tx, turn)
}

// emitTurnFailed ends a turn that can't go on.
func (l *Loop) emitTurnFailed(tx *session.Tx, t *state.Thread, e FailTurn) {
	closeOpen(tx, t, e.Message, "timeout")
	why := &event.Failure{Message: e.Message, Category: e.Category}
	switch e.Category {
	case "quota_blocked":
		why.Advice = "raise budget.sessionCostUSD, or go on in another session"
		if strings.HasPrefix(e.Message, QuotaTask) {
			why.Advice = "raise the task's constraints.maxCostUSD with update_task, then use retry_task"
		}
	case "routing_not_possible":
		why.Advice = "see routing.not_possible for each model's reason"
	case "step_limit":
		why.Advice = "submit another turn to go on, or allow more model calls for a turn"
	case "timed_out":
		why.Advice, why.Retryable = "submit another turn to go on, or allow more time for a turn", true
		if i := t.Active.Interrupt; i != nil && i.Inactivity() {
			why.Advice = "raise retryPolicy.inactivityTimeoutMs if the work may be silent for longer"
		}
	}
	l.endTurn(tx, t, t.Active, state.TurnFailed, e.Category, why)
}

// cancelTurn ends an interrupted turn with all that it had open.
func (l *Loop) cancelTurn(tx *session.Tx, t *state.Thread, e CancelTurn) {
	reason := e.Reason
	if reason == "" {
		reason = "interrupted"
	}
	closeOpen(tx, t, reason, "interrupted")
	l.endTurn(tx, t, t.Active, state.TurnCancelled, "interrupted", &event.Failure{Message: reason, Category: "interrupted", Retryable: true})
}

// closeOpen records the end of what a turn that ends had open. Category is that
// of tool calls which were under way; calls that were only asked for are told as
// interrupted, so that none disappears without a word.
func closeOpen(tx *session.Tx, t *state.Thread, reason, category string) {
	turn := t.Active
	scope := scopeOf(t, turn)
	if c := turn.Call; c != nil && c.Status == state.CallRunning {
		tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: modelScope(t, turn, c), Payload: interruptedCall(c, reason)})
	}
	for _, id := range turn.Waiting {
		dropAction(tx, scope, id, reason)
	}
	for _, c := range turn.Tools {
		failed := &event.ToolFailed{ToolName: c.ToolName, ErrorCategory: category, Message: reason}
		switch c.Status {
		case state.ToolRunning:
		case state.ToolRequested:
			failed.ErrorCategory, failed.Message = tool.Interrupted, "the turn ended before the call was carried out: "+reason
		default:
			continue
		}
		emitCutOff(tx, t, c, failed)
	}
}

// dropAction resolves an action that nothing waits for any longer.
func dropAction(tx *session.Tx, scope event.Scope, id, reason string) {
	scope.ActionID = id
	a := tx.State.Actions.Find(id)
	if a != nil {
		scope.ToolCallID, scope.StepID = a.ToolCallID, a.StepID
	}
	tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: scope, Payload: &event.ActionResolved{
		Decision: "cancel", Status: "cancelled", DecisionSource: "runtime", Reason: reason,
	}})
	if a != nil && state.AsksPermission(a.ActionType) {
		tx.Emit(event.Event{Type: event.TypePermissionResolved, Scope: scope, Payload: &event.PermissionResolved{
			Decision: "cancel", DecisionSource: "default", DecisionReason: reason, ActionID: id, ToolName: a.ToolName,
		}})
	}
}

// endTurn emits the end of a turn that didn't succeed, of its attempt and of its
// implicit task.
func (l *Loop) endTurn(tx *session.Tx, t *state.Thread, turn *state.Turn, status, category string, why *event.Failure) {
	scope := scopeOf(t, turn)
	usage := turn.Usage
	if category == "internal" {
		tx.Emit(event.Event{Type: event.TypeRuntimeError, Scope: scope, Payload: &event.RuntimeNotice{
			Code: "turn_abandoned", Message: why.Message, Advice: "see the server's log; submit another turn to go on",
		}})
	}
	tx.Emit(event.Event{Type: event.TypeTurnFailed, Scope: scope, Payload: &event.TurnFailed{
		Status: status, Outcome: category, FailureCategory: category, Error: why,
		Steps: turn.Step, DurationMs: elapsed(tx, turn), Usage: &usage, CostUSD: turn.CostUSD, ConfigurationRef: l.configurationRef(tx),
	}})
	if turn.Status == state.TurnRunning {
		tx.Emit(event.Event{Type: event.TypeTaskAttemptFailed, Scope: ofAttempt(scope), Payload: &event.TaskAttemptFailed{
			Status: status, FailureCategory: category, Error: why, Retryable: why.Retryable, DurationMs: attemptTook(tx, turn),
			NextAttemptPolicy: afterAttempt(implicit(tx, turn), status),
		}})
	}
	if !implicit(tx, turn) {
		return
	}
	ended := event.Event{Type: event.TypeTaskFailed, Scope: scope, Payload: &event.TaskStatusChanged{Status: "failed", StatusReason: why.Message, Error: why}}
	switch {
	case status == state.TurnCancelled:
		ended.Type, ended.Payload = event.TypeTaskCancelled, &event.TaskStatusChanged{Status: "cancelled", StatusReason: why.Message}
	case category == "timed_out":
		ended.Type, ended.Payload = event.TypeTaskTimedOut, &event.TaskStatusChanged{Status: "timed_out", StatusReason: why.Message, Error: why}
	}
	tx.Emit(ended)
}

// prepareTurn prepares a turn that was started without.
func (l *Loop) prepareTurn(k key, e Prepare) error {
	p, err := l.gatherPreparation(k, e.TurnID)
	if err != nil {
		return err
	}
	return l.emitIfNext(k, e, func(tx *session.Tx, t *state.Thread) error {
		l.emitPrepared(tx, t, t.Active, p, l.configurationRef(tx))
		return nil
	})
}
