package takeover

import (
	"context"
	"time"

	"agentd/event"
	"agentd/loop"
	"agentd/session"
)

// offerFor is how long the other nodes have to take a session whose place one of them may
// reach. Each of them has had its turn by then, and says of no session meanwhile that it is
// out of reach.
const offerFor = 2 * time.Second

// HandOver is one drain: a node parts with its sessions, each between two steps. What no
// other node reaches for sure stays: without an owner it would count as lost as soon as this
// node stops, and no node would look after it when the drain ends.
type HandOver struct {
	Sessions *session.Manager
	Loop     *loop.Loop
	// Offers says that nodes are asked that have perhaps the very same folder. One that stops
	// doesn't ask: they see soon enough what it leaves.
	Offers bool

	offered map[string]offer
	// kept are the sessions that stay, with their places.
	kept map[string]*event.WorkspacePlace
}

type offer struct {
	at    time.Time
	place *event.WorkspacePlace
}

// Once hands over what is between two steps, and returns how many sessions are left
// that this node works on or that may still go.
func (h *HandOver) Once(ctx context.Context) (left int, err error) {
	if !h.Sessions.IsShared() {
		left, _ = h.Loop.Threads()
		return left, nil
	}
	ids, err := h.Sessions.Left(ctx)
	if err != nil || len(ids)+len(h.offered) == 0 {
		return 0, err
	}
	heirs, err := h.Sessions.Heirs(ctx)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		stays, err := h.handOverSession(ctx, heirs, id)
		if err != nil {
			return left, err
		}
		if stays {
			left++
		}
	}
	if err := h.takeBackOffers(ctx); err != nil {
		return left, err
	}
	return left + len(h.offered), nil
}

// handOverSession hands a session over, unless it is kept. It reports whether the drain has
// to wait for it.
func (h *HandOver) handOverSession(ctx context.Context, heirs *session.Heirs, id string) (waits bool, err error) {
	at, kept := h.kept[id]
	if kept && !heirs.Reach(at) {
		return false, nil
	}
	if h.Loop.IsBusy(ctx, id) {
		return true, nil
	}
	if o, was := h.offered[id]; was {
		h.keepSession(id, o.place) // a command needed it here
		return false, nil
	}
	if !kept {
		if at, err = h.Sessions.PlaceOf(ctx, id); err != nil {
			return true, err
		}
	}
	sure := heirs.Reach(at)
	if !sure && (heirs.None() || !h.Offers) {
		h.keepSession(id, at)
		return false, nil
	}
	done, err := h.Sessions.HandOver(ctx, id)
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

func (h *HandOver) keepSession(id string, at *event.WorkspacePlace) {
	if h.kept == nil {
		h.kept = map[string]*event.WorkspacePlace{}
	}
	h.kept[id] = at
	delete(h.offered, id)
}

// takeBackOffers keeps what was offered and no other node took.
func (h *HandOver) takeBackOffers(ctx context.Context) error {
	for id, o := range h.offered {
		if time.Since(o.at) < offerFor {
			continue
		}
		ours, err := h.Sessions.TakeBack(ctx, id)
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
