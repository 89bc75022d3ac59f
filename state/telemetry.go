package state

import (
	"cmp"

	"agentd/event"
)

// Words for how well facts are joined to traces.
const (
	// Joined: every fact carries a trace.
	Joined = "joined"
	// MissingCorrelation: some facts carry a trace and some don't.
	MissingCorrelation = "missing_correlation"
)

// Telemetry says which traces the session's facts belong to.
type Telemetry struct {
	// Traces holds the traces that were seen last, the newest last.
	Traces []Trace `json:"traces,omitempty"`
	// TraceCount counts changes from one trace to another that isn't listed; a
	// trace that had been forgotten and comes back counts again.
	TraceCount  int64       `json:"traceCount,omitempty"`
	Correlation Correlation `json:"correlation,omitzero"`
}

// Trace is a trace that facts belong to.
type Trace struct {
	TraceID       string `json:"traceId"`
	ThreadID      string `json:"threadId,omitempty"`
	TurnID        string `json:"turnId,omitempty"`
	LastSpanID    string `json:"lastSpanId,omitempty"`
	FirstSequence uint64 `json:"firstSequence"`
	LastSequence  uint64 `json:"lastSequence"`
}

// Correlation counts the facts with and without a trace: all of them, as evidence does,
// so that both tell the same of a session.
type Correlation struct {
	Traced   int64 `json:"traced,omitempty"`
	Untraced int64 `json:"untraced,omitempty"`
}

// Status returns [Joined], [MissingCorrelation] or, when no fact was ever traced,
// [Unavailable]. Facts are joined by id alone, never by nearness in time.
func (c *Correlation) Status() string {
	switch {
	case c.Traced == 0:
		return Unavailable
	case c.Untraced > 0:
		return MissingCorrelation
	}
	return Joined
}

func (c *Correlation) countSpan(traced bool) {
	if traced {
		c.Traced++
	} else {
		c.Untraced++
	}
}

// inheritTrace joins a child's thread to the trace of the turn that it works for.
func (f *fold) inheritTrace(t *Thread) {
	t.RootTurnID = t.ParentTurnID
	parent := f.s.Thread(t.ParentThreadID)
	if parent == nil {
		return
	}
	t.RootTurnID = cmp.Or(parent.RootTurnID, t.ParentTurnID)
	if turn := parent.Turn(t.ParentTurnID); turn != nil {
		t.TraceID, t.TraceState = turn.TraceID, turn.TraceState
	}
}

// Trace returns the trace that a turn of the thread belongs to: its caller's, or
// the one that follows from the turn at the root of the work.
func (t *Thread) Trace(sessionID string, turn *Turn) event.Trace {
	if turn.TraceID != "" {
		return event.Trace{TraceID: turn.TraceID, State: turn.TraceState}
	}
	return event.Trace{TraceID: event.TraceIDOf(sessionID, cmp.Or(t.RootTurnID, turn.TurnID))}
}

// TraceOf returns the trace that the caller of a fact's turn sent, for facts that others
// than the caller and the loop add to the turn: an approval that another caller gives, a
// subagent, a recovery. It is empty if the caller sent none.
func (s *Session) TraceOf(e *event.Event) string {
	if s.Telemetry.TraceCount == 0 || !isKnown(e.TurnID) {
		return ""
	}
	t := s.Thread(e.ThreadID)
	if t == nil {
		return ""
	}
	if turn := t.Known(e.TurnID); turn != nil { // also after its end, as with an export
		return turn.TraceID
	}
	return t.TraceID // a subagent's thread belongs to one trace
}

// DerivedTrace returns the trace and the span that telemetry shows a fact in: they follow
// from its ids alone (see [event.TraceIDOf] and [event.SpanKey]). With is the fact of the
// same decision that belongs to a turn, or nil: what is decided for a turn is in its trace.
func (s *Session) DerivedTrace(e, with *event.Event) (traceID, spanID string) {
	key := event.SpanKey(e)
	if key == e.ToolCallID {
		key = event.ToolSpanKey(key, s.toolSpan(e))
	}
	spanID = event.SpanIDOf(s.SessionID, key)
	switch of := cmp.Or(turnOf(e), turnOf(with)); {
	case of != nil:
		return s.turnTrace(of), spanID
	case isKnown(e.JobID):
		return event.TraceIDOf(s.SessionID, e.JobID), spanID
	case isKnown(e.RunID):
		return event.TraceIDOf(s.SessionID, e.RunID), spanID
	}
	return event.TraceIDOf(s.SessionID, s.SessionID), spanID
}

// turnOf returns a fact that belongs to a turn, or nil.
func turnOf(e *event.Event) *event.Event {
	if e == nil || !isKnown(e.TurnID) {
		return nil
	}
	return e
}

// turnTrace is the trace of a fact's turn, which may be about to be submitted.
func (s *Session) turnTrace(e *event.Event) string {
	t := s.Thread(e.ThreadID)
	if t == nil {
		return event.TraceIDOf(s.SessionID, e.TurnID)
	}
	turn := t.Known(e.TurnID)
	if turn == nil {
		turn = &Turn{TurnID: e.TurnID, TraceID: t.TraceID}
	}
	return t.Trace(s.SessionID, turn).TraceID
}

// toolSpan is the number of the span that a fact of a tool call belongs to.
func (s *Session) toolSpan(e *event.Event) int64 {
	t := s.Thread(e.ThreadID)
	if t == nil || t.Active == nil {
		return 1
	}
	for _, c := range t.Active.Tools {
		if c.ToolCallID == e.ToolCallID {
			return c.SpanNumber()
		}
	}
	return 1
}

// SpanNumber is the number of the call's span: a new one begins when the call was lost.
func (c *ToolCall) SpanNumber() int64 { return c.Lost + 1 }

// apply notes the trace of any fact; t is the fact's thread or nil.
func (m *Telemetry) apply(e *event.Event, t *Thread) {
	traced := isKnown(e.TraceID)
	m.Correlation.countSpan(traced)
	if t != nil {
		t.Correlation.countSpan(traced)
	}
	if !traced {
		return
	}
	for i := len(m.Traces) - 1; i >= 0; i-- {
		if tr := &m.Traces[i]; tr.TraceID == e.TraceID {
			tr.LastSequence = e.Sequence
			setIf(&tr.LastSpanID, e.SpanID)
			return
		}
	}
	m.TraceCount++
	m.Traces = recent(m.Traces, Trace{
		TraceID: e.TraceID, ThreadID: e.ThreadID, TurnID: e.TurnID, LastSpanID: e.SpanID,
		FirstSequence: e.Sequence, LastSequence: e.Sequence,
	}, keepRecent)
}
