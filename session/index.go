package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Kinds of index entries. All but kindKey, kindClaim, kindRef, kindOutput,
// kindOutputAt, kindDoomed, kindFork, kindCursor, kindUsage, kindUsageShare and kindProjectRule are derived from facts: Verify computes them again
// and compares.
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
	// kindTaskOf: session and task id → nothing. The first releases wrote it; cards took
	// its place.
	kindTaskOf = "task_of"
	// kindClaim: a noun and an id that a caller chose → what was asked under it.
	kindClaim = "claim"
	// kindProcess: process id → session id.
	kindProcess = "process"
	// kindRef: blob reference and session id → media type: who may read the blob.
	kindRef = "ref"
	// kindOutput: reference and session id → when the output was stored last.
	kindOutput = "output"
	// kindOutputAt: time, reference and session id → what the output belongs to.
	kindOutputAt = "output_at"
	// kindKept: reference and session id → nothing: a fact refers to the content.
	kindKept = "ref_kept"
	// kindExpired: reference and session id → the day on which the output expired.
	kindExpired = "ref_expired"
	// kindDoomed: reference and session id → nothing, until the content of an
	// output that expired was deleted, or was found to be needed by others.
	kindDoomed = "ref_doomed"
	// kindFork: session id and the id of a fork → nothing, in a store that several nodes
	// share; see forkguard.go.
	kindFork = "fork"
	// kindMark: session id and sequence → the state there, compressed; see mark.go.
	kindMark = "mark"
	// kindKey: account and idempotency key → the first result.
	kindKey = "idempotency"
)

// accountSessions is the kind of the sessions of one account.
func accountSessions(account string) string { return kindSession + "@" + account }

// isSessions reports whether a kind lists sessions: all, or those of an account.
func isSessions(kind string) bool {
	return kind == kindSession || strings.HasPrefix(kind, kindSession+"@")
}

func putOp(kind, key string, value []byte) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key, Value: value}}
}

// freshOp puts an entry whose key has an id that was made up for it.
func freshOp(kind, key string, value []byte) store.IndexOp {
	op := putOp(kind, key, value)
	op.Fresh = true
	return op
}

func removeOp(kind, key string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key}, Delete: true}
}

// markFirst says that a session's first batch puts entries about the session that aren't there.
func markFirst(ops []store.IndexOp) {
	for i := range ops {
		ops[i].Fresh = ops[i].Fresh || isSessions(ops[i].Kind) || ops[i].Kind == kindPlace
	}
}

func openEntry(sessionID string, open bool) store.IndexOp {
	if open {
		return freshOp(kindOpen, sessionID, nil) // the one that was there went with the last work
	}
	return removeOp(kindOpen, sessionID)
}

func refEntry(ref, sessionID, mediaType string) store.IndexOp {
	return putOp(kindRef, ref+"/"+sessionID, []byte(mediaType))
}

func turnKey(sessionID, turnID string) string { return sessionID + "/" + turnID }

// sessionKey orders sessions by creation.
func sessionKey(st *state.Session) string {
	return timeKey(st.CreatedAt) + "/" + st.SessionID
}

// timeKey orders keys by time. The zero time comes first.
func timeKey(t time.Time) string { return command.TimeKey(t) }

// changesSummary reports whether a fact has its session's summary written again.
func changesSummary(p event.Payload) bool {
	switch p.(type) {
	case *event.SessionCreated, *event.SessionUpdated, *event.ThreadStarted, *event.TurnSubmitted, *event.TurnStarted,
		*event.TurnCompleted, *event.TurnFailed, *event.ActionRequired, *event.ActionResolved:
		return true
	}
	return false
}

// lastSummary returns the place of the last fact that changes the summary: what
// those before it would write, it replaces. Without one it returns -1.
func lastSummary(facts []event.Event) int {
	last := len(facts) - 1
	for last >= 0 && !changesSummary(facts[last].Payload) {
		last--
	}
	return last
}

// indexFact appends the entries that follow from a fact, given the state after it:
// the session's summary only if that is asked for.
func indexFact(ops []store.IndexOp, st *state.Session, e *event.Event, summed bool) ([]store.IndexOp, error) {
	if summed {
		ops = indexSession(ops, st)
	}
	ops = indexCards(ops, st, e)
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		r := submittedRecord(e, p)
		return append(ops, freshOp(kindTurn, turnKey(e.SessionID, e.TurnID), appendTurn(make([]byte, 0, recordSize), &r))), nil
	case *event.TurnSteered:
		if p.SubmittedTurnID == "" {
			return ops, nil
		}
		r := steeredRecord(e, p)
		return append(ops, freshOp(kindTurn, turnKey(e.SessionID, p.SubmittedTurnID), appendTurn(make([]byte, 0, recordSize), &r))), nil
	case *event.SessionCreated:
		return indexPlace(ops, st, p.Place)
	case *event.SessionUpdated:
		if slices.Contains(p.Cleared, state.ClearedPlace) {
			ops = append(ops, removeOp(kindPlace, e.SessionID))
		}
		return indexPlace(ops, st, p.Place)
	case *event.RuntimeChanged:
		return indexQuotas(ops, p)
	case *event.SessionDeleted:
		if p.DeletedSessionID == e.SessionID {
			ops = append(ops, putOp(kindDeleted, e.SessionID, nil))
		}
		return ops, nil
	case *event.TaskCreated:
		return append(ops, freshOp(kindTask, e.TaskID, []byte(e.SessionID))), nil
	case *event.ProcessStarted:
		return append(ops, freshOp(kindProcess, e.ProcessID, []byte(e.SessionID))), nil
	case *event.SubagentSpawned:
		return indexIdentity(ops, KindSubagent, e.SubagentID, e), nil
	case *event.JobCreated:
		return indexIdentity(ops, KindJob, e.JobID, e), nil
	case *event.ScheduleCreated:
		return indexIdentity(ops, KindSchedule, p.ScheduleID, e), nil
	case *event.BenchmarkTrialStarted:
		return indexIdentity(ops, KindTrial, e.Benchmark.TrialID, e), nil
	case *event.ActionRequired, *event.ActionResolved:
		return indexAction(ops, st, e.ActionID)
	case *event.ChannelConnected, *event.ChannelResumed, *event.ChannelDisconnected:
		return indexChannel(ops, e)
	case *event.OutputExpired:
		return append(ops, putOp(kindExpired, p.OutputRef+"/"+e.SessionID, []byte(e.Time.Format(time.DateOnly)))), nil
	}
	return ops, nil
}

// recordSize is what a summary or a turn's record takes at most, mostly.
const recordSize = 448

func indexSession(ops []store.IndexOp, st *state.Session) []store.IndexOp {
	s := sessionSummary(st)
	v := appendSummary(make([]byte, 0, recordSize), &s)
	ops = append(ops, putOp(kindSession, sessionKey(st), v))
	if st.Account != "" {
		ops = append(ops, putOp(accountSessions(st.Account), sessionKey(st), v))
	}
	return ops
}

func sessionSummary(st *state.Session) command.SessionSummary {
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
	s.Workspace = st.WorkspaceRoot()
	s.CostUSD, s.InputTokens, s.OutputTokens = st.Routing.Cost.TotalUSD, st.Routing.Usage.InputTokens, st.Routing.Usage.OutputTokens
	s.PendingActions = int64(len(st.Actions.Pending))
	s.Tags, s.Pinned, s.Archived = st.Tags, st.Pinned, st.Status == state.SessionArchived
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
	ops = append(ops, putOp(kindAction, actionID, v))
	if a.Status == state.ActionPending {
		return append(ops, putOp(kindPending, actionID, []byte(st.SessionID))), nil
	}
	return append(ops, removeOp(kindPending, actionID)), nil
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
	// Steers is the turn that took the input, if it became none of its own.
	Steers string `json:"steers,omitempty"`
}

// steeredRecord is what is kept of an input that steered a turn.
func steeredRecord(e *event.Event, p *event.TurnSteered) turnRecord {
	asked := &event.TurnSubmitted{Input: p.Input, InputRef: p.InputRef, Options: p.Options, Metadata: p.Metadata}
	return turnRecord{
		ThreadID: e.ThreadID, TaskID: e.TaskID, RunID: e.RunID, Status: state.TurnAccepted,
		Sequence: e.Sequence, Submitted: e.Time, Digest: submissionDigest(asked), Steers: e.TurnID,
	}
}

func submittedRecord(e *event.Event, p *event.TurnSubmitted) turnRecord {
	return turnRecord{
		ThreadID: e.ThreadID, TaskID: e.TaskID, RunID: e.RunID, Status: p.Status, Position: p.Position,
		Sequence: e.Sequence, Submitted: e.Time, Digest: submissionDigest(p),
	}
}
