package evidence

import "agentd/event"

// comparedParty returns what is compared of a fact about another party. A hook that
// was cut off is left out: when somebody stops is no answer of the hook.
func comparedParty(e *event.Event) map[string]string {
	switch p := e.Payload.(type) {
	case *event.HookCompleted:
		return map[string]string{"point": p.Point, "hook": p.HandlerRef, "decision": p.Decision, "reason": p.Reason}
	case *event.HookFailed:
		if p.ErrorCategory != categoryLost {
			return map[string]string{"point": p.Point, "hook": p.HandlerRef, "category": p.ErrorCategory, "failure": p.FailureBehavior}
		}
	}
	return nil
}
