package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// Recover takes up the sessions that had unfinished work when the process
// stopped: what was in flight becomes facts, then Next decides as always. A
// session that can't be recovered is reported and doesn't hold up the others.
func (l *Loop) Recover(ctx context.Context, ids []string) error {
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.recover(ctx, id); err != nil {
			l.opt.Logger.Error("session could not be recovered", "sessionId", id, "error", err)
			errs = append(errs, fmt.Errorf("session %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// TakeUp does for one session what [Loop.Recover] does for all. A session without
// unfinished work stays as it is.
func (l *Loop) TakeUp(ctx context.Context, sessionID string) error {
	return l.recover(ctx, sessionID)
}

func (l *Loop) recover(ctx context.Context, sessionID string) error {
	fates := l.reapProcesses(ctx, sessionID)
	outputs, err := l.capturedOutputs(ctx, sessionID, fates)
	if err != nil {
		return err
	}
	var threads []string
	err = l.m.Emit(ctx, sessionID, event.ByLoop, func(tx *session.Tx) error {
		threads = threads[:0]
		l.unstrand(tx)
		recovered := l.recoverProcesses(tx, fates, outputs)
		missing := unreachable(fates)
		for _, t := range tx.State.Threads {
			if t.Active == nil && len(t.Queue) == 0 && (t.Context == nil || t.Context.Running == nil) {
				continue
			}
			threads = append(threads, t.ThreadID)
			missing = append(missing, l.unknownOutcomes(t)...)
			recovered = append(recovered, l.recoverThread(tx, t)...)
			if l.opt.Recovery == "manual" && t.Block == nil {
				tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
					Status: "blocked", Code: "recovery_manual", Reason: "the runtime was restarted and recovery is manual; use resume_thread",
				}})
			}
		}
		if len(recovered) > 0 {
			tx.Emit(event.Event{Type: event.TypeHistoryReconstructed, Payload: &event.HistoryReconstructed{
				ReplayedEvents: int64(tx.State.Sequence), Reason: "the runtime was restarted", Recovered: recovered,
				Degraded: len(missing) > 0, Missing: missing,
			}})
			emitStanding(tx, len(missing) > 0)
		}
		return nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := l.recoverRollbacks(ctx, sessionID); err != nil {
		return err
	}
	for _, id := range threads {
		l.wakeThread(key{sessionID, id}, nil)
	}
	return nil
}

// leftAlone reports whether a thread waits for something that no goroutine runs. A caller that
// runs a thread has its calls made by itself, so such a call is that of a node that
// died, and whose session this one has taken over.
func (l *Loop) leftAlone(s *state.Session, threadID string) bool {
	t := s.Thread(threadID)
	if t == nil || t.Block != nil {
		return false
	}
	if c := t.Context; c != nil && c.Running != nil && !l.isOurs(c.Running.CompactionID) {
		return true
	}
	if t.Active == nil {
		return false
	}
	if c := t.Active.Call; c != nil && c.Status == state.CallRunning && !l.isOurs(c.ModelRequestID) {
		return true
	}
	return slices.ContainsFunc(t.Active.Tools, l.lostTool)
}

// lostTool reports whether a call is recorded as running but no goroutine runs it.
func (l *Loop) lostTool(c *state.ToolCall) bool {
	return c.Status == state.ToolRunning && c.ActionID == "" && !l.isOurs(c.ToolCallID) && !l.spawnsChild(c)
}

// recoverThread records the end of what was in flight. A turn that lost something
// goes on in another run.
func (l *Loop) recoverThread(tx *session.Tx, t *state.Thread) []string {
	out := l.recoverCompaction(tx, t)
	if t.Active == nil {
		return out
	}
	cut := len(out) > 0 && t.Context.Running.TurnID == t.Active.TurnID
	lost := l.recoverCall(tx, t)
	lost = append(lost, l.recoverHooks(tx, t)...)
	lost = append(lost, l.recoverTools(tx, t)...)
	if cut || len(lost) > 0 {
		recoverRun(tx, t)
	}
	return append(out, lost...)
}

// recoverCall ends a model call that no goroutine makes any longer: it is safe to ask again.
func (l *Loop) recoverCall(tx *session.Tx, t *state.Thread) []string {
	c := t.Active.Call
	if c == nil || c.Status != state.CallRunning || l.isOurs(c.ModelRequestID) {
		return nil
	}
	scope := modelScope(t, t.Active, c)
	tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: scope, Payload: interruptedCall(c, "the runtime stopped during the call")})
	return []string{"model call " + c.ModelRequestID + " of turn " + t.Active.TurnID + " was interrupted and is asked again"}
}

func (l *Loop) recoverCompaction(tx *session.Tx, t *state.Thread) []string {
	if t.Context == nil || t.Context.Running == nil || l.isOurs(t.Context.Running.CompactionID) {
		return nil
	}
	r := t.Context.Running
	scope := compactionScope(t, r.TurnID)
	if r.ModelRequestID != "" {
		asked := scope
		asked.ModelRequestID, asked.StepID = r.ModelRequestID, r.StepID
		tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: asked, Payload: &event.ModelFailed{
			ModelRequestID: r.ModelRequestID, ErrorCategory: model.Interrupted, Message: "the runtime stopped during the call", Retryable: true,
		}})
	}
	tx.Emit(event.Event{Type: event.TypeContextCompactionFailed, Scope: scope, Payload: &event.CompactionFailed{
		CompactionID: r.CompactionID, Trigger: r.Trigger, Attempt: r.Attempt,
		Error: event.Failure{Message: "the runtime stopped during the compaction", Category: "interrupted", Retryable: true},
	}})
	return []string{"compaction " + r.CompactionID + " was interrupted; the thread is as it was"}
}

// recoverHooks ends hooks whose answer nothing waits for; the step that
// they belong to is decided anew.
func (l *Loop) recoverHooks(tx *session.Tx, t *state.Thread) []string {
	var out []string
	for _, h := range tx.State.Permission.Hooks {
		if h.ThreadID != t.ThreadID || l.isOurs(h.HookRunID) {
			continue
		}
		scope := scopeOf(t, t.Active)
		scope.ToolCallID = h.ToolCallID
		if c := findCall(t.Active, h.ToolCallID); c != nil {
			scope.StepID = c.StepID
		}
		tx.Emit(event.Event{Type: event.TypeHookFailed, Scope: scope, Payload: &event.HookFailed{
			HookRunID: h.HookRunID, Point: h.Point, HandlerRef: h.HandlerRef, ErrorCategory: "lost",
			Message: "the runtime stopped while the hook ran", Retryable: true, FailureBehavior: "closed",
		}})
		out = append(out, "hook "+h.HandlerRef+" was interrupted and runs again")
	}
	return out
}

// recoverTools ends tool calls whose outcome is not known. One that only reads, by what its
// tool is or by the boundary that it got, is run again; any other might have happened, so the thread waits for a person.
func (l *Loop) recoverTools(tx *session.Tx, t *state.Thread) []string {
	var out []string
	for _, c := range t.Active.Tools {
		if !l.lostTool(c) {
			continue
		}
		failed := &event.ToolFailed{
			ToolName: c.ToolName, ErrorCategory: tool.Lost, Message: "the runtime stopped while the call was under way", Retryable: c.CanRepeat(), Links: c.LinksOf(),
		}
		what := fmt.Sprintf("%s call %s was lost", c.ToolName, c.ToolCallID)
		again := l.opt.Policy.runsAgain(c)
		switch {
		case again:
			what += "; it only reads and is run again"
		case c.CanRepeat():
			what += fmt.Sprintf("; it only reads, but was lost %d times", c.Attempts)
		default:
			failed.Message += "; whether it happened is not known"
			failed.Advice = "Check what is there before you do it again."
			what += "; whether it happened is not known"
		}
		out = append(out, what)
		if again {
			tx.Emit(lostCall(toolScope(t, t.Active, c), c, failed.Message))
			continue
		}
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: toolScope(t, t.Active, c), Payload: failed})
		if !c.CanRepeat() && t.Block == nil && t.Active.Interrupt == nil {
			tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
				Status: "blocked", Code: "tool_lost", Reason: what + "; check, then use resume_thread: the model will learn that the call was lost",
			}})
		}
	}
	return out
}

// lostCall is the fact that a call was lost which can be run again.
func lostCall(scope event.Scope, c *state.ToolCall, message string) event.Event {
	return event.Event{Type: event.TypeToolProgress, Scope: scope, Payload: &event.ToolProgress{
		ToolName: c.ToolName, Phase: event.PhaseLost, Message: message, AttemptCount: c.Attempts, Links: c.LinksOf(),
	}}
}
