package work

import (
	"context"
	"iter"
	"slices"
	"strings"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

func (w *Work) getTask(ctx context.Context, caller command.Caller, p *command.GetTask) (*state.Task, error) {
	f, err := w.findVisibleTask(ctx, caller, p.TaskID)
	if err != nil {
		return nil, err
	}
	return f.task, nil
}

// ListTasksResult is a page of tasks, each as get_task returns it.
type ListTasksResult struct {
	// Tasks of this page.
	Tasks []*state.Task `json:"tasks"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

func (w *Work) listTasks(ctx context.Context, caller command.Caller, p *command.ListTasks) (*ListTasksResult, error) {
	res := &ListTasksResult{Tasks: []*state.Task{}}
	entries := w.m.AllTasks(ctx, p.Cursor)
	if p.ParentTaskID != "" {
		parent, err := w.findVisibleTask(ctx, caller, p.ParentTaskID)
		if err != nil {
			return nil, err
		}
		entries = w.m.TasksOf(ctx, parent.sessionID, p.Cursor)
	}
	if p.SessionID != "" {
		recent, err := w.turnTasks(ctx, caller, p.SessionID, p.Cursor)
		if err != nil {
			return nil, err
		}
		entries = merged(w.m.TasksOf(ctx, p.SessionID, p.Cursor), recent)
	}
	for entry, err := range entries {
		if err != nil {
			return nil, err
		}
		f, err := w.findVisibleTask(ctx, caller, entry.TaskID)
		if fault.KindOf(err) == fault.NotFound && err != nil {
			continue // another account's
		}
		if err != nil {
			return nil, err
		}
		if !isListed(f.task, p) {
			continue
		}
		if len(res.Tasks) == p.Size() {
			res.NextCursor = res.Tasks[len(res.Tasks)-1].TaskID
			break
		}
		res.Tasks = append(res.Tasks, f.task)
	}
	return res, nil
}

// isListed reports whether a task is one of those asked for. An archived one is
// only if it is asked for by that name.
func isListed(t *state.Task, p *command.ListTasks) bool {
	switch {
	case p.SessionID != "" && t.SessionID != p.SessionID, p.ParentTaskID != "" && t.ParentTaskID != p.ParentTaskID:
		return false
	case p.Status != "":
		return t.Status == p.Status
	}
	return t.Status != state.TaskArchived
}

// turnTasks returns the implicit tasks of the turns in a session's working set
// that come after a cursor.
func (w *Work) turnTasks(ctx context.Context, caller command.Caller, sessionID, after string) ([]session.TaskEntry, error) {
	var out []session.TaskEntry
	err := w.m.ViewAs(ctx, caller, sessionID, func(st *state.Session) error {
		for _, t := range slices.Concat(st.Tasks.Recent, st.Tasks.Open) {
			if t.TaskKind == state.TaskKindTurn && t.TaskID > after {
				out = append(out, session.TaskEntry{TaskID: t.TaskID, SessionID: sessionID})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b session.TaskEntry) int { return strings.Compare(a.TaskID, b.TaskID) })
	return out, err
}

// merged yields two ordered lists as one.
func merged(a iter.Seq2[session.TaskEntry, error], b []session.TaskEntry) iter.Seq2[session.TaskEntry, error] {
	return func(yield func(session.TaskEntry, error) bool) {
		for e, err := range a {
			for err == nil && len(b) > 0 && b[0].TaskID < e.TaskID {
				if !yield(b[0], nil) {
					return
				}
				b = b[1:]
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		for _, e := range b {
			if !yield(e, nil) {
				return
			}
		}
	}
}
