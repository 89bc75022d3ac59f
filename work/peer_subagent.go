package work

import (
	"encoding/json"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// spawnsPeer gives a child to another agent, which gets only text.
func (w *Work) spawnsPeer(b *birth, peer string) error {
	if peer == "" {
		return nil
	}
	if err := w.checkPeer(peer); err != nil {
		return err
	}
	var list []command.Part
	if err := json.Unmarshal(b.input, &list); err != nil {
		return fault.Param("input", "can't be read")
	}
	var texts []string
	for i := range list {
		if list[i].Type != "text" {
			return fault.Param("input", "has a part of type %s; a peer only accepts text", list[i].Type)
		}
		texts = append(texts, list[i].Text)
	}
	b.peer, b.objective = peer, strings.Join(texts, "\n\n")
	return nil
}

// delegateChild emits the task that a child at a peer is, and begins it.
func (w *Work) delegateChild(tx *session.Tx, b *birth, spawned *event.SubagentSpawned) error {
	p := &event.TaskCreated{
		Title: orElse(b.nickname, b.role), TaskKind: "subagent", Visibility: "internal", Status: state.TaskAccepted,
		RequestedBy: b.by, WorkerKind: workerPeer, Peer: b.peer,
	}
	p.Objective, p.ObjectiveRef = objective(tx, b.objective, nil)
	scope := event.Scope{TaskID: spawned.PeerTaskID, SubagentID: b.id, ThreadID: spawned.ChildThreadID}
	tx.Emit(event.Event{Type: event.TypeTaskCreated, Scope: scope, Payload: p})
	e := &edit{tx: tx, by: b.by, t: taskOf(tx, scope, p)}
	e.t.SubagentID = b.id
	_, err := w.beginAttempt(e, false)
	return err
}

// peerChildConcerns reports whether facts of a type may change how a child at a peer
// stands.
func peerChildConcerns(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest says nothing of them
	case event.TypeTaskWaiting, event.TypeTaskBlocked, event.TypeTaskResumed, event.TypeTaskStarted:
		return true
	}
	return t.EndsTask()
}

// peerChildStanding decides how a child at a peer stands: as its task does.
func peerChildStanding(s *state.Session, a *state.Subagent) (childStanding, bool) {
	t := s.Tasks.Find(a.PeerTaskID)
	if t == nil || !a.EndedAt.IsZero() {
		return childStanding{}, false
	}
	var now childStanding
	switch t.Status {
	case state.TaskCompleted:
		now = childStanding{status: childCompleted, said: t.Summary}
	case state.TaskFailed, state.TaskLost, state.TaskTimedOut:
		now = childStanding{status: childFailed, reason: t.Status, failed: t.LastError}
	case state.TaskCancelled:
		now = childStanding{status: childInterrupted, reason: orElse(t.StatusReason, "interrupted")}
	case state.TaskBlocked:
		now = childStanding{status: childBlocked, reason: t.StatusReason}
	case state.TaskWaitingInput, state.TaskWaitingPermission, state.TaskWaitingResource:
		now = childStanding{status: childWaiting, reason: t.StatusReason}
	default:
		now = childStanding{status: childRunning}
	}
	return now, now.status != a.Status || now.reason != a.Reason && now.status != childRunning
}

// stopPeerChild has the task of a child at a peer stopped. What becomes of it there
// is followed like that of any task.
func stopPeerChild(tx *session.Tx, a *state.Subagent, by *event.Actor, reason string) {
	t := tx.State.Tasks.Find(a.PeerTaskID)
	if a.PeerTaskID == "" || t == nil || !acceptsCommand(t, "cancel_task") {
		return
	}
	// The machine has this step from every status that takes the command.
	_ = newEdit(tx, t, by).askToStop(reason, false)
}

// resumePeerChild lets a child go on whose peer was given up.
func resumePeerChild(tx *session.Tx, a *state.Subagent, by *event.Actor) error {
	t := tx.State.Tasks.Find(a.PeerTaskID)
	if t == nil {
		return nil
	}
	e := newEdit(tx, t, by)
	if !e.heldByPeer() {
		return nil
	}
	return e.becomeStatus(event.TypeTaskResumed, &event.TaskStatusChanged{Status: state.TaskRunning, StatusReason: "resume_subagent"})
}
