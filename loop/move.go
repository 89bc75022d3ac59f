package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// MoveSession gives a session a place at this node: one whose files no live node reaches any
// more, or one that is here already and does nothing at the moment. The caller has it taken
// up then.
func (l *Loop) MoveSession(ctx context.Context, caller command.Caller, p *command.MoveSession) (*command.MoveSessionResult, error) {
	if err := session.CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	if p.SessionID == event.RuntimeSession {
		return nil, fault.Param("sessionId", "%s is the runtime's own session and has no files", p.SessionID)
	}
	self, err := l.m.NodeNamed(ctx, p.NodeID)
	if err != nil {
		return nil, err
	}
	if l.m.IsDraining() {
		return nil, fault.New(fault.Conflict, "node %s is drained and takes no work: name another, or let it take work again (drain_node with end)", self)
	}
	if err := l.m.Read(ctx, p.SessionID, func(s *state.Session) error { return l.checkMove(ctx, s, p) }); err != nil {
		return nil, err
	}
	return session.Write(session.Moving(ctx), l.m, caller, p, p.SessionID, event.ByLoop|event.BySession, func(tx *session.Tx) (*command.MoveSessionResult, error) {
		if err := l.checkMove(ctx, tx.State, p); err != nil {
			return nil, err
		}
		return l.emitMove(tx, caller, p, self)
	})
}

// checkMove refuses to move a session that is fine where it is, or at work there.
func (l *Loop) checkMove(ctx context.Context, s *state.Session, p *command.MoveSession) error {
	if l.m.HasPlaces() && s.Place == nil {
		return fault.New(fault.Conflict, "session %s has no place: it goes on at any node", s.SessionID)
	}
	if l.m.IsAway(s) {
		return l.m.CheckMovable(ctx, s)
	}
	if p.Root == "" {
		return fault.New(fault.Conflict, "this node reaches the files of session %s: name another folder for it (root), or another node", s.SessionID)
	}
	for _, t := range s.Threads {
		if err := requireQuietThread(s, t, t.ThreadID); err != nil {
			return err
		}
	}
	if len(s.Environment.Active) > 0 {
		return fault.New(fault.Conflict, "process %s of session %s runs in its folder: end it first (terminate_process)", s.Environment.Active[0].ProcessID, s.SessionID)
	}
	return nil
}

// emitMove records the session's new place, and lets the threads go on that waited for the
// old one.
func (l *Loop) emitMove(tx *session.Tx, caller command.Caller, p *command.MoveSession, self string) (*command.MoveSessionResult, error) {
	res := &command.MoveSessionResult{SessionID: p.SessionID, Sequence: tx.Sequence()}
	res.From = command.SessionPlace{NodeID: self, Root: l.Configuration().rootOf(tx.State)}
	if at := tx.State.Place; at != nil {
		res.From = command.SessionPlace{NodeID: at.Node, Pool: at.Pool, Root: at.Root}
	}
	change := &event.SessionUpdated{LeavesFiles: true, ChangedBy: session.ActorOf(caller)}
	root, err := l.newRoot(tx.State, p.Root, change)
	if err != nil {
		return nil, err
	}
	res.To = command.SessionPlace{NodeID: self, Root: root}
	if res.To.Root == res.From.Root && res.To.NodeID == res.From.NodeID {
		return nil, fault.Param("root", "%q is where session %s works already", p.Root, p.SessionID)
	}
	if l.m.HasPlaces() {
		if change.Place = l.m.Here(root); change.Place == nil {
			return nil, fault.New(fault.Conflict, "this process has no name that sessions could be placed at: name the node (nodeId)")
		}
		res.To.Pool = change.Place.Pool
	}
	change.Reason = fmt.Sprintf("an admin gave the session another place, %s on node %s: what earlier turns left in %s on node %s is not taken for its files", root, self, res.From.Root, res.From.NodeID)
	tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: change})
	session.ResumePlaced(tx, fmt.Sprintf("an admin gave the session another place, %s on node %s", root, self))
	return res, nil
}

// newRoot is the folder of this node that a session goes on in. It is there, and may be used.
// One that is named becomes the session's own.
func (l *Loop) newRoot(s *state.Session, root string, change *event.SessionUpdated) (string, error) {
	w := event.Workspace{}
	if s.Workspace != nil {
		w = *s.Workspace
	}
	if root != "" {
		w.Root = root
	}
	resolved, err := l.ResolveWorkspace(&w)
	if err != nil {
		return "", asRoot(err)
	}
	at := resolved.Root
	if at == "" {
		at = l.homes.workspace
	}
	if _, err := l.opt.Places.Fix(at); err != nil {
		return "", fault.Param("root", "%q can't be used on this node: %s; make the folder there, or name another", at, fileErrorReason(err))
	}
	if root != "" || (w.Root != "" && resolved.Root != w.Root) {
		change.Workspace = resolved
	}
	return at, nil
}

// asRoot says of the parameter root what was said of a workspace's.
func asRoot(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.InvalidParams {
		return fault.Param("root", "%s", strings.TrimPrefix(f.Detail, f.Param+": "))
	}
	return err
}
