package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

func (r *request) createSession(ctx context.Context, p *command.CreateSession) (*command.CreateSessionResult, error) {
	sessionID := p.SessionID
	if sessionID == "" {
		sessionID, ctx = r.m.newSessionID(ctx)
	}
	w, err := r.m.resolveWorkspace(r.workspaceOf(p.Workspace))
	if err != nil {
		return nil, err
	}
	named := p.Workspace != nil
	resolved := *p
	resolved.Workspace = w
	p = &resolved
	res, err := mutate(ctx, r, sessionID, true, func(tx *Tx) (*command.CreateSessionResult, error) {
		if tx.State.Sequence > 0 {
			return nil, errSessionExists
		}
		return &command.CreateSessionResult{SessionID: sessionID, ThreadID: r.emitSessionOpened(tx, p, "")}, nil
	})
	if errors.Is(err, errSessionExists) {
		if !named {
			p.Workspace = nil
		}
		return r.repeatedSession(ctx, sessionID, p)
	}
	return res, err
}

// workspaceOf is the folder that a new session is opened for: what the command names,
// else where the caller is.
func (r *request) workspaceOf(named *event.Workspace) *event.Workspace {
	if named != nil || r.caller.Workspace == "" {
		return named
	}
	return &event.Workspace{Root: r.caller.Workspace}
}

// resolveWorkspace is where a new session works, as it is stored.
func (m *Manager) resolveWorkspace(w *event.Workspace) (*event.Workspace, error) {
	if m.opt.ResolveWorkspace == nil {
		return w, nil
	}
	return m.opt.ResolveWorkspace(w)
}

var errSessionExists = errors.New("session: exists")

// emitSessionOpened emits the first facts of a session and returns its main thread's id.
func (r *request) emitSessionOpened(tx *Tx, p *command.CreateSession, threadID string) string {
	if threadID == "" {
		threadID = tx.NewID(event.PrefixThread)
	}
	tx.Emit(event.Event{Type: event.TypeSessionCreated, Payload: r.sessionCreated(p)})
	tx.Emit(event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: threadID}, Payload: &event.ThreadStarted{
		Role: "main",
	}})
	return threadID
}

func (r *request) sessionCreated(p *command.CreateSession) *event.SessionCreated {
	c := &event.SessionCreated{
		Title: r.m.redactText(p.Title), Account: r.caller.Account, Workspace: p.Workspace, PermissionMode: p.PermissionMode,
		Metadata: r.m.redact(p.Metadata), CreatedBy: r.actor(),
	}
	if p.Workspace != nil {
		c.Place = r.m.Here(p.Workspace.Root)
	}
	return c
}

// repeatedSession answers the creation of a session that exists: its first facts
// say whether it was created with the same content.
func (r *request) repeatedSession(ctx context.Context, sessionID string, p *command.CreateSession) (*command.CreateSessionResult, error) {
	var first *event.SessionCreated
	res := &command.CreateSessionResult{SessionID: sessionID}
	for rec, err := range r.m.opt.Store.Read(ctx, sessionID, store.Range{Limit: 3}) {
		if errors.Is(err, store.ErrTrimmed) {
			return r.repeatedTrimmed(ctx, sessionID, p)
		}
		if err != nil {
			return nil, storeFault(err)
		}
		e, err := store.DecodeFact(ctx, r.m.opt.Store, rec.Data)
		if err != nil {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		if c, ok := e.Payload.(*event.SessionCreated); ok {
			first = c
		}
		if e.Type == event.TypeThreadStarted && rec.Sequence == 2 {
			res.ThreadID = e.ThreadID
		}
		if p, ok := e.Payload.(*event.TurnSubmitted); ok && first != nil && first.Title == titleOf(p.Preview) {
			first.Title = "" // no caller set it: the session was named after its first turn
		}
	}
	if first != nil && p.Workspace == nil && r.caller.Workspace != "" {
		first.Workspace = nil // the caller named none: wherever it is now, it is the same command
	}
	if first == nil || !sameSession(first, r.sessionCreated(p)) {
		return nil, fault.New(fault.Conflict, "session %s already exists with different parameters; choose another id, or repeat the same parameters", sessionID)
	}
	return res, nil
}

// sameSession compares what a caller chooses.
func sameSession(a, b *event.SessionCreated) bool {
	encode := func(c *event.SessionCreated) []byte {
		out, _ := json.Marshal([]any{c.Title, c.Workspace, c.PermissionMode, c.Metadata, c.Account}) //nolint:errchkjson // these types always encode
		return out
	}
	return bytes.Equal(encode(a), encode(b))
}

// GetSessionResult is the session snapshot with a window of its history.
type GetSessionResult struct {
	*state.SessionSnapshot `check:"nonnil"`
	History                command.History `json:"history"`
}

func (r *request) getSession(ctx context.Context, p *command.GetSession) (*GetSessionResult, error) {
	res := &GetSessionResult{}
	limit := 50
	if p.Limit != nil {
		limit = *p.Limit
	}
	var recent *factWindow
	if p.AtSequence != nil && p.Before == "" {
		recent = &factWindow{size: uint64(limit)}
	}
	err := r.viewSessionAt(ctx, p.SessionID, p.AtSequence, recent, func(st *state.Session) error {
		res.SessionSnapshot = r.m.Snapshot(st)
		return nil
	})
	if p.AtSequence == nil && fault.KindOf(err) == fault.NotFound && r.m.See(ctx, r.caller, p.SessionID) == nil {
		// The runtime's own session is there before its first fact.
		empty := state.New(p.SessionID)
		empty.RuntimeID = r.m.opt.RuntimeID
		res.SessionSnapshot, err = r.m.Snapshot(empty), nil
	}
	if err != nil {
		return nil, err
	}
	before := int64(res.Sequence) + 1
	if p.Before != "" {
		n, _ := p.Before.Int64() // Validate checked it
		before = min(n, before)
	}
	res.History, err = r.historyBefore(ctx, res.SessionSnapshot, before, limit, recent)
	return res, err
}

// historyWindow returns the newest events before a sequence, oldest first. They may have
// been read already.
func (m *Manager) historyWindow(ctx context.Context, sessionID string, before uint64, limit int, recent *factWindow) (command.History, error) {
	if recent != nil && len(recent.events) > 0 {
		h := command.History{Events: recent.events, Truncated: recent.first > 1}
		if h.Truncated {
			h.Cursor = strconv.FormatUint(recent.first, 10)
		}
		return h, nil
	}
	h := command.History{Events: []event.Raw{}, Truncated: before > 1}
	if limit == 0 {
		if h.Truncated {
			h.Cursor = strconv.FormatUint(before, 10)
		}
		return h, nil
	}
	var oldest uint64
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{Before: before, Limit: limit, Reverse: true}) {
		if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
			h.RemovedThrough = removed.Through
			break
		}
		if err != nil {
			return h, storeFault(err)
		}
		h.Events = append(h.Events, rec.Data)
		oldest = rec.Sequence
	}
	slices.Reverse(h.Events)
	if h.Truncated = oldest > 1 || h.RemovedThrough > 0; h.Truncated && h.RemovedThrough == 0 {
		h.Cursor = strconv.FormatUint(oldest, 10)
	}
	return h, nil
}

// Events returns a page of a session's events after a sequence, for a caller who
// may see the session, and the session's last sequence. With limit 0 it returns that alone.
func (m *Manager) Events(ctx context.Context, caller command.Caller, sessionID string, after uint64, limit int) ([]store.Record, uint64, error) {
	if err := m.See(ctx, caller, sessionID); err != nil {
		return nil, 0, err
	}
	last, err := m.lastDurable(ctx, sessionID)
	if err != nil || limit == 0 {
		return nil, last, err
	}
	if limit >= maxRead && last >= after+maxRead {
		ctx = store.OnReplica(ctx, m.opt.Store)
	}
	var out []store.Record
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: after, Before: last + 1, Limit: limit}) {
		if err != nil {
			return nil, 0, storeFault(err)
		}
		out = append(out, rec)
	}
	return out, last, nil
}

// lastDurable returns the sequence of a session's last durable fact.
func (m *Manager) lastDurable(ctx context.Context, sessionID string) (uint64, error) {
	last, _, err := m.durableEnd(ctx, sessionID)
	return last, err
}

// durableEnd returns the sequence of a session's last durable fact and, if the session was
// made here and nothing was written since, all of its facts. Of a session that this node
// writes, and of which nothing is on its way, it is in memory; the store is asked otherwise,
// so that a read never waits for a write.
func (m *Manager) durableEnd(ctx context.Context, sessionID string) (uint64, []store.Record, error) {
	if w := m.ownWriter(sessionID); w != nil {
		last, begun, rests := w.endAtRest()
		m.releaseWriter(w)
		if rests {
			return last, begun, nil
		}
	}
	head, err := m.opt.Store.Head(ctx, sessionID)
	if err != nil {
		return 0, nil, storeFault(err)
	}
	return head.Sequence, nil, nil
}

// Open yields the ids of the sessions that have unfinished work.
func (m *Manager) Open(ctx context.Context) ([]string, error) {
	var out []string
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindOpen}) {
		if err != nil {
			return nil, storeFault(err)
		}
		out = append(out, e.Key)
	}
	return out, nil
}

// Record returns what was kept of something that left a session's working set,
// such as "turn/ID"; the error is a fault of kind NotFound if there is nothing.
func (m *Manager) Record(ctx context.Context, sessionID, name string) (event.Raw, error) {
	s, err := m.opt.Store.Snapshot(ctx, sessionID, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no %s in session %s", name, sessionID)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	return s.Data, nil
}

// findKept returns a copy of something that the caller may see: from the session's
// working set, or else from the record that was kept when it left.
func findKept[T any](ctx context.Context, r *request, sessionID, kind, id string, find func(*state.Session) *T) (*T, error) {
	var out *T
	if err := r.viewSession(ctx, sessionID, func(st *state.Session) error {
		if live := find(st); live != nil {
			kept := *live
			out = &kept
		}
		return nil
	}); err != nil || out != nil {
		return out, err
	}
	data, err := r.m.Record(ctx, sessionID, kind+"/"+id)
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.New(fault.NotFound, "there is no %s %s", kind, id)
	}
	if err != nil {
		return nil, err
	}
	out = new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of %s %s can't be read", kind, id)
	}
	return out, nil
}
