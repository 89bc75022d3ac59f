package a2a

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// views keeps the views that were asked for last, so that a peer that polls doesn't
// have its task read from the beginning each time.
type views struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *kept views, the one used last in front
}

// keptView is a view and the lock for bringing it up to date.
type keptView struct {
	key string
	mu  sync.Mutex
	v   *view
}

// maxViews bounds the views that are kept, maxViewSize the contents of each: a task
// with large contents is read anew each time that it is asked for.
const (
	maxViews    = 256
	maxViewSize = 256 << 10
)

func newViews() *views { return &views{byKey: map[string]*list.Element{}, order: list.New()} }

// viewOf returns the kept view of a task, a new one if there is none.
func (vs *views) viewOf(account, taskID string) *keptView {
	key := account + "\x00" + taskID
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if at, ok := vs.byKey[key]; ok {
		vs.order.MoveToFront(at)
		return at.Value.(*keptView) //nolint:forcetypeassert // nothing else is put in
	}
	k := &keptView{key: key}
	vs.byKey[key] = vs.order.PushFront(k)
	if vs.order.Len() > maxViews {
		oldest := vs.order.Back()
		delete(vs.byKey, oldest.Value.(*keptView).key) //nolint:forcetypeassert // nothing else is put in
		vs.order.Remove(oldest)
	}
	return k
}

// findTaskRecord finds a task of the caller's account.
func (s *Server) findTaskRecord(ctx context.Context, c *call, taskID string) (*command.PeerTaskRecord, error) {
	if taskID == "" {
		return nil, badParam("id", "is missing")
	}
	if len(taskID) > maxID {
		return nil, noTask(taskID)
	}
	rec, err := channel.ResultOf[command.PeerTaskRecord](s.runCommand(ctx, c, &command.GetPeerTask{PeerTaskKey: taskKey(taskID)}))
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return nil, noTask(taskID)
	}
	return rec, err
}

// withCurrentView brings a task's view up to date and looks at it.
func (s *Server) withCurrentView(ctx context.Context, caller command.Caller, rec *command.PeerTaskRecord, see func(*view)) error {
	k := s.views.viewOf(caller.Account, rec.RemoteTaskID)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.v == nil {
		k.v = newView(rec, s.opt.fixtureOptions)
	}
	if err := s.catchUp(ctx, caller, rec.SessionID, k.v); err != nil {
		k.v = nil // half a fact may be in it
		return err
	}
	see(k.v)
	if k.v.size > maxViewSize {
		k.v = nil
	}
	return nil
}

// catchUp folds the facts that came since the view was last looked at.
func (s *Server) catchUp(ctx context.Context, caller command.Caller, sessionID string, v *view) error {
	if v.ended() {
		return nil
	}
	read := s.referenceReader(ctx, caller)
	for d, err := range channel.Facts(ctx, s.opt.Runtime, caller, sessionID, v.through) {
		if err != nil || v.ended() {
			return err
		}
		if _, err := v.foldDelivered(&d, read); err != nil {
			return err
		}
	}
	return nil
}

// foldDelivered folds a delivered fact, if it concerns the view, and returns it decoded.
func (v *view) foldDelivered(d *command.Delivered, read reader) (*event.Event, error) {
	if d.Sequence <= v.through {
		return nil, nil
	}
	var e event.Event
	payload, err := event.DecodeHeader(d.Data, &e)
	if err != nil {
		return nil, fmt.Errorf("a2a: fact %d: %w", d.Sequence, err)
	}
	v.through = d.Sequence
	pieces := e.Type == event.TypeModelDelta && e.TurnID == v.peer.TurnID
	if !pieces && !v.concerns(&e) {
		return nil, nil
	}
	if err := e.DecodePayload(payload); err != nil {
		return nil, fmt.Errorf("a2a: fact %d: %w", d.Sequence, err)
	}
	if pieces {
		return &e, nil
	}
	return &e, v.apply(&e, read)
}

// maxContent bounds what is read behind one reference.
const maxContent = 32 << 20

// referenceReader reads what is behind our references as the caller may; what is not there is
// nothing.
func (s *Server) referenceReader(ctx context.Context, caller command.Caller) reader {
	return func(ref string) ([]byte, error) {
		out, err := s.opt.Runtime.Output(ctx, caller, ref)
		if err != nil && fault.KindOf(err) == fault.NotFound {
			return nil, nil // it expired, or didn't come along: the task is there without it
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(out.Content, maxContent))
		if err = errors.Join(err, out.Content.Close()); err != nil {
			return nil, fmt.Errorf("a2a: content %s: %w", ref, err)
		}
		return b, nil
	}
}

// taskNow returns a task as it is now.
func (s *Server) taskNow(ctx context.Context, caller command.Caller, rec *command.PeerTaskRecord, history *int) (*proto.Task, error) {
	var t *proto.Task
	err := s.withCurrentView(ctx, caller, rec, func(v *view) { t = v.snapshot(history) })
	return t, err
}
