package peer

import (
	"context"
	"fmt"
	"net/url"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// channelCapabilities are what every peer that work is given to can do. Permissions are
// not among them: a peer asks us, and is never asked.
var channelCapabilities = []string{"streaming", "artifacts", "task_delegation"}

// enrolChannel makes the channel to the peer known in the session of the task, before
// anything of the task is linked to it, and again when the line was lost. It is connected
// while the line is open.
func (r *run) enrolChannel(ctx context.Context) error {
	f, ok := r.c.rt.(command.ChannelFollower)
	if !ok || r.stream != nil {
		return nil
	}
	r.c.enrolling.Lock() // the tasks of a peer share its channel
	defer r.c.enrolling.Unlock()
	stream, err := f.FollowChannel(ctx, r.owner(), r.channelID(), r.w.SessionID)
	if kind := fault.KindOf(err); err != nil && (kind == fault.NotFound || kind == fault.Conflict) {
		if err = r.connectChannel(ctx); err == nil {
			stream, err = f.FollowChannel(ctx, r.owner(), r.channelID(), r.w.SessionID)
		}
	}
	if err != nil {
		return markOwnError(fmt.Errorf("peer: channel of task %s: %w", r.taskID, err))
	}
	r.stream = stream
	return nil
}

// connectChannel opens the channel, and has it follow the session of the task from now on.
func (r *run) connectChannel(ctx context.Context) error {
	res, err := r.c.rt.Do(ctx, r.owner(), &command.ConnectChannel{
		ChannelID: r.channelID(), Transport: "http_json", PeerRole: "peer_agent", NativeProtocol: Protocol,
		AccountRef: peerName(r.w.Peer), Capabilities: channelCapabilities,
	})
	if err != nil {
		return err
	}
	opened, ok := res.(*command.ConnectChannelResult)
	if !ok {
		return fmt.Errorf("unexpected %T", res)
	}
	oldest, err := r.c.rt.Oldest(ctx, r.owner(), r.w.SessionID)
	if err != nil {
		return err
	}
	_, last, err := r.c.rt.Events(ctx, r.owner(), r.w.SessionID, oldest-1, 1)
	if err != nil {
		return err
	}
	_, err = r.c.rt.Do(ctx, r.owner(), &command.ReconnectChannel{
		ChannelID: r.channelID(), ResumeToken: opened.ResumeToken, SessionID: r.w.SessionID, LastSequence: &last,
	})
	return err
}

// leaveChannel says that the line to the peer is closed.
func (r *run) leaveChannel() {
	if r.stream != nil {
		r.stream.Left("closed")
		r.stream = nil
	}
}

// owner is the account of the task, so that it sees the channel that its work goes over.
func (r *run) owner() command.Caller {
	return command.Caller{Account: r.w.Account, Adapter: true, Actor: event.Actor{Kind: "runtime", ID: "a2a"}}
}

// peerName is a peer as facts name it: its id, or the host of its card, whose address may
// hold a secret.
func peerName(ref string) string {
	if u, err := url.Parse(ref); err == nil && u.Host != "" {
		ref = u.Scheme + "://" + u.Host
	}
	return wire.Shorten(ref, 1000)
}
