package evidence

import (
	"agentd/event"
)

// Scope says what is exported: a session, or a part of it. Several ids together
// narrow it to what carries all of them.
type Scope struct {
	SessionID string `json:"sessionId"`
	TaskID    string `json:"taskId,omitempty"`
	ThreadID  string `json:"threadId,omitempty"`
	TurnID    string `json:"turnId,omitempty"`
}

// whole reports whether every fact of the session is in scope.
func (s *Scope) whole() bool { return s.ThreadID == "" && s.TurnID == "" && s.TaskID == "" }

// has reports whether a fact is in scope. A task takes its children in: their
// facts name it as parent or root.
func (s *Scope) has(e *event.Event) bool {
	switch {
	case s.ThreadID != "" && e.ThreadID != s.ThreadID, s.TurnID != "" && e.TurnID != s.TurnID:
		return false
	case s.TaskID != "" && e.TaskID != s.TaskID && e.ParentTaskID != s.TaskID && e.RootTaskID != s.TaskID:
		return false
	}
	return true
}

// isExport reports whether a fact is the record of an export. Such facts at the
// end of a scope are left out, so that exporting twice gives the same twice.
func isExport(e *event.Event) bool {
	p, ok := e.Payload.(*event.EvidenceChanged)
	return ok && (p.Kind == "evidence" || p.Kind == "replay" || p.Kind == "review" || p.Kind == "benchmark_trial")
}
