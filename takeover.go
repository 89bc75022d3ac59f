package agentd

import (
	"context"
	"math/rand/v2"
	"time"

	"agentd/event"
	"agentd/internal/place"
	"agentd/loop"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/takeover"
)

// Bounds of taking sessions over.
const (
	// adopted is how many sessions a node takes at once. The next ones are taken as these
	// go on, so that several nodes share what one left by how fast they are.
	adopted = 64
	// adoptEvery is how often a node looks for sessions that lost theirs.
	adoptEvery = 400 * time.Millisecond
	// gatherFor is how long a node that has more to take up waits for room for several.
	gatherFor = 10 * time.Millisecond
)

// takeOver goes on, until ctx ends, with what no node does: sessions whose node died or
// gave them up, those of this node whose facts could not be written, and those that a
// command brought here. Nobody has to ask for it.
func (r *Runtime) takeOver(ctx context.Context) {
	if !r.manager.IsShared() {
		if r.opt.Recovery != "manual" { // then what is taken up is held, as after a restart
			r.takeUpStrays(ctx)
		}
		return
	}
	failing := false
	for ctx.Err() == nil {
		n, err := r.adoptOnce(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.opt.Logger.Warn("sessions that lost their node can't be looked for; it is tried again", "error", err)
		}
		failing = err != nil
		r.endChannelsOfGone(ctx)
		if n == adopted {
			continue // there may be more
		}
		var freed <-chan struct{} // while there is room nothing waits for more of it
		if r.takes.Free() == 0 || n > 0 {
			freed = r.takes.Freed()
		}
		select {
		case <-freed:
			time.Sleep(gatherFor) // there is room for more by then, and they are looked for once
		case <-ctx.Done():
		// Nodes that look at different moments are in each other's way less.
		case <-time.After(adoptEvery + rand.N(adoptEvery/4)): //nolint:gosec // it spreads a load
		}
	}
}

// takeUpStrays goes on, until ctx ends, with what could not be written or taken up: all that
// is left to do where no other node has the store open.
func (r *Runtime) takeUpStrays(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.manager.Strayed():
		}
		// Those that aren't due yet are given back at once.
		for ids := r.manager.Strays(); len(ids) > 0; ids = r.manager.Strays() {
			r.takes.TakeUpSoon(ctx, ids)
			select {
			case <-ctx.Done():
				return
			case <-time.After(adoptEvery):
			}
		}
	}
}

// adoptOnce takes one batch, as large as there is room for, and returns its size.
func (r *Runtime) adoptOnce(ctx context.Context) (int, error) {
	if r.manager.IsDraining() || r.manager.IsStalled() {
		return 0, nil // another node may be better off
	}
	room := min(adopted, r.takes.Free())
	if room == 0 {
		return 0, nil
	}
	ids, err := r.manager.Adopt(ctx, room)
	if len(ids) > 0 {
		r.opt.Logger.Info("sessions without a node are taken over", "sessions", len(ids))
		r.takes.TakeUpSoon(ctx, ids)
	}
	if err != nil {
		return len(ids), err
	}
	if err := r.displaced(ctx); err != nil {
		return len(ids), err
	}
	r.takes.TakeUpSoon(ctx, r.manager.Strays())
	return len(ids), nil
}

// openTakeover makes what the runtime needs beside other nodes.
func (r *Runtime) openTakeover() {
	sessions := func() *session.Manager { return r.manager }
	r.hostNews = takeover.NewHostNews(takeover.HostNewsOptions{
		Sessions: sessions, Loop: func() *loop.Loop { return r.loop }, ShareTokens: r.shareTokens, Logger: r.opt.Logger,
	})
	r.takes = takeover.NewQueue(takeover.QueueOptions{TakeUp: r.TakeUp, Sessions: sessions, Logger: r.opt.Logger})
}

// TakeUp takes up what an earlier process, or another node, left unfinished in one session:
// what was in flight becomes facts, and what is safe goes on, first turns and then the work
// that is made of them. It does nothing to a session that is well.
func (r *Runtime) TakeUp(ctx context.Context, sessionID string) error {
	if err := r.loop.TakeUp(ctx, sessionID); err != nil {
		return err
	}
	if err := r.channels.TakeUp(ctx, sessionID); err != nil {
		return err
	}
	if err := r.work.Recover(ctx, sessionID); err != nil {
		return err
	}
	if err := r.trials.Recover(ctx, sessionID); err != nil {
		return err
	}
	if r.opt.TakenUp != nil {
		r.opt.TakenUp(sessionID)
	}
	return nil
}

// Own makes this node the owner of a session, as a command that changes it does. The error
// names the node that owns it, if another one does.
func (p Port) Own(ctx context.Context, sessionID string) error {
	return p.explain(ctx, p.manager.View(ctx, sessionID, func(*state.Session) error { return nil }))
}

// NodePlace says which files a node of several reaches.
type NodePlace struct {
	// Node is the node's name. Without one the process gives sessions no place, as one that
	// no other node will find again.
	Node string
	// Pool names the nodes that reach the same files as this one, at the same paths.
	Pool string
}

// locator implements [session.Locator].
type locator struct {
	NodePlace
	// workspace is the folder of sessions that name none.
	workspace func() string
}

// Here implements [session.Locator].
func (l *locator) Here(root string) *event.WorkspacePlace {
	if l.Node == "" {
		return nil
	}
	return &event.WorkspacePlace{Node: l.Node, Pool: l.Pool, Root: root, Folder: place.FolderID(root)}
}

// Reaches implements [session.Locator]. A folder of another node is the same one if it is
// shared by a pool, or if it is that very folder: two nodes can run on one machine.
func (l *locator) Reaches(p *event.WorkspacePlace, own bool) bool {
	switch {
	case p.Node == l.Node:
		return true
	case !own && l.workspace() != p.Root:
		return false // here such sessions work in another folder
	case p.Pool != "" && p.Pool == l.Pool:
		return p.Folder == "" || place.FolderID(p.Root) != ""
	}
	return p.Folder != "" && place.FolderID(p.Root) == p.Folder
}

// Marks implements [session.Locator].
func (l *locator) Marks() []string {
	var marks []string
	if l.Node != "" {
		marks = append(marks, session.PlaceMark(&event.WorkspacePlace{Node: l.Node}))
	}
	if l.Pool != "" {
		marks = append(marks, session.PlaceMark(&event.WorkspacePlace{Pool: l.Pool}))
	}
	return marks
}

// describeNode says what the other nodes are told of this one.
func (r *Runtime) describeNode() store.About {
	running, waiting := r.loop.Threads()
	a := store.About{Running: int64(running), Waiting: int64(waiting)}
	if state := r.manager.NodeState(); state != "open" { // which earlier versions leave out
		a.State = state
	}
	return a
}

// displacedAtOnce is how many such sessions are looked at in one go.
const displacedAtOnce = 64

// displaced looks for sessions that lost their node and that not every node can go on with.
// What this node reaches it takes up; of the others it says after a while that no node does.
func (r *Runtime) displaced(ctx context.Context) error {
	found, err := r.manager.Displaced(ctx, displacedAtOnce)
	if err != nil {
		return err
	}
	var here []string
	for _, try := range r.displacements.Due(found, time.Now()) {
		away, id := false, try.SessionID
		if err := r.manager.Read(ctx, id, func(s *state.Session) error {
			away = r.manager.IsAway(s)
			return nil
		}); err != nil {
			continue // another node has it, or it is gone
		}
		switch {
		case !away:
			here = append(here, id)
		case try.Strand:
			if err := r.loop.Strand(ctx, id); err != nil && ctx.Err() == nil && !session.OwnedElsewhere(err) {
				r.opt.Logger.Warn("a session whose files are out of reach could not be blocked", "sessionId", id, "error", err)
			}
		}
	}
	if len(here) > 0 {
		r.takes.TakeUpSoon(ctx, here)
	}
	return nil
}
