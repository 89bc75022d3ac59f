package agentd

import (
	"context"
	"time"

	"agentd/event"
	"agentd/session"
)

// This file has how a node that is being drained parts with its sessions, each between two
// steps. What no other node reaches for sure stays: without an owner it would count as lost
// as soon as this node stops, and would be in no one's care when the drain ends.

// offerFor is how long the other nodes have to take a session whose place one of them may
// reach. They look more often, and say of no session meanwhile that it is out of reach.
const offerFor = time.Second

// handOver is one drain.
type handOver struct {
	// offers says that nodes are asked that have perhaps the very same folder. One that stops
	// doesn't ask: they see soon enough what it leaves.
	offers  bool
	offered map[string]offer
	// kept are the sessions that stay, with their places.
	kept map[string]*event.WorkspacePlace
}

type offer struct {
	at    time.Time
	place *event.WorkspacePlace
}

// handOverOnce hands over what is between two steps, and returns how many sessions are left
// that this node works on or that may still go.
func (r *Runtime) handOverOnce(ctx context.Context, h *handOver) (left int, err error) {
	if !r.manager.IsShared() {
		left, _ = r.loop.Threads()
		return left, nil
	}
	ids, err := r.manager.Left(ctx)
	if err != nil || len(ids)+len(h.offered) == 0 {
		return 0, err
	}
	heirs, err := r.manager.Heirs(ctx)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		stays, err := r.handOverSession(ctx, h, heirs, id)
		if err != nil {
			return left, err
		}
		if stays {
			left++
		}
	}
	if err := r.takeBackOffers(ctx, h); err != nil {
		return left, err
	}
	return left + len(h.offered), nil
}

// handOverSession hands a session over, unless it is kept. It reports whether the drain has
// to wait for it.
func (r *Runtime) handOverSession(ctx context.Context, h *handOver, heirs *session.Heirs, id string) (waits bool, err error) {
	at, kept := h.kept[id]
	if kept && !heirs.Reach(at) {
		return false, nil
	}
	if r.loop.IsBusy(ctx, id) {
		return true, nil
	}
	if o, was := h.offered[id]; was {
		h.keepSession(id, o.place) // a command needed it here
		return false, nil
	}
	if !kept {
		if at, err = r.manager.PlaceOf(ctx, id); err != nil {
			return true, err
		}
	}
	sure := heirs.Reach(at)
	if !sure && (heirs.None() || !h.offers) {
		h.keepSession(id, at)
		return false, nil
	}
	done, err := r.manager.HandOver(ctx, id)
	if err != nil || !done {
		return true, err
	}
	delete(h.kept, id)
	if !sure {
		if h.offered == nil {
			h.offered = map[string]offer{}
		}
		h.offered[id] = offer{time.Now(), at}
	}
	return false, nil
}

func (h *handOver) keepSession(id string, at *event.WorkspacePlace) {
	if h.kept == nil {
		h.kept = map[string]*event.WorkspacePlace{}
	}
	h.kept[id] = at
	delete(h.offered, id)
}

// takeBackOffers keeps what was offered and no other node took.
func (r *Runtime) takeBackOffers(ctx context.Context, h *handOver) error {
	for id, o := range h.offered {
		if time.Since(o.at) < offerFor {
			continue
		}
		ours, err := r.manager.TakeBack(ctx, id)
		if err != nil {
			return err
		}
		if ours {
			h.keepSession(id, o.place)
		}
		delete(h.offered, id)
	}
	return nil
}
