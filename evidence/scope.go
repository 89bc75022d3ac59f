package evidence

import (
	"context"
	"fmt"

	"agentd/event"
	"agentd/store"
)

// Scope says what is exported: a session, or a part of it. Several ids together
// narrow it to what carries all of them.
type Scope struct {
	SessionID string `json:"sessionId"`
	TaskID    string `json:"taskId,omitempty"`
	ThreadID  string `json:"threadId,omitempty"`
	TurnID    string `json:"turnId,omitempty"`

	// family are the tasks that belong to the task; without it only those are known
	// whose own facts name it.
	family *family
}

// family is a task and those below it.
type family struct{ ids map[string]bool }

func newFamily(taskID string) *family { return &family{map[string]bool{taskID: true}} }

// takes reports whether a fact is about one of the tasks. Only the first facts of a
// task name the one above it, so it is remembered: facts are shown in their order.
func (f *family) takes(e *event.Event) bool {
	if f.ids[e.TaskID] {
		return true
	}
	below := f.ids[e.ParentTaskID] || f.ids[e.RootTaskID]
	if below && e.TaskID != "" && e.TaskID != event.NotApplicable {
		f.ids[e.TaskID] = true
	}
	return below
}

// resolved is the scope with the tasks that belong to it.
func (s *Scope) resolved(ctx context.Context, facts Facts, before uint64) (Scope, error) {
	out := *s
	if s.TaskID == "" {
		return out, nil
	}
	base, err := Removed(ctx, facts, s.SessionID)
	if err != nil {
		return out, err
	}
	out.family = newFamily(s.TaskID)
	for rec, err := range facts.Read(ctx, s.SessionID, store.Range{After: base.Sequence, Before: before}) {
		if err != nil {
			return out, fmt.Errorf("evidence: read: %w", err)
		}
		e := event.Event{}
		if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
			return out, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		out.family.takes(&e)
	}
	return out, nil
}

// isWholeSession reports whether every fact of the session is in scope.
func (s *Scope) isWholeSession() bool { return s.ThreadID == "" && s.TurnID == "" && s.TaskID == "" }

// Has reports whether a fact is in scope.
func (s *Scope) Has(e *event.Event) bool { return s.has(e) }

// has reports whether a fact is in scope. A task includes those below it.
func (s *Scope) has(e *event.Event) bool {
	switch {
	case s.ThreadID != "" && e.ThreadID != s.ThreadID, s.TurnID != "" && e.TurnID != s.TurnID:
		return false
	case s.TaskID != "" && s.family != nil:
		return s.family.takes(e)
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
