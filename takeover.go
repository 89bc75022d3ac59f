package agentd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"agentd/event"
	"agentd/session"
	"agentd/store"
)

// Bounds of taking sessions up.
const (
	// takeUps is how many sessions are taken up side by side: their facts share the
	// journal's commits.
	takeUps = 64
	// adopted is how many sessions a node takes at once. The next ones are taken when these
	// go on, so that several nodes share what one left by how fast they are.
	adopted = 64
	// adoptEvery is how often a node looks for sessions that lost theirs.
	adoptEvery = 400 * time.Millisecond
)

// takeOver goes on, until ctx ends, with what no node does: sessions whose node died or
// gave them up, those of this node whose facts could not be written, and those that a
// command brought here. Nobody has to ask for it.
func (r *Runtime) takeOver(ctx context.Context) {
	if !r.manager.IsShared() {
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
		select {
		case <-ctx.Done():
		// Nodes that look at different moments are in each other's way less.
		case <-time.After(adoptEvery + rand.N(adoptEvery/4)): //nolint:gosec // it spreads a load
		}
	}
}

// adoptOnce takes one batch and returns its size.
func (r *Runtime) adoptOnce(ctx context.Context) (int, error) {
	if r.manager.IsDraining() || r.manager.IsStalled() {
		return 0, nil // another node may be better off
	}
	ids, err := r.manager.Adopt(ctx, adopted)
	if len(ids) > 0 {
		r.opt.Logger.Info("sessions without a node are taken over", "sessions", len(ids))
		r.takeUpAll(ctx, ids)
	}
	if err != nil {
		return len(ids), err
	}
	if err := r.displaced(ctx); err != nil {
		return len(ids), err
	}
	if strays := r.manager.Strays(); len(strays) > 0 && r.opt.Recovery != "manual" {
		r.takeUpAll(ctx, strays)
	}
	return len(ids), nil
}

// takeUpAll takes up sessions side by side. One that can't be is reported and doesn't hold
// up the others; one that another node has is that node's.
func (r *Runtime) takeUpAll(ctx context.Context, ids []string) {
	ctx = session.TakingUp(ctx)
	var wg sync.WaitGroup
	room := make(chan struct{}, takeUps)
	for _, id := range ids {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return
		}
		wg.Go(func() {
			defer func() { <-room }()
			err := r.TakeUp(ctx, id)
			switch {
			case err == nil || ctx.Err() != nil:
			case session.OwnedElsewhere(err), errors.Is(err, store.ErrClosed):
				r.opt.Logger.Debug("another node has the session", "sessionId", id)
			default:
				r.opt.Logger.Error("session could not be recovered", "sessionId", id, "error", err)
				r.manager.Stray(id)
			}
		})
	}
	wg.Wait()
}

// followRuntime takes over what another node recorded in the session that belongs to all
// nodes: what the host's policy is, who may come in.
func (r *Runtime) followRuntime(ctx context.Context, a store.Appended) {
	if a.SessionID != event.RuntimeSession {
		return
	}
	first := a.First
	if first == 0 {
		first = a.Sequence
	}
	facts, err := r.manager.Facts(ctx, a.SessionID, first, a.Sequence)
	if err != nil {
		if ctx.Err() == nil {
			r.opt.Logger.Warn("what another node changed could not be read; it holds here from the next start", "error", err)
		}
		return
	}
	r.loop.Follow(facts)
	for i := range facts {
		if p, ok := facts[i].Payload.(*event.RuntimeChanged); ok && p.TokenID != "" {
			r.shareTokens(ctx)
			break
		}
	}
}
