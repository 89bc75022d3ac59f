package loop

import (
	"agentd/event"
	"agentd/model"
	"agentd/process"
	"agentd/session"
	"agentd/state"
)

// emitRunStatus says, for people, what a turn does now.
func emitRunStatus(tx *session.Tx, scope event.Scope, phase, title, detail string) {
	tx.Emit(event.Event{Type: event.TypeRunStatus, Scope: scope, Payload: &event.RunStatus{Phase: phase, Title: title, Detail: detail}})
}

// emitBudget says what the session may cost, if its facts say something else or nothing.
func (l *Loop) emitBudget(tx *session.Tx, scope event.Scope) {
	limit := l.opt.Budget.SessionCostUSD
	told := tx.State.Routing.LimitOf("budget", model.QuotaBudget)
	changed := &event.LimitChanged{Kind: "budget", Name: model.QuotaBudget, Unit: "USD", Reason: "the runtime's configuration sets it"}
	switch {
	case limit > 0 && (told == nil || *told != limit):
		changed.Limit = &limit
	case limit <= 0 && told != nil:
		changed.Reason = "the runtime's configuration has none"
	default:
		return
	}
	tx.Emit(event.Event{Type: event.TypeLimitChanged, Scope: scope, Payload: changed})
}

// unknownOutcomes names the calls of a thread of which it isn't known whether they happened.
func (l *Loop) unknownOutcomes(t *state.Thread) []string {
	if t.Active == nil {
		return nil
	}
	var out []string
	for _, c := range t.Active.Tools {
		if l.lostTool(c) && !c.CanRepeat() {
			out = append(out, "the outcome of "+c.ToolName+" call "+c.ToolCallID)
		}
	}
	return out
}

// unreachable names the processes that may still run.
func unreachable(fates []process.Fate) []string {
	var out []string
	for _, f := range fates {
		if f.State == process.Unreachable {
			out = append(out, "the end of process "+f.Entry.ProcessID)
		}
	}
	return out
}

// emitStanding says that a session is degraded, because a recovery was partial, or that
// it is whole again: a person looked at what was lost, or nothing was lost this time.
func emitStanding(tx *session.Tx, degraded bool) {
	const whole, partial = "open", "degraded"
	p := &event.SessionUpdated{Status: whole, Reason: "nothing that was lost stands in the way any more"}
	if degraded {
		p.Status, p.Reason = partial, "the runtime was restarted and doesn't know the outcome of everything that was under way"
	}
	if degraded == (tx.State.Status == partial) {
		return
	}
	tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: p})
}
