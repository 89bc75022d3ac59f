package session

import "agentd/event"

// traceFact writes the trace of a fact into it: the caller's, that of the turn's caller
// or, where telemetry is on, the one that telemetry derives. DecidedFor is the fact of the
// same decision that belongs to a turn, or nil.
func (w *writer) traceFact(e, decidedFor *event.Event) {
	if e.TraceID == "" {
		e.TraceID = w.state.TraceOf(e)
	}
	if !w.m.opt.TraceFacts {
		return
	}
	traceID, spanID := w.state.DerivedTrace(e, decidedFor)
	if e.TraceID == "" {
		e.TraceID = traceID
	}
	if e.SpanID == "" {
		e.SpanID = spanID
	}
}

// turnFact returns the first fact that belongs to a turn, or nil.
func turnFact(facts []event.Event) *event.Event {
	for i := range facts {
		if id := facts[i].TurnID; id != "" && id != event.NotApplicable {
			return &facts[i]
		}
	}
	return nil
}
