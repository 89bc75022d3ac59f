package agentd

import (
	"context"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/store"
	"agentd/takeover"
)

// drainEvery is how often a node that is being drained looks for what it can hand over.
const drainEvery = 50 * time.Millisecond

// drainNode has a node take no new work and hand over what it has, or ends that.
func (r *Runtime) drainNode(ctx context.Context, caller command.Caller, p *command.DrainNode) (*command.DrainNodeResult, error) {
	if err := session.CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	self, err := r.manager.NodeNamed(ctx, p.NodeID)
	if err != nil {
		return nil, err
	}
	r.Drain(ctx, !p.End)
	record, err := r.manager.NodeRecord(ctx, self)
	if err != nil {
		return nil, err
	}
	change := &event.RuntimeChanged{Change: "node_drained", NodeID: record.NodeID}
	if p.End {
		change.Change = "node_opened"
	}
	return session.RecordChange(ctx, r.manager, caller, p, change, command.DrainNodeResult{Node: *record})
}

// Drain has this node take no new work and hand over what it has to the others, step by
// step; off ends that. It returns at once; [Runtime.Drained] says when nothing is left.
func (r *Runtime) Drain(ctx context.Context, on bool) { r.drainAs(ctx, on, true) }

func (r *Runtime) drainAs(ctx context.Context, on, offers bool) {
	if !r.manager.SetDraining(on) {
		return
	}
	r.loop.Pause(on)
	r.announce(ctx)
	r.opt.Logger.Info("the node is drained", "on", on)
	r.drains.Lock()
	defer r.drains.Unlock()
	if r.stopDrain != nil {
		r.stopDrain()
		r.stopDrain = nil
	}
	run, stop := context.WithCancel(r.life)
	if on {
		r.stopDrain = stop
		r.background.Go(func() { r.drain(run, &takeover.HandOver{Sessions: r.manager, Loop: r.loop, Offers: offers}) })
		return
	}
	stop()
	r.background.Go(func() { r.takeUpOwn(r.life) })
}

// takeUpOwn goes on with what this node kept while it was drained, and with what was said to
// be out of reach meanwhile, which no one else looks for soon.
func (r *Runtime) takeUpOwn(ctx context.Context) {
	ids, err := r.manager.Left(ctx)
	if err == nil {
		var stranded []string
		stranded, err = r.manager.Stranded(ctx)
		ids = append(ids, stranded...)
	}
	if err != nil && ctx.Err() == nil {
		r.opt.Logger.Error("what the node has could not be listed", "error", err)
	}
	r.takes.TakeUpAll(ctx, ids)
}

// IsDraining reports whether the node takes no new work.
func (r *Runtime) IsDraining() bool { return r.manager.IsDraining() }

// NodeState says whether the node takes work: open, draining while it hands over what it has,
// or drained.
func (r *Runtime) NodeState() string { return r.manager.NodeState() }

// Drained reports whether the node is being drained and has nothing left to hand over.
func (r *Runtime) Drained() bool { return r.manager.IsDrained() }

// drain hands sessions over until ctx ends, each when its steps under way have ended.
func (r *Runtime) drain(ctx context.Context, h *takeover.HandOver) {
	defer r.manager.SetDrained(false)
	for ctx.Err() == nil {
		left, err := h.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.opt.Logger.Warn("sessions could not be handed over; it is tried again", "error", err)
		case r.manager.SetDrained(left == 0):
			r.announce(ctx)
			if left == 0 {
				r.opt.Logger.Info("the node has handed over what it had")
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(drainEvery):
		}
	}
}

func (r *Runtime) announce(ctx context.Context) {
	if shared, ok := r.opt.Store.(store.Shared); ok {
		if err := shared.Announce(ctx); err != nil && ctx.Err() == nil {
			r.opt.Logger.Warn("the other nodes could not be told", "error", err)
		}
	}
}

// DrainFor drains the node before it stops, for as long as ctx lasts: what it hands over
// goes on elsewhere without a gap. A node that is alone has no one to hand over to.
func (r *Runtime) DrainFor(ctx context.Context) {
	alone, err := r.manager.Alone(ctx)
	if err != nil || alone {
		return
	}
	r.drainAs(ctx, true, false)
	for ctx.Err() == nil && !r.Drained() {
		select {
		case <-ctx.Done():
		case <-time.After(drainEvery):
		}
	}
}

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

// forgetNode records that a node is gone for good.
func (r *Runtime) forgetNode(ctx context.Context, caller command.Caller, p *command.ForgetNode) (*session.ForgottenNode, error) {
	return r.manager.ForgetNode(ctx, caller, p)
}

// takeOffList takes a node off the list for which that was recorded, and ends what its peers
// left connected. A repeated call does it again, as far as it wasn't done.
func (r *Runtime) takeOffList(ctx context.Context, _ command.Caller, p *command.ForgetNode, node *session.ForgottenNode) (*command.ForgetNodeResult, error) {
	res := &node.ForgetNodeResult
	gone, err := r.manager.FinishForgetting(ctx, node)
	if err != nil {
		return nil, err
	}
	if !gone {
		return res, nil
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

// moveSession gives a session another place and goes on with it there.
func (r *Runtime) moveSession(ctx context.Context, caller command.Caller, p *command.MoveSession) (*command.MoveSessionResult, error) {
	res, err := r.loop.MoveSession(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	if r.manager.IsShared() {
		r.takes.TakeUpAll(context.WithoutCancel(ctx), []string{p.SessionID})
	}
	return res, nil
}
