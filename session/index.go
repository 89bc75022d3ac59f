package session

import (
	"encoding/json"
	"fmt"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Kinds of index entries. All but kindKey and kindRef are derived from facts:
// Verify computes them again and compares.
const (
	// kindOpen: session id → nothing, while the session has unfinished work.
	kindOpen = "open"
	// kindSession: creation time and session id → summary.
	kindSession = "session"
	// kindTurn: session and turn id → what was submitted, for idempotent repeats.
	kindTurn = "turn"
	// kindAction: action id → the action's record.
	kindAction = "action"
	// kindPending: action id → session id, while the action is pending.
	kindPending = "action_pending"
	// kindTask: task id → session id.
	kindTask = "task"
	// kindRef: blob reference and session id → media type: who may read the blob.
	kindRef = "ref"
	// kindKey: account and idempotency key → the first result.
	kindKey = "idempotency"
)

// accountSessions is the kind of the sessions of one account.
func accountSessions(account string) string { return kindSession + "@" + account }

func put(kind, key string, value []byte) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key, Value: value}}
}

func remove(kind, key string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key}, Delete: true}
}

func openEntry(sessionID string, open bool) store.IndexOp {
	if open {
		return put(kindOpen, sessionID, nil)
	}
	return remove(kindOpen, sessionID)
}

func refEntry(ref, sessionID, mediaType string) store.IndexOp {
	return put(kindRef, ref+"/"+sessionID, []byte(mediaType))
}

func turnKey(sessionID, turnID string) string { return sessionID + "/" + turnID }

// sessionKey orders sessions by creation.
func sessionKey(st *state.Session) string {
	return fmt.Sprintf("%016x/%s", st.CreatedAt.UnixMicro(), st.SessionID)
}

// indexFact appends the entries that follow from a fact, given the state after it.
func indexFact(ops []store.IndexOp, st *state.Session, e *event.Event) ([]store.IndexOp, error) {
	switch p := e.Payload.(type) {
	case *event.SessionCreated, *event.SessionUpdated, *event.ThreadStarted, *event.TurnCompleted, *event.TurnFailed:
		return indexSession(ops, st)
	case *event.TurnSubmitted:
		v, err := json.Marshal(submittedRecord(e, p))
		return append(ops, put(kindTurn, turnKey(e.SessionID, e.TurnID), v)), err
	case *event.TaskCreated:
		return append(ops, put(kindTask, e.TaskID, []byte(e.SessionID))), nil
	case *event.ActionRequired, *event.ActionResolved:
		return indexAction(ops, st, e.ActionID)
	}
	return ops, nil
}

func indexSession(ops []store.IndexOp, st *state.Session) ([]store.IndexOp, error) {
	v, err := json.Marshal(summary(st))
	if err != nil {
		return nil, fmt.Errorf("session: summary: %w", err)
	}
	ops = append(ops, put(kindSession, sessionKey(st), v))
	if st.Account != "" {
		ops = append(ops, put(accountSessions(st.Account), sessionKey(st), v))
	}
	return ops, nil
}

func summary(st *state.Session) command.SessionSummary {
	s := command.SessionSummary{
		SessionID: st.SessionID, Title: st.Title, Account: st.Account, Status: state.ThreadIdle,
		CreatedAt: st.CreatedAt, UpdatedAt: st.UpdatedAt,
	}
	if t := st.MainThread(); t != nil {
		s.ThreadID, s.Status = t.ThreadID, t.Status()
	}
	for _, t := range st.Threads {
		s.TurnCount += t.TurnCount
	}
	return s
}

func indexAction(ops []store.IndexOp, st *state.Session, actionID string) ([]store.IndexOp, error) {
	a := st.Actions.Find(actionID)
	if a == nil {
		return ops, nil
	}
	v, err := json.Marshal(actionRecord{Account: st.Account, Action: a})
	if err != nil {
		return nil, fmt.Errorf("session: action: %w", err)
	}
	ops = append(ops, put(kindAction, actionID, v))
	if a.Status == state.ActionPending {
		return append(ops, put(kindPending, actionID, []byte(st.SessionID))), nil
	}
	return append(ops, remove(kindPending, actionID)), nil
}

// actionRecord is an action as the index keeps it.
type actionRecord struct {
	Account string        `json:"account,omitempty"`
	Action  *state.Action `json:"action"`
}

// turnRecord is what the index keeps of a submitted turn: enough to answer the
// same submission again.
type turnRecord struct {
	ThreadID  string    `json:"threadId"`
	TaskID    string    `json:"taskId"`
	RunID     string    `json:"runId"`
	Status    string    `json:"status"`
	Position  int64     `json:"position,omitempty"`
	Sequence  uint64    `json:"sequence"`
	Submitted time.Time `json:"submittedAt"`
	// Digest of what the caller asked for.
	Digest string `json:"digest"`
}

func submittedRecord(e *event.Event, p *event.TurnSubmitted) turnRecord {
	return turnRecord{
		ThreadID: e.ThreadID, TaskID: e.TaskID, RunID: e.RunID, Status: p.Status, Position: p.Position,
		Sequence: e.Sequence, Submitted: e.Time, Digest: submissionDigest(p),
	}
}
