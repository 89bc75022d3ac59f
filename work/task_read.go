package work

import (
	"context"
	"slices"

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
	// Total counts the tasks that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

func (w *Work) listTasks(ctx context.Context, caller command.Caller, p *command.ListTasks) (*ListTasksResult, error) {
	q := &session.CardQuery{
		Kind: session.TaskCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Type: p.Type, Parent: p.ParentTaskID, Sort: p.Sort,
		Beside: turnTaskCards,
	}
	if p.ParentTaskID != "" {
		if _, err := w.findVisibleTask(ctx, caller, p.ParentTaskID); err != nil {
			return nil, err
		}
	}
	if p.Status == "" { // an archived one is listed only if it is asked for by that name
		q.Keeps = func(c *session.Card) bool { return c.Status != state.TaskArchived }
	}
	page, err := w.m.ListCards(ctx, caller, q)
	if err != nil {
		return nil, err
	}
	res := &ListTasksResult{Tasks: []*state.Task{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		f, err := w.findVisibleTask(ctx, caller, c.ID)
		if fault.KindOf(err) == fault.NotFound && err != nil {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		res.Tasks = append(res.Tasks, f.task)
	}
	return res, nil
}

// turnTaskCards returns cards of the implicit tasks of the turns in a session's working
// set. They are not in the index: every turn has one.
func turnTaskCards(st *state.Session) []*session.Card {
	var out []*session.Card
	for _, t := range slices.Concat(st.Tasks.Recent, st.Tasks.Open) {
		if t.TaskKind == state.TaskKindTurn {
			out = append(out, session.TaskCard(st, t))
		}
	}
	return out
}
