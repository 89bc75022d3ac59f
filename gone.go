package agentd

import (
	"context"
	"time"

	"agentd/command"
	"agentd/session"
	"agentd/store"
)

const (
	// goneLook is how often a node looks for peers that were connected to nodes which are gone.
	goneLook = 5 * time.Second
	// goneFor is how long a node's lease must be over before its peers count as gone: it may
	// only have been too slow to renew it, and still have them. A node that isn't listed was
	// stopped or forgotten.
	goneFor = time.Minute
)

// goneNodes is since when nodes are seen whose lease is over, and when to look again.
type goneNodes struct {
	since map[string]time.Time
	next  time.Time
}

// lookAtNodes takes in the nodes that there are and returns what says which are gone.
func (g *goneNodes) lookAtNodes(nodes []store.Node, now time.Time) func(nodeID string) bool {
	seen, listed := map[string]time.Time{}, map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		listed[n.ID] = true
		if n.Alive {
			continue
		}
		if seen[n.ID] = now; !g.since[n.ID].IsZero() {
			seen[n.ID] = g.since[n.ID]
		}
	}
	g.since = seen
	return func(nodeID string) bool {
		since, over := seen[nodeID]
		return !listed[nodeID] || (over && now.Sub(since) >= goneFor)
	}
}

// endChannelsOfGone ends the channels of peers that were connected to nodes which are gone.
func (r *Runtime) endChannelsOfGone(ctx context.Context) {
	now := time.Now()
	if now.Before(r.gone.next) {
		return
	}
	r.gone.next = now.Add(goneLook)
	if err := r.channels.EndGone(ctx, func(ctx context.Context) (func(string) bool, error) {
		nodes, err := r.manager.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		return r.gone.lookAtNodes(nodes, now), nil
	}); err != nil && ctx.Err() == nil {
		r.opt.Logger.Warn("channels of nodes that are gone could not be ended; it is tried again", "error", err)
	}
}

// forgetNode takes a node off the list, and ends what its peers left connected.
func (r *Runtime) forgetNode(ctx context.Context, caller command.Caller, p *command.ForgetNode) (*command.ForgetNodeResult, error) {
	res, err := r.manager.ForgetNode(ctx, caller, p)
	if err != nil || !res.Forgotten || !r.manager.IsShared() {
		return res, err
	}
	r.background.Go(func() {
		// Also where the files of a session are out of reach: this only says who left.
		ctx := session.Anywhere(session.TakingUp(r.life))
		if err := r.channels.EndGone(ctx, func(context.Context) (func(string) bool, error) {
			return func(nodeID string) bool { return nodeID == p.NodeID }, nil
		}); err != nil && ctx.Err() == nil {
			r.opt.Logger.Warn("channels of a node that was forgotten could not be ended", "nodeId", p.NodeID, "error", err)
		}
		if err := r.channels.Recover(ctx); err != nil && ctx.Err() == nil {
			r.opt.Logger.Warn("channels of a node that was forgotten could not be ended", "nodeId", p.NodeID, "error", err)
		}
	})
	return res, nil
}
