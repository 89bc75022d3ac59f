package session

import (
	"cmp"
	"slices"

	"agentd/event"
	"agentd/state"
)

// tellTurnTasks adds what the decision's facts mean for the tasks of the turns that
// they are about: a task whose turn waits for an answer, or can't continue, says
// so in a fact of its own, and so does one that goes on.
func (tx *Tx) tellTurnTasks() {
	var seen []string
	for i := range len(tx.facts) {
		e := &tx.facts[i]
		switch e.Type {
		case event.TypeActionRequired, event.TypeActionResolved, event.TypeThreadUpdated:
		default:
			continue
		}
		if t := tx.State.Thread(e.ThreadID); t != nil && t.Active != nil && !slices.Contains(seen, t.ThreadID) {
			seen = append(seen, t.ThreadID)
			tx.tellTurnTask(t)
		}
	}
}

func (tx *Tx) tellTurnTask(t *state.Thread) {
	turn := t.Active
	task := tx.State.TurnTask(turn)
	if task == nil || tx.speaksFor(turn) {
		return
	}
	waiting, asked, block := tx.waitsFor(t)
	status, reason := state.TurnTaskStatus(asked, block)
	if status == task.Status && slices.Equal(waiting, task.Blockers) {
		return
	}
	typ := event.TypeTaskWaiting
	switch status {
	case state.TaskRunning:
		typ = event.TypeTaskResumed
	case state.TaskBlocked:
		typ = event.TypeTaskBlocked
	}
	scope := turnScope(turn, t)
	scope.RunID = tx.runOf(turn)
	tx.Emit(event.Event{Type: typ, Scope: scope, Payload: &event.TaskStatusChanged{
		Status: status, StatusReason: reason, Blockers: waiting,
	}})
}

// runOf returns the run that a turn is in after the decision.
func (tx *Tx) runOf(turn *state.Turn) string {
	run := turn.RunID
	for i := range tx.facts {
		e := &tx.facts[i]
		if p, ok := e.Payload.(*event.TaskAttemptStarted); ok && state.GoesOnIn(turn, e, p) {
			run = e.RunID
		}
	}
	return run
}

// speaksFor reports whether the decision ends the turn, or says itself what becomes
// of its task.
func (tx *Tx) speaksFor(turn *state.Turn) bool {
	return slices.ContainsFunc(tx.facts, func(e event.Event) bool {
		switch e.Payload.(type) {
		case *event.TurnCompleted, *event.TurnFailed:
			return e.TurnID == turn.TurnID
		case *event.TaskStatusChanged, *event.TaskCompleted:
			return e.TaskID == turn.TaskID
		}
		return false
	})
}

// waitsFor returns what a thread's turn waits for after the decision: the pending
// actions, what the first of them asks for, and why the thread is blocked.
func (tx *Tx) waitsFor(t *state.Thread) (waiting []string, asked, block string) {
	waiting = slices.Clone(t.Active.Waiting)
	types := map[string]string{}
	if t.Block != nil {
		block = cmp.Or(t.Block.Reason, state.ThreadBlocked)
	}
	for i := range tx.facts {
		e := &tx.facts[i]
		if e.ThreadID != t.ThreadID {
			continue
		}
		switch p := e.Payload.(type) {
		case *event.ActionRequired:
			if e.TurnID == t.Active.TurnID {
				waiting, types[e.ActionID] = append(waiting, e.ActionID), p.ActionType
			}
		case *event.ActionResolved:
			waiting = slices.DeleteFunc(waiting, func(id string) bool { return id == e.ActionID })
		case *event.ThreadUpdated:
			switch p.Status {
			case "blocked":
				block = cmp.Or(p.Reason, state.ThreadBlocked)
			case "resumed", "open":
				block = ""
			}
		}
	}
	if len(waiting) == 0 {
		return nil, "", block
	}
	if asked = types[waiting[0]]; asked == "" {
		asked = "tool_permission"
		if a := tx.State.Actions.Find(waiting[0]); a != nil {
			asked = a.ActionType
		}
	}
	return waiting, asked, block
}
