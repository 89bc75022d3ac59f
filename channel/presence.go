package channel

import (
	"context"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// peer is who is at the other end of a channel now.
type peer struct {
	// seen is when it last gave a sign of life.
	seen time.Time
	// links are its connections, by session.
	links map[string]*link
}

// link is a peer's connection to one session.
type link struct {
	// number tells it from the connections before and after.
	number  uint64
	streams map[*stream]struct{}
}

// end ends the streams that are still open although the connection is over.
func (l *link) end() {
	for s := range l.streams {
		s.cancel()
	}
}

// streams counts the streams that go to the peer.
func (p *peer) streams() int {
	n := 0
	for _, l := range p.links {
		n += len(l.streams)
	}
	return n
}

// watch is why the facts of a session are looked at.
type watch struct {
	// links counts the connections to the session.
	links int
	// bridges says that forwarded requests wait for their answer.
	bridges bool
}

// arrival is a connection that is being recorded.
type arrival struct {
	h                    *Hub
	channelID, sessionID string
	mine, before         *link
}

// registerArrival makes a connection known before it is recorded, so that code that looks in
// between doesn't take it for one of an earlier process.
func (h *Hub) registerArrival(channelID, sessionID string) *arrival {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[channelID]
	if p == nil {
		p = &peer{links: map[string]*link{}}
		h.peers[channelID] = p
	}
	h.next++
	a := &arrival{h: h, channelID: channelID, sessionID: sessionID, before: p.links[sessionID]}
	a.mine = &link{number: h.next, streams: map[*stream]struct{}{}}
	p.links[sessionID] = a.mine
	p.seen = time.Now()
	if a.before == nil {
		h.countWatched(sessionID, 1)
	}
	return a
}

// settle ends the arrival: the connection stands and replaces the one before, or,
// after an error, is forgotten.
func (a *arrival) settle(ctx context.Context, err error) {
	if err != nil {
		a.undo()
		return
	}
	if a.before != nil {
		a.h.mu.Lock()
		a.before.end()
		a.h.mu.Unlock()
	}
	if a.h.connectionNumber(a.channelID, a.sessionID) == 0 {
		// It went while it was being recorded, and the code that saw it go found nothing to
		// record yet.
		a.h.recordDeparture(ctx, a.channelID, map[string]uint64{a.sessionID: a.mine.number}, departure{reason: "closed", grace: a.h.callGrace()})
	}
}

// undo forgets a connection that could not be recorded.
func (a *arrival) undo() {
	h := a.h
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[a.channelID]
	if p == nil || p.links[a.sessionID] != a.mine {
		return
	}
	if a.before != nil {
		p.links[a.sessionID] = a.before
		return
	}
	h.dropConnection(a.channelID, a.sessionID)
}

// dropConnection forgets a connection. The caller holds the lock.
func (h *Hub) dropConnection(channelID, sessionID string) {
	p := h.peers[channelID]
	delete(p.links, sessionID)
	h.countWatched(sessionID, -1)
	if len(p.links) == 0 {
		delete(h.peers, channelID)
	}
}

// countWatched counts connections to a session. The caller holds the lock.
func (h *Hub) countWatched(sessionID string, by int) {
	w := h.watch[sessionID]
	if w == nil {
		w = &watch{}
		h.watch[sessionID] = w
		h.watching.Add(1)
	}
	w.links += by
	h.unwatch(sessionID, w)
}

// unwatch stops watching a session that gives no reason. The caller holds the lock.
func (h *Hub) unwatch(sessionID string, w *watch) {
	if w.links <= 0 && !w.bridges {
		delete(h.watch, sessionID)
		h.watching.Add(-1)
	}
}

// connectionNumber returns the number of the channel's connection to the session, 0 if it
// has none here.
func (h *Hub) connectionNumber(channelID, sessionID string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.peers[channelID]; p != nil {
		if l := p.links[sessionID]; l != nil {
			return l.number
		}
	}
	return 0
}

// isPresent reports whether the peer is connected here, and when it was last seen.
func (h *Hub) isPresent(channelID string) (seen time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[channelID]
	if p == nil {
		return time.Time{}, false
	}
	if p.streams() > 0 {
		return time.Now(), true // the transport knows that it is there
	}
	return p.seen, true
}

// noteSignOfLife notes a sign of life.
func (h *Hub) noteSignOfLife(channelID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.peers[channelID]; p != nil {
		p.seen = time.Now()
	}
}

// stream is a stream of a session that goes to a peer.
type stream struct {
	h                    *Hub
	channelID, sessionID string
	link                 *link
	after                uint64
	ctx                  context.Context //nolint:containedctx // the stream's life, which others may end
	cancel               context.CancelFunc
}

var _ command.ChannelStream = (*stream)(nil)

// Follow says that a stream of a session now goes to a channel's peer. A peer is connected
// at the node that owns the session: if that is another one the error says which. A channel
// that is not connected in that session is a conflict.
func (h *Hub) Follow(ctx context.Context, caller command.Caller, channelID, sessionID string) (command.ChannelStream, error) {
	if _, err := h.findVisibleChannel(ctx, caller, channelID); err != nil {
		return nil, err
	}
	after, err := h.m.ChannelCursor(ctx, channelID, sessionID)
	if err != nil {
		return nil, err
	}
	if err := h.checkOwned(ctx, caller, channelID, sessionID); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[channelID]
	if p == nil || p.links[sessionID] == nil {
		return nil, fault.New(fault.Conflict, "channel %s is not connected in session %s: use reconnect_channel", channelID, sessionID)
	}
	s := &stream{h: h, channelID: channelID, sessionID: sessionID, link: p.links[sessionID], after: after}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.link.streams[s] = struct{}{}
	p.seen = time.Now()
	return s, nil
}

// checkOwned refuses a stream to a peer that isn't connected here and whose session another
// node has.
func (h *Hub) checkOwned(ctx context.Context, caller command.Caller, channelID, sessionID string) error {
	if !h.m.IsShared() || sessionID == event.RuntimeSession || h.connectionNumber(channelID, sessionID) != 0 {
		return nil
	}
	err := h.m.OwnAs(ctx, caller, sessionID, func(*state.Session) error { return nil })
	if session.OwnedElsewhere(err) {
		return err
	}
	return nil // who follows is told that it is not connected
}

// After implements [command.ChannelStream].
func (s *stream) After() uint64 { return s.after }

// Context implements [command.ChannelStream].
func (s *stream) Context() context.Context { return s.ctx }

// Left implements [command.ChannelStream]: with its last stream the peer is gone,
// unless it only stopped to follow.
func (s *stream) Left(reason string) {
	s.cancel()
	h := s.h
	h.mu.Lock()
	delete(s.link.streams, s)
	p := h.peers[s.channelID]
	if p == nil || p.links[s.sessionID] != s.link {
		h.mu.Unlock()
		return // it came back since
	}
	p.seen = time.Now()
	if reason == "unsubscribed" || p.streams() > 0 {
		h.mu.Unlock()
		return
	}
	gone := h.forgetPeer(s.channelID)
	h.mu.Unlock()
	h.recordDeparture(h.ctx, s.channelID, gone, departure{reason: reason, grace: h.callGrace()})
}

// forgetPeer takes a peer out of memory and returns the numbers of its connections by
// session. The caller holds the lock.
func (h *Hub) forgetPeer(channelID string) map[string]uint64 {
	gone := map[string]uint64{}
	if p := h.peers[channelID]; p != nil {
		for sessionID, l := range p.links {
			gone[sessionID] = l.number
			l.end()
			h.countWatched(sessionID, -1)
		}
		delete(h.peers, channelID)
	}
	return gone
}

// callGrace is how long calls wait for a peer whose connection broke.
func (h *Hub) callGrace() time.Duration { return max(0, h.opt.ToolGrace) }

// watchSilence finds the peers that fell silent.
func (h *Hub) watchSilence() {
	tick := time.NewTicker(max(h.opt.Silence/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		for channelID, links := range h.forgetSilent(time.Now()) {
			h.recordDeparture(h.ctx, channelID, links, departure{
				reason: "heartbeat_timeout", detail: "no sign of life for " + h.opt.Silence.String(), grace: h.callGrace(),
			})
		}
	}
}

// forgetSilent forgets the peers that have no stream and gave no sign of life for long.
func (h *Hub) forgetSilent(now time.Time) map[string]map[string]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]map[string]uint64{}
	for id, p := range h.peers {
		if p.streams() == 0 && now.Sub(p.seen) >= h.opt.Silence {
			out[id] = h.forgetPeer(id)
		}
	}
	return out
}
