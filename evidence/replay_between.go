package evidence

import "agentd/event"

// A turn does one step after the other: it asks a model, runs the tools that an answer
// wants, ends. Where it was interrupted between two of them, a replay holds it before the
// one that it never did.

// steps follows which step a turn is at.
func (f *turnFacts) steps(e *event.Event) {
	f.begun = f.begun || f.due[e.ToolCallID]
	switch p := e.Payload.(type) {
	case *event.RoutingDecision:
		f.routed = f.running != "" && e.TurnID == f.running
	case *event.ModelRequested:
		f.retrying, f.limited, f.due = false, false, nil
		f.calls++
	case *event.ModelCompleted:
		f.due, f.begun = map[string]bool{}, p.Message == nil
		if p.Message == nil { // nobody knows which calls it has
			f.due[p.ModelRequestID] = true
			return
		}
		for _, c := range p.Message.ToolCalls {
			f.due[c.ToolCallID] = true
		}
	case *event.ToolResult, *event.ToolFailed:
		delete(f.due, e.ToolCallID)
	case *event.RateLimitHit:
		f.limited = f.limited || p.Source == "client"
	case *event.RunStatus:
		f.retrying = f.retrying || p.Phase == "retrying"
	}
}

// starts takes the start of a turn.
func (f *turnFacts) starts(turnID string) {
	f.running, f.entering, f.accepted = turnID, "", ""
	f.calls, f.routed, f.retrying, f.limited, f.due = 0, false, false, false, nil
	f.before, f.came, f.trail = nil, nil, nil
}

// between returns the next step of the turn of a thread, if that is one which a replay can
// hold it before. It asks a model, or ends: it has one to ask and has not, or waits before
// it asks again, or has all that its last answer wanted. Or it runs the tools that the
// answer wants. What hooks were asked in between is not told apart.
func (r *recording) between(f *turnFacts) string {
	switch {
	case len(f.open) > 0:
		return ""
	case f.retrying && f.limited, f.routed && f.calls == 0:
		return BeforeCall
	case f.calls == 0 || len(r.party.started) > 0:
		return ""
	case len(f.due) == 0:
		return BeforeCall
	case !f.begun:
		return BeforeTools
	}
	return ""
}

// agentHolds reports whether a replay can hold the turn of a subagent where it is, and
// notes where that is if the turn waits for nothing.
func (r *recording) agentHolds(f *turnFacts, turnID string) bool {
	h := CaseHold{TurnID: turnID}
	switch a := r.projected.agents[f.agent]; {
	case len(f.open) > 0:
		return true
	case f.running != turnID && a != nil && a.turns[turnID] == 0:
		h.Before = BeforeStart
	case f.running == turnID:
		h.Before, h.Calls = r.between(f), f.calls
	}
	if h.Before == "" {
		return false
	}
	r.parties().Held = append(r.parties().Held, h)
	return true
}
