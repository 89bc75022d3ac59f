package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// Kinds of things that are found by their id alone, whatever session they are in.
const (
	// KindSubagent: subagent id → session id and a digest of what was asked for.
	KindSubagent = "subagent"
	// KindJob: job id → session id and a digest of what was asked for.
	KindJob = "job"
	// KindSchedule: schedule id → session id and a digest of what was asked for.
	KindSchedule = "schedule"
	// KindTrial: trial id → session id and a digest of what was asked for.
	KindTrial = "trial"
)

// members is the kind of the index entries that list the things of one session.
func members(kind string) string { return kind + "@session" }

// indexIdentity appends the entries of something that has an identity of its own.
func indexIdentity(ops []store.IndexOp, kind, id string, e *event.Event) []store.IndexOp {
	return append(ops,
		putOp(kind, id, []byte(e.SessionID+"/"+Digest(e.Payload))),
		putOp(members(kind), e.SessionID+"/"+id, nil))
}

// Digest is a fingerprint of what a caller chose for a child or a job.
func Digest(p event.Payload) string {
	var parts []any
	switch p := p.(type) {
	case *event.SubagentSpawned:
		parts = []any{p.ParentThreadID, p.ParentTurnID, p.Role, p.Nickname, p.Isolation, p.Model, p.InputRef, p.Input, p.Metadata}
		if p.Peer != "" {
			parts = append(parts, p.Peer)
		}
	case *event.JobCreated:
		parts = []any{
			p.Title, p.InstructionRef, p.Instruction, p.ItemsRef, p.ItemCount, p.Concurrency, p.RetryPolicy,
			p.OutputSchemaRef, p.OutputSchema, p.MaxRuntimeMs, p.Metadata,
		}
		if p.FailuresAllowed != 0 {
			parts = append(parts, p.FailuresAllowed)
		}
	}
	if p, ok := p.(*event.BenchmarkTrialStarted); ok {
		parts = []any{p.RequestDigest}
	}
	if p, ok := p.(*event.ScheduleCreated); ok {
		parts = []any{p.Title, p.Cron, p.EveryMs, p.TimeZone, p.Missed, p.Overlap, p.Kind, p.Run, p.RunRef}
	}
	h := sha256.New()
	for _, part := range parts {
		b, _ := json.Marshal(part) //nolint:errchkjson // these types always encode
		h.Write(append(b, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Identity says whether something of that kind and id exists already, and whether
// it is in this session and was asked for with the same content. If it doesn't
// exist the id is claimed: a decision that runs elsewhere at the same time loses.
func (tx *Tx) Identity(kind, id string, p event.Payload) (exists, same bool, err error) {
	mine := tx.w.id + "/" + Digest(p)
	v, found, err := tx.Lookup(kind, id)
	if err != nil {
		return false, false, storeFault(err)
	}
	if found {
		return true, string(v) == mine, nil
	}
	tx.Claim(kind, id, []byte(mine))
	return false, false, nil
}

// Taken is the conflict of a decision whose id something else has. That may be the same, made at
// another node since the call began: such a call is carried out again, see [Manager.Overtaken].
func Taken(format string, args ...any) error {
	return fault.Wrap(fault.Conflict, store.ErrExists, format, args...)
}

// Locate returns the session of something that is found by its id alone. Whether
// the caller may see that session is asked where it is looked at.
func (m *Manager) Locate(ctx context.Context, kind, id string) (string, error) {
	v, err := m.opt.Store.Get(ctx, kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return "", fault.New(fault.NotFound, "there is no %s %s", kind, id)
	}
	if err != nil {
		return "", storeFault(err)
	}
	sessionID, _, _ := strings.Cut(string(v), "/")
	return sessionID, nil
}

// Located is a thing and its session.
type Located struct{ ID, SessionID string }

// Members lists what there is of a kind after an id, in the order of ids: in one
// session, or in all.
func (m *Manager) Members(ctx context.Context, kind, sessionID, after string, limit int) ([]Located, error) {
	scan := store.Scan{Kind: kind, After: after, Limit: limit}
	if sessionID != "" {
		scan.Kind, scan.Prefix = members(kind), sessionID+"/"
		if after != "" {
			scan.After = scan.Prefix + after
		}
	}
	var out []Located
	for e, err := range m.opt.Store.Scan(ctx, scan) {
		if err != nil {
			return nil, storeFault(err)
		}
		x := Located{ID: strings.TrimPrefix(e.Key, scan.Prefix), SessionID: sessionID}
		if sessionID == "" {
			x.SessionID, _, _ = strings.Cut(string(e.Value), "/")
		}
		out = append(out, x)
	}
	return out, nil
}

// PutOutput stores content that is too large for a decision; a decision makes it
// readable with [Tx.Refer].
func (m *Manager) PutOutput(ctx context.Context, r io.Reader) (string, error) {
	m.outputs.storing.RLock()
	defer m.outputs.storing.RUnlock()
	found := &refReader{r: r, seen: map[string]bool{}}
	info, err := m.opt.Store.PutBlob(ctx, found)
	if err != nil {
		return "", storeFault(err)
	}
	m.outputs.put(info, found.refs, m.Now())
	return info.Ref, nil
}

// Refer lets those who see the session read what is behind a reference. What that
// content refers to never expires.
func (tx *Tx) Refer(ref, mediaType string) {
	refs, size := tx.w.m.outputs.inside(ref)
	tx.Retain(refs...)
	tx.referred += size
	tx.index = append(tx.index, refEntry(ref, tx.w.id, mediaType))
}

// Redact removes secrets from what a caller sent, as it is done for turns.
func (m *Manager) Redact(v event.Raw) event.Raw { return m.redact(v) }

// RedactText takes secrets out of a text that a caller sent.
func (m *Manager) RedactText(s string) string { return m.redactText(s) }

// CheckTurn refuses options of a turn that can't be meant.
func (m *Manager) CheckTurn(o *event.TurnOptions) error {
	if m.opt.CheckTurn == nil || o == nil {
		return nil
	}
	return m.opt.CheckTurn(o)
}

// Submit gives a turn to a thread on behalf of an actor: it starts at once, or
// waits in the queue of a busy thread. The thread need not be folded yet: an id
// is enough.
func (tx *Tx) Submit(by *event.Actor, t *state.Thread, source string, p *command.SubmitTurn) (*command.SubmitTurnResult, error) {
	return tx.SubmitPart(by, t, source, p, event.Scope{})
}

// SubmitPart is [Tx.Submit] for a turn that is a part of something: whole names the job
// and the task that it works for.
func (tx *Tx) SubmitPart(by *event.Actor, t *state.Thread, source string, p *command.SubmitTurn, whole event.Scope) (*command.SubmitTurnResult, error) {
	r := requestOf(tx, by)
	r.whole = whole
	sub := r.buildSubmission(tx, p)
	sub.Source = source
	if t.Busy() {
		return r.enqueueTurn(tx, t, p, sub, len(t.Queue))
	}
	return r.acceptTurn(tx, t, p, sub), nil
}

// Steer adds input to the thread's running turn on behalf of an actor.
func (tx *Tx) Steer(by *event.Actor, t *state.Thread, input event.Raw) (*command.SubmitTurnResult, error) {
	p := &command.SubmitTurn{Input: input, Options: &event.TurnOptions{}}
	r := requestOf(tx, by)
	return r.steerTurn(tx, t, p, r.buildSubmission(tx, p))
}

// Interrupt records the wish to stop the thread's running turn, and ends the
// turns that wait if clearQueue is set.
func (tx *Tx) Interrupt(by *event.Actor, t *state.Thread, reason string, clearQueue bool) {
	r := requestOf(tx, by)
	queue := "keep"
	if clearQueue {
		queue = "clear"
		r.clearQueue(tx, t, "", reason)
	}
	if t.Active != nil && t.Active.Interrupt == nil {
		r.requestInterrupt(tx, t.Active, reason, queue)
	}
}

func requestOf(tx *Tx, by *event.Actor) *request {
	r := &request{m: tx.w.m}
	if by != nil {
		r.caller = command.Caller{Actor: *by, Account: by.Account}
	}
	return r
}
