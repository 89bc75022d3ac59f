package work

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// defaultWait is how long wait_subagents waits by default.
const defaultWait = 30 * time.Second

// watchers are those who wait for a change in a session.
type watchers struct {
	mu        sync.Mutex
	bySession map[string]chan struct{}
}

// next returns a channel that is closed at the session's next change.
func (w *watchers) next(sessionID string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.bySession[sessionID]
	if c == nil {
		if w.bySession == nil {
			w.bySession = map[string]chan struct{}{}
		}
		c = make(chan struct{})
		w.bySession[sessionID] = c
	}
	return c
}

// wakeWatchers wakes those who wait for a session.
func (w *watchers) wakeWatchers(sessionID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.bySession[sessionID]; c != nil {
		close(c)
		delete(w.bySession, sessionID)
	}
}

// waitSubagents waits until the children have nothing to do any more.
func (w *Work) waitSubagents(ctx context.Context, caller command.Caller, p *command.WaitSubagents) (*command.WaitSubagentsResult, error) {
	after := defaultWait
	if p.TimeoutMs > 0 {
		after = time.Duration(p.TimeoutMs) * time.Millisecond
	}
	limit, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	res := &command.WaitSubagentsResult{Subagents: []command.SubagentRecord{}}
	for _, id := range p.SubagentIDs {
		rec, err := w.waitFor(limit, ctx, caller, id)
		if err != nil {
			return nil, err
		}
		res.Subagents = append(res.Subagents, *rec)
		res.TimedOut = res.TimedOut || !isSettled(rec.Status)
	}
	return res, nil
}

// waitFor returns the child once it has nothing to do, or as it stands when the
// time is over. Reading goes on under the caller's own context.
func (w *Work) waitFor(limit, ctx context.Context, caller command.Caller, id string) (*command.SubagentRecord, error) {
	sessionID, err := w.m.Locate(ctx, session.KindSubagent, id)
	if err != nil {
		return nil, err
	}
	for {
		changed := w.waits.next(sessionID)
		rec, err := w.findChild(ctx, caller, sessionID, id)
		if err != nil || isSettled(rec.Status) || limit.Err() != nil {
			return rec, hidden(err, "subagent", id)
		}
		select {
		case <-changed:
		case <-limit.Done():
		case <-w.ctx.Done():
			return nil, fault.Stopping(nil)
		}
		if err := ctx.Err(); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the caller stopped waiting")
		}
	}
}

// isSettled reports whether a child of that status has nothing to do.
func isSettled(status string) bool {
	switch status {
	case childCompleted, childFailed, childClosed, childInterrupted, childIdle:
		return true
	}
	return false
}

// findChild returns what is known of a child, also when it ended long ago.
func (w *Work) findChild(ctx context.Context, caller command.Caller, sessionID, id string) (*command.SubagentRecord, error) {
	var out *command.SubagentRecord
	if err := w.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
		if a := s.Subagents.Find(id); a != nil {
			out = childRecord(a)
		}
		return nil
	}); err != nil || out != nil {
		return out, err
	}
	a, err := w.endedChild(ctx, sessionID, id)
	if err != nil {
		return nil, err
	}
	return childRecord(a), nil
}

// endedChild reads the record of a child that left the working set.
func (w *Work) endedChild(ctx context.Context, sessionID, id string) (*state.Subagent, error) {
	raw, err := w.m.Record(ctx, sessionID, "subagent/"+id)
	if err != nil {
		return nil, err
	}
	a := &state.Subagent{}
	if err := json.Unmarshal(raw, a); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of subagent %s can't be read", id)
	}
	return a, nil
}

func childRecord(a *state.Subagent) *command.SubagentRecord {
	return &command.SubagentRecord{
		SubagentID: a.SubagentID, SessionID: a.SessionID, ParentThreadID: a.ParentThreadID, ThreadID: a.ThreadID,
		ParentTurnID: a.ParentTurnID, ParentSubagentID: a.ParentSubagentID, Isolation: a.Isolation, Model: a.Model,
		Role: a.Role, Nickname: a.Nickname, Status: a.Status, LastMessage: a.LastMessage, LastMessageRef: a.LastMessageRef,
		Error: a.Error, SpawnedAt: a.SpawnedAt,
	}
}

// listSubagents lists children in the order of their ids: of a thread, or of the
// session's threads that are no children themselves, or all below them.
func (w *Work) listSubagents(ctx context.Context, caller command.Caller, p *command.ListSubagents) (*command.ListSubagentsResult, error) {
	known := map[string]*state.Subagent{}
	if err := w.m.ViewAs(ctx, caller, p.SessionID, func(s *state.Session) error {
		for _, list := range [...][]*state.Subagent{s.Subagents.Open, s.Subagents.Recent} {
			for _, a := range list {
				kept := *a
				known[a.SubagentID] = &kept
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	ids, err := w.m.Members(ctx, session.KindSubagent, p.SessionID, "", 0)
	if err != nil {
		return nil, err
	}
	all := make([]*state.Subagent, 0, len(ids))
	for _, x := range ids {
		a := known[x.ID]
		if a == nil {
			if a, err = w.endedChild(ctx, p.SessionID, x.ID); err != nil {
				return nil, err
			}
		}
		all = append(all, a)
	}
	return pageOfChildren(filterChildren(all, p.ParentThreadID, p.Descendants), p), nil
}

// filterChildren keeps the children that were asked for.
func filterChildren(all []*state.Subagent, parent string, descendants bool) []*state.Subagent {
	below := map[string]bool{parent: parent != ""}
	for grown := descendants && parent != ""; grown; {
		grown = false
		for _, a := range all {
			if below[a.ParentThreadID] && !below[a.ThreadID] {
				below[a.ThreadID], grown = true, true
			}
		}
	}
	var out []*state.Subagent
	for _, a := range all {
		if below[a.ParentThreadID] || (parent == "" && (descendants || a.Depth <= 1)) {
			out = append(out, a)
		}
	}
	return out
}

func pageOfChildren(list []*state.Subagent, p *command.ListSubagents) *command.ListSubagentsResult {
	res := &command.ListSubagentsResult{Subagents: []command.SubagentRecord{}, Total: int64(len(list))}
	for _, a := range list {
		if a.SubagentID <= p.Cursor {
			continue
		}
		if len(res.Subagents) == p.Size() {
			res.NextCursor = res.Subagents[len(res.Subagents)-1].SubagentID
			break
		}
		res.Subagents = append(res.Subagents, *childRecord(a))
	}
	return res
}
