package state

import (
	"cmp"

	"agentd/event"
)

// Words for how well facts are joined to traces.
const (
	// Joined: every fact of a turn since the first trace carries one.
	Joined = "joined"
	// MissingCorrelation: some facts of turns carry a trace and some don't.
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

// Correlation counts the facts of turns with and without a trace. Those before
// the first trace don't count as missing one: nobody traced then.
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
	switch {
	case traced:
		c.Traced++
	case c.Traced > 0:
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
// than the caller and the loop add to the turn: an approval that somebody else gives, a
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

// apply notes the trace of any fact; t is the fact's thread or nil.
func (m *Telemetry) apply(e *event.Event, t *Thread) {
	traced := isKnown(e.TraceID)
	if isKnown(e.TurnID) {
		m.Correlation.countSpan(traced)
		if t != nil {
			t.Correlation.countSpan(traced)
		}
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
