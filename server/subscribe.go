package server

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// subscription is a stream over a JSON-RPC connection.
type subscription struct {
	id        string
	sessionID string // empty for all sessions
	feed      bool   // all sessions, with cursors
	from      string // the cursor that a feed goes on from
	filter    filter
	channel   command.ChannelStream
	stream    command.Stream
	ctx       context.Context
	cancel    context.CancelFunc
	// started is set, and done closed, by the goroutine that delivers. It closes
	// begun once what comes before the first event was sent; nil if relayed.
	started atomic.Bool
	begun   chan struct{}
	done    chan struct{}
	cursor  atomic.Uint64
	// stopAt is the sequence after which a draining connection ends, plus one.
	stopAt atomic.Uint64
}

// subscribeParams are the parameters of subscribe.
type subscribeParams struct {
	SessionID string   `json:"sessionId"`
	After     uint64   `json:"after"`
	Types     []string `json:"types"`
	Profile   string   `json:"profile"`
	View      string   `json:"view"`
	Snapshot  bool     `json:"snapshot"`
	ChannelID string   `json:"channelId"`
	// Feed follows all sessions, with a cursor to go on from after each event.
	Feed   bool   `json:"feed"`
	Cursor string `json:"cursor"`
}

// subscribeResult is the answer to subscribe.
type subscribeResult struct {
	SubscriptionID string `json:"subscriptionId"`
	SessionID      string `json:"sessionId,omitempty"`
	// After is the sequence after which events come.
	After uint64 `json:"after"`
	// RecoveryMode is replay or snapshot_repair; then Gap says what is missing.
	RecoveryMode string  `json:"recoveryMode"`
	Gap          *Repair `json:"gap,omitempty"`
	// Cursor is where a feed begins: it goes on from there, if no event came.
	Cursor string `json:"cursor,omitempty"`
}

// subscriptionEnd is sent when a subscription ends by itself.
type subscriptionEnd struct {
	SubscriptionID string        `json:"subscriptionId"`
	SessionID      string        `json:"sessionId,omitempty"`
	Problem        *wire.Problem `json:"problem"`
}

// subscribe is the method of that name.
func (p *rpcConn) subscribe(ctx context.Context, params []byte) (result []byte, then func(), err error) {
	var in subscribeParams
	if err := wire.Decode(params, &in); err != nil {
		return nil, nil, err
	}
	result, then, err = p.subscribeHere(ctx, in)
	if to := p.rpc.q.forwardable(err); to != "" {
		return p.subscribeAt(ctx, to, in.SessionID, params, err)
	}
	return result, then, err
}

// subscribeHere serves a subscription from this node.
func (p *rpcConn) subscribeHere(ctx context.Context, in subscribeParams) (result []byte, then func(), err error) {
	sub := &subscription{sessionID: in.SessionID, begun: make(chan struct{}), done: make(chan struct{})}
	if sub.filter, err = newFilter(strings.Join(in.Types, ","), in.Profile, in.View); err != nil {
		return nil, nil, err
	}
	switch {
	case in.SessionID == "" && (in.After > 0 || in.Snapshot):
		return nil, nil, fault.Param("sessionId", "is missing: a sequence or a snapshot needs a session")
	case in.Feed && (in.SessionID != "" || in.ChannelID != ""):
		return nil, nil, fault.Param("feed", "is the feed of all sessions: leave sessionId and channelId out")
	case in.Cursor != "" && !in.Feed:
		return nil, nil, fault.Param("cursor", "goes with feed: true; a session is followed after a sequence")
	case len(in.Cursor) > maxCursor:
		return nil, nil, fault.Param("cursor", "is longer than %d bytes: it is not a cursor of the feed", maxCursor)
	}
	sub.feed, sub.from = in.Feed, in.Cursor
	if sub.channel, err = p.s.joinChannel(p.ctx, p.rpc.q, in.ChannelID, in.SessionID); err != nil { //nolint:contextcheck // it outlives the request
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			sub.channel.Left("unsubscribed")
		}
	}()
	in.After = cursor(in.After, sub.channel)
	res := subscribeResult{SessionID: in.SessionID, After: in.After, RecoveryMode: "replay"}
	var first []byte
	if in.SessionID != "" {
		if res.After, res.Gap, err = p.s.locateCursor(ctx, p.rpc.q.caller, in.SessionID, in.After); err != nil {
			return nil, nil, err
		}
		if res.Gap != nil {
			res.RecoveryMode = res.Gap.RecoveryMode
		}
		if res.Gap != nil || in.Snapshot {
			if first, err = p.s.snapshot(ctx, p.rpc.q, in.SessionID); err != nil {
				return nil, nil, err
			}
		}
	}
	release, err := p.openSubscription(sub, res.After) //nolint:contextcheck // it outlives the request: its context is the connection's
	if err != nil {
		return nil, nil, err
	}
	res.SubscriptionID = sub.id
	if at, ok := sub.stream.(interface{ Cursor() string }); ok && sub.feed {
		res.Cursor = at.Cursor()
	}
	return mustMarshal(res), func() { p.startSubscription(sub, release, first, res.Gap) }, nil
}

// openSubscription begins a subscription. What it counts against is given back by release.
func (p *rpcConn) openSubscription(sub *subscription, after uint64) (release func(), err error) {
	done, err := p.s.openStream(p.rpc.q.login.TokenID, p.name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(sub.channel.Context())
	if sub.sessionID == "" {
		sub.stream, err = p.s.backend.SubscribeAll(ctx, p.rpc.q.caller, sub.from)
		err = fault.Rename(err, "after", "cursor")
	} else {
		sub.stream, err = p.s.backend.Subscribe(ctx, p.rpc.q.caller, sub.sessionID, after)
	}
	if err != nil {
		cancel()
		done()
		return nil, err
	}
	sub.ctx, sub.cancel = ctx, cancel
	sub.cursor.Store(after)
	p.enlist(sub)
	return func() {
		cancel()
		sub.stream.Close()
		done()
		sub.channel.Left(p.endReason())
		p.strike(sub)
	}, nil
}

// enlist gives a subscription its id.
func (p *rpcConn) enlist(sub *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	sub.id = fmt.Sprintf("subscription_%d", p.next)
	p.subs[sub.id] = sub
}

// strike takes a subscription that has ended off the list.
func (p *rpcConn) strike(sub *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, sub.id)
	close(sub.done)
}

// endReason returns the reason that a channel records for the end of a subscription:
// the connection ended, or the client only unsubscribed.
func (p *rpcConn) endReason() string {
	if p.ctx.Err() == nil {
		return "unsubscribed"
	}
	return p.s.streamEndReason()
}

// startSubscription delivers a subscription's events in a goroutine of its own.
func (p *rpcConn) startSubscription(sub *subscription, release func(), first []byte, gap *Repair) {
	sub.started.Store(true)
	p.tasks.Go(func() {
		defer release()
		err := p.beginSubscription(sub, first, gap)
		close(sub.begun)
		if err == nil {
			err = p.deliver(sub)
		}
		if err != nil && sub.ctx.Err() == nil {
			p.tellEnd(sub, err)
		}
	})
}

// tellEnd says why a subscription ended.
func (p *rpcConn) tellEnd(sub *subscription, why error) {
	p.notifyFor(sub, "subscription.ended", mustMarshal(subscriptionEnd{sub.id, sub.sessionID, problemOf(p.s.faultOf(why), p.rpc.q.id)}), "")
}

// beginSubscription sends what comes before the first event.
func (p *rpcConn) beginSubscription(sub *subscription, first []byte, gap *Repair) error {
	if first != nil && (sub.ctx.Err() != nil || !p.notifyFor(sub, "snapshot", first, "")) {
		return errGone
	}
	if gap != nil && (sub.ctx.Err() != nil || !p.notifyFor(sub, "snapshot.repaired", mustMarshal(gap), "")) {
		return errGone
	}
	return nil
}

// deliver sends events until the subscription or the connection ends.
func (p *rpcConn) deliver(sub *subscription) error {
	delivered := p.s.metrics.events.get(p.name)
	for {
		batch, err := sub.stream.Next(sub.ctx)
		if err != nil {
			return err
		}
		for i := range batch {
			n, err := p.deliverEvent(sub, &batch[i])
			if err != nil {
				return err
			}
			delivered.Add(int64(n))
			sub.cursor.Store(batch[i].Sequence)
		}
		if at := sub.stopAt.Load(); at > 0 && sub.cursor.Load()+1 >= at {
			return nil
		}
	}
}

// deliverEvent sends what a subscription gets of one event, and returns how many frames
// that were. Only the last of a feed has the cursor: a client that is cut off before it gets
// all of them again.
func (p *rpcConn) deliverEvent(sub *subscription, e *command.Delivered) (int, error) {
	method := "event"
	frames, err := sub.filter.apply(e)
	if e.RemovedThrough > 0 {
		method, frames, err = "gap", [][]byte{gapOf(e)}, nil
	}
	if err != nil {
		return 0, err
	}
	for i, data := range frames {
		cursor := ""
		if sub.feed && i == len(frames)-1 {
			cursor = e.Cursor
		}
		if sub.ctx.Err() != nil || !p.notifyFor(sub, method, data, cursor) {
			return 0, errGone
		}
	}
	return len(frames), nil
}

// unsubscribe is the method of that name. No event of the subscription comes
// after its answer.
func (p *rpcConn) unsubscribe(ctx context.Context, params []byte) (result []byte, then func(), err error) {
	var in struct {
		SubscriptionID string `json:"subscriptionId"`
		Drain          bool   `json:"drain"`
	}
	if err := wire.Decode(params, &in); err != nil {
		return nil, nil, err
	}
	if in.SubscriptionID == "" {
		return nil, nil, fault.Param("subscriptionId", "is missing")
	}
	p.mu.Lock()
	sub := p.subs[in.SubscriptionID]
	p.mu.Unlock()
	if sub == nil {
		return nil, nil, fault.New(fault.NotFound, "there is no subscription %s", wire.Clip(in.SubscriptionID))
	}
	// In a batch the subscription may not have started; then it never sends.
	if !sub.started.Load() {
		sub.cancel()
		return unsubscribed, nil, nil
	}
	if in.Drain {
		p.finishSubscription(ctx, sub)
	} else {
		sub.cancel()
	}
	<-sub.done
	return unsubscribed, nil, nil
}

var unsubscribed = []byte(`{"unsubscribed":true}`)

// drainSubscriptions lets each subscription deliver what is durable now, and ends it then.
func (p *rpcConn) drainSubscriptions() {
	p.mu.Lock()
	subs := make([]*subscription, 0, len(p.subs))
	for _, sub := range p.subs {
		subs = append(subs, sub)
	}
	p.mu.Unlock()
	for _, sub := range subs {
		p.finishSubscription(p.ctx, sub)
	}
}

// finishSubscription has a subscription end by itself once it delivered what is durable now.
// The stream of all sessions has no such point, and one that another node serves
// is that node's: they end at once.
func (p *rpcConn) finishSubscription(ctx context.Context, sub *subscription) {
	if sub.sessionID == "" || sub.begun == nil {
		sub.cancel()
		return
	}
	select {
	case <-sub.begun:
	case <-sub.done:
		return
	}
	_, last, err := p.s.backend.Events(ctx, p.rpc.q.caller, sub.sessionID, sub.cursor.Load(), 0)
	sub.stopAt.Store(last + 1)
	if err != nil || sub.cursor.Load() >= last {
		sub.cancel()
	}
}
