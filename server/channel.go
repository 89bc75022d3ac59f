package server

import (
	"context"

	"agentd/command"
	"agentd/fault"
)

// joinChannel ties a stream that is about to begin to a channel; without one it returns
// what ties it to nothing. A channel's stream changes something: with its last one
// the peer is gone, which is recorded.
func (s *Server) joinChannel(ctx context.Context, q *request, channelID, sessionID string) (command.ChannelStream, error) {
	if channelID == "" {
		return unchannelled{ctx}, nil
	}
	if sessionID == "" {
		return nil, fault.Param("channelId", "is only allowed for the events of one session")
	}
	if need := command.RoleClient; !q.login.Role.Allows(need) {
		return nil, fault.New(fault.Forbidden, "a stream of a channel needs a token with the role %s; this one has the role %s", need, q.login.Role)
	}
	f, ok := s.backend.(command.ChannelFollower)
	if !ok {
		return nil, fault.New(fault.Unavailable, "channels are not available in this build")
	}
	return f.FollowChannel(ctx, q.caller, channelID, sessionID)
}

// cursor is where a stream begins: after what the caller has, or after what the
// channel's peer acknowledged.
func cursor(given uint64, ch command.ChannelStream) uint64 {
	if given == 0 {
		return ch.After()
	}
	return given
}

// streamEndReason returns the reason that a channel records for the end of a stream.
func (s *Server) streamEndReason() string {
	if s.isStopping() {
		return "shutdown"
	}
	return "closed"
}

// unchannelled is a stream that belongs to no channel.
type unchannelled struct {
	ctx context.Context //nolint:containedctx // it is what the stream was given
}

func (u unchannelled) Context() context.Context { return u.ctx }
func (unchannelled) After() uint64              { return 0 }
func (unchannelled) Left(string)                {}
