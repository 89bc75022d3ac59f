package session

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// narrowModes are the modes that a session may bring from elsewhere: in each of them
// everything but reads asks, or is denied.
var narrowModes = []string{"", "default", "untrusted", "plan"}

// permissionsOf lists what a session allows by facts of its own: modes, rules and approvals
// for the session. The author of a file chose them, and not the host that imports it.
func permissionsOf(s *state.Session) []string {
	modes := []string{s.PermissionMode}
	for _, t := range s.Threads {
		modes = append(modes, t.PermissionMode)
		for _, turn := range append(slices.Clip(t.Queue), t.Active) {
			modes = append(modes, modesOf(turn)...)
		}
	}
	for _, t := range s.Tasks.Open {
		if t.Constraints != nil {
			modes = append(modes, t.Constraints.PermissionMode)
		}
	}
	allows := 0
	for _, p := range s.Permission.Policies {
		modes = append(modes, p.Mode)
		for _, r := range p.Rules {
			if r.Decision == "allow" {
				allows++
			}
		}
	}
	var out []string
	slices.Sort(modes)
	for _, mode := range slices.Compact(modes) {
		if !slices.Contains(narrowModes, mode) {
			out = append(out, "mode "+mode)
		}
	}
	if allows > 0 {
		out = append(out, counted(allows, "rule that allows", "rules that allow"))
	}
	if n := len(s.Permission.Grants); n > 0 {
		out = append(out, counted(n, "approval for the session", "approvals for the session"))
	}
	return out
}

// counted says how many there are of something.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// modesOf returns the modes of a turn that has not ended.
func modesOf(t *state.Turn) []string {
	switch {
	case t == nil:
		return nil
	case t.Options == nil:
		return []string{t.PermissionMode}
	}
	return []string{t.PermissionMode, t.Options.PermissionMode}
}

// checkImported checks a fact that is not here yet, folded into st, against what is
// here: an id means one thing in all sessions, and the author of the file must not
// take one over, or reach what belongs to another account.
func (m *Manager) checkImported(ctx context.Context, st *state.Session, e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		return m.checkForkPoint(ctx, st.Account, p.ForkedFrom)
	case *event.TaskCreated:
		return m.checkFree(ctx, e, kindTask, e.TaskID)
	case *event.ProcessStarted:
		return m.checkFree(ctx, e, kindProcess, e.ProcessID)
	case *event.ActionRequired:
		return m.checkFree(ctx, e, kindAction, e.ActionID)
	case *event.SubagentSpawned:
		return m.checkFree(ctx, e, KindSubagent, e.SubagentID)
	case *event.JobCreated:
		return m.checkFree(ctx, e, KindJob, e.JobID)
	case *event.ScheduleCreated:
		return m.checkFree(ctx, e, KindSchedule, p.ScheduleID)
	case *event.BenchmarkTrialStarted:
		return m.checkFree(ctx, e, KindTrial, e.Benchmark.TrialID)
	case *event.ChannelConnected:
		return m.checkChannel(ctx, e, p)
	}
	return m.checkPeers(ctx, st.Account, e)
}

// checkPeers does the same for facts about the tasks of peers, whose ids mean one
// thing in an account.
func (m *Manager) checkPeers(ctx context.Context, account string, e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.PeerTaskLinked:
		return m.checkPeer(ctx, e, p.NativeProtocol, p.Direction, account, p.RemoteTaskID)
	case *event.PeerTaskUpdated:
		return m.checkPeer(ctx, e, p.NativeProtocol, p.Direction, account, p.RemoteTaskID)
	case *event.PeerPushConfigured:
		return m.checkPeer(ctx, e, p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	case *event.PeerPushRemoved:
		return m.checkPeer(ctx, e, p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	case *event.PeerPushReported:
		return m.checkPeer(ctx, e, p.NativeProtocol, state.PeerInbound, account, p.RemoteTaskID)
	}
	return nil
}

// checkFree reports an id that another session has.
func (m *Manager) checkFree(ctx context.Context, e *event.Event, kind, id string) error {
	v, err := m.opt.Store.Get(ctx, kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storeFault(err)
	}
	if home, _, _ := strings.Cut(string(v), "/"); home == e.SessionID {
		return nil
	}
	return fault.New(fault.Conflict, "fact %d: %s %s already exists here, in another session", e.Sequence, kind, id)
}

// checkChannel reports a channel that is another one here. One that was opened
// elsewhere may follow the session, if it is the same.
func (m *Manager) checkChannel(ctx context.Context, e *event.Event, p *event.ChannelConnected) error {
	known, err := m.Channel(ctx, e.ChannelID)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	home := reasonOr(p.HomeSession, e.SessionID)
	if known.Home == home && known.Opened.ResumeTokenRef == p.ResumeTokenRef {
		return nil
	}
	return fault.New(fault.Conflict, "fact %d: a different channel %s already exists here", e.Sequence, e.ChannelID)
}

// checkPeer reports a peer's task that another session has.
func (m *Manager) checkPeer(ctx context.Context, e *event.Event, protocol, at, account, remoteID string) error {
	v, err := m.opt.Store.Get(ctx, kindPeer, peerKey(protocol, direction(at), account, remoteID))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storeFault(err)
	}
	known, err := decodePeer(v)
	if err != nil || known.SessionID == e.SessionID {
		return err
	}
	return fault.New(fault.Conflict, "fact %d: the peer's task %s already exists here, in another session", e.Sequence, remoteID)
}

// checkForkPoint reports that the history to which a fork refers isn't here, or
// isn't for the fork's owner: it becomes part of the fork's conversation.
func (m *Manager) checkForkPoint(ctx context.Context, account string, from *event.ForkPoint) error {
	if from == nil {
		return nil
	}
	for have, err := range m.opt.Store.Read(ctx, from.SessionID, store.Range{After: from.Sequence - 1, Limit: 1}) {
		if err != nil {
			return storeFault(err)
		}
		if hex.EncodeToString(have.Hash[:]) != from.Hash {
			return fault.New(fault.Conflict, "it is a fork of session %s, and the session of that id here is a different one", from.SessionID)
		}
		return m.Read(ctx, from.SessionID, func(s *state.Session) error {
			if s.Account != account {
				return fault.New(fault.Conflict, "it is a fork of session %s, which belongs to another account", from.SessionID)
			}
			return nil
		})
	}
	return fault.New(fault.Conflict, "it is a fork of session %s at %d, which isn't here: import that session first", from.SessionID, from.Sequence)
}
