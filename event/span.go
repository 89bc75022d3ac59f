package event

import "strconv"

// SpanKey returns the id of what a fact belongs to, most specific first: a hook run, a
// compaction, a model request, a process, an action, a tool call, an attempt, the turn, a
// job, a run, or the session. The span that stands for it is [SpanIDOf] of that id; that
// of a tool call which runs again has [ToolSpanKey].
func SpanKey(e *Event) string {
	if id := payloadSpanKey(e); id != "" {
		return id
	}
	for _, id := range [...]string{e.ModelRequestID, e.ProcessID, e.ToolCallID, e.TurnID, e.JobID, e.RunID} {
		if id != "" && id != NotApplicable {
			return id
		}
	}
	return e.SessionID
}

// payloadSpanKey is the key of a fact whose payload, not its envelope, says what it
// belongs to.
func payloadSpanKey(e *Event) string {
	switch p := any(e.Payload).(type) { // the generator compiles this before payloads are encodable
	case *HookStarted:
		return p.HookRunID
	case *HookCompleted:
		return p.HookRunID
	case *HookFailed:
		return p.HookRunID
	case *CompactionStarted:
		return p.CompactionID
	case *CompactionCompleted:
		return p.CompactionID
	case *CompactionFailed:
		return p.CompactionID
	case *ContextResolved, *ArtifactChanged, *EvidenceChanged:
		return e.ID // the fact is all that is known of it
	case *ActionRequired, *ActionResolved:
		return e.ActionID
	case *TaskAttemptStarted, *TaskAttemptCompleted, *TaskAttemptFailed:
		return e.RunID
	}
	return ""
}

// ToolSpanKey names the span of an attempt at a tool call; each is a span of its own.
func ToolSpanKey(toolCallID string, attempt int64) string {
	if attempt > 1 {
		return toolCallID + "/" + strconv.FormatInt(attempt, 10)
	}
	return toolCallID
}

// DerivedSpan reports whether the span of a fact was derived from its ids, and is not
// that of the caller who asked for it.
func DerivedSpan(e *Event) bool {
	return e.SpanID != "" && e.SpanID == SpanIDOf(e.SessionID, SpanKey(e))
}
