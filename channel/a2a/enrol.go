package a2a

import (
	"context"

	"agentd/channel"
	"agentd/command"
	"agentd/fault"
)

// peerCapabilities are what every peer of the protocol can do.
var peerCapabilities = []string{"streaming", "permissions", "artifacts", "task_delegation"}

// enrolPeer makes the channel of a peer known in the session of its context, which it
// makes if the context is new: before the first message is linked to a task, and whenever
// the peer comes back after it was gone. A peer that is connected is seen again and
// nothing else. The channel is opened without a session, because the peers of an account
// share it over all their contexts.
func (s *Server) enrolPeer(ctx context.Context, c *call, sessionID string) error {
	id := channelOf(c.caller)
	if here, err := s.joinChannel(ctx, c.caller, id, sessionID); err != nil || here != nil {
		if here != nil {
			here.Left("unsubscribed")
		}
		return err
	}
	oldest, err := s.opt.Runtime.Oldest(ctx, c.caller, sessionID)
	if err != nil && fault.KindOf(err) == fault.NotFound {
		oldest = 1
		_, err = s.runCommand(ctx, c, &command.CreateSession{SessionID: sessionID})
	}
	if err != nil {
		return err
	}
	opened, err := channel.ResultOf[command.ConnectChannelResult](s.runCommand(ctx, c, &command.ConnectChannel{
		ChannelID: id, Transport: "http_json", PeerRole: "peer_agent", NativeProtocol: Protocol, Capabilities: peerCapabilities,
	}))
	if err != nil {
		return err
	}
	// What it missed the peer asks for with the task, so its cursor is at the end.
	_, last, err := s.opt.Runtime.Events(ctx, c.caller, sessionID, oldest-1, 1)
	if err != nil {
		return err
	}
	_, err = s.runCommand(ctx, c, &command.ReconnectChannel{ChannelID: id, ResumeToken: opened.ResumeToken, SessionID: sessionID, LastSequence: &last})
	return err
}

// joinChannel returns a stream of a peer that is connected in a session; nil if it
// isn't, or not to this process.
func (s *Server) joinChannel(ctx context.Context, caller command.Caller, channelID, sessionID string) (command.ChannelStream, error) {
	f, ok := s.opt.Runtime.(command.ChannelFollower)
	if !ok {
		return nil, nil //nolint:nilnil // no stream is an answer
	}
	ch, err := f.FollowChannel(ctx, caller, channelID, sessionID)
	if kind := fault.KindOf(err); err != nil && (kind == fault.NotFound || kind == fault.Conflict || kind == fault.Unavailable) {
		return nil, nil //nolint:nilnil // as above
	}
	return ch, err
}

// join makes the stream one of its peer's channel: while it is open the peer is there.
// The function that it returns ends that.
func (st *stream) join(ctx context.Context) (context.Context, func()) {
	if st.channelID == "" || st.rec == nil {
		return ctx, func() {}
	}
	ch, err := st.s.joinChannel(ctx, st.caller, st.channelID, st.rec.SessionID)
	if err != nil || ch == nil {
		return ctx, func() {} // the stream goes on; only that it is there isn't known
	}
	return ch.Context(), func() { ch.Left("closed") }
}
