package agentd

import (
	"context"
	"time"

	"agentd/event"
	"agentd/internal/place"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

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
	switch {
	case r.manager.IsDrained():
		a.State = "drained"
	case r.manager.IsDraining():
		a.State = "draining"
	}
	return a
}

// strandAfter is how long a session's files may be out of reach before that becomes a fact:
// another node may reach them, and their own may only be restarting.
const strandAfter = 2 * time.Second

// displaced looks for sessions that lost their node and that not every node can go on with.
// What this node reaches it takes up; of the others it says after a while that no node does.
func (r *Runtime) displaced(ctx context.Context) error {
	ids, err := r.manager.Displaced(ctx, adopted)
	if err != nil {
		return err
	}
	now := time.Now()
	seen := map[string]time.Time{}
	var here []string
	for _, id := range ids {
		away := false
		if err := r.manager.Read(ctx, id, func(s *state.Session) error {
			away = r.manager.IsAway(s)
			return nil
		}); err != nil {
			continue // another node has it, or it is gone
		}
		first, known := r.awaySince[id]
		switch {
		case !away:
			here = append(here, id)
		case !known:
			seen[id] = now
		case now.Sub(first) < strandAfter:
			seen[id] = first
		default:
			if err := r.loop.Strand(ctx, id); err != nil && ctx.Err() == nil && !session.OwnedElsewhere(err) {
				r.opt.Logger.Warn("a session whose files are out of reach could not be blocked", "sessionId", id, "error", err)
			}
		}
	}
	r.awaySince = seen
	if len(here) > 0 {
		r.takeUpAll(ctx, here)
	}
	return nil
}
