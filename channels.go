package agentd

import (
	"context"
	"crypto/rand"
	"fmt"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
)

// openChannels makes the hub of remote channels. The key that resume tokens are
// derived from is made once and kept in the store.
func (r *Runtime) openChannels(ctx context.Context, redact func(event.Raw) event.Raw) error {
	made := make([]byte, 32)
	_, _ = rand.Read(made) // it never fails
	key, err := r.opt.Store.SetMeta(ctx, "channelKey", made)
	if err != nil {
		return fmt.Errorf("agentd: key of channels: %w", err)
	}
	r.channels = channel.New(channel.Options{
		Key: key, Silence: r.opt.Channels.Silence, ToolGrace: r.opt.Channels.ToolGrace,
		CheckTool: r.loop.CheckClientTool, Offer: r.loop.OfferClientTools, Redact: redact, Logger: r.opt.Logger,
	})
	return nil
}

// FollowChannel says that a stream of a session now goes to the peer of a remote
// channel; see [command.ChannelFollower].
func (r *Runtime) FollowChannel(ctx context.Context, caller command.Caller, channelID, sessionID string) (command.ChannelStream, error) {
	return r.channels.Follow(ctx, caller, channelID, sessionID)
}
