package main

import (
	"context"
	"os"

	"agentd"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
	"agentd/session"
	"agentd/store"
)

// backend is the runtime as the server wants it.
type backend struct {
	runtime *agentd.Runtime
	store   store.Store
	listen  string
}

var (
	_ server.Backend          = (*backend)(nil)
	_ command.ChannelFollower = (*backend)(nil)
)

// Do implements [server.Backend].
func (b *backend) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	return b.runtime.Do(ctx, c, p)
}

// Events implements [server.Backend].
func (b *backend) Events(ctx context.Context, c command.Caller, sessionID string, after uint64, limit int) ([]command.Delivered, uint64, error) {
	records, last, err := b.runtime.Events(ctx, c, sessionID, after, limit)
	return eventsOf(sessionID, records), last, err
}

// Oldest implements [server.Backend]. Nothing is removed by retention yet; the
// first record says so, also when that changes.
func (b *backend) Oldest(ctx context.Context, c command.Caller, sessionID string) (uint64, error) {
	records, _, err := b.runtime.Events(ctx, c, sessionID, 0, 1)
	if err != nil {
		return 0, err
	}
	if len(records) == 0 {
		return 1, nil
	}
	return records[0].Sequence, nil
}

// Subscribe implements [server.Backend].
func (b *backend) Subscribe(ctx context.Context, c command.Caller, sessionID string, after uint64) (command.Stream, error) {
	sub, err := b.runtime.Subscribe(ctx, c, sessionID, after)
	if err != nil {
		return nil, err
	}
	return &sessionStream{id: sessionID, Subscription: sub}, nil
}

// FollowChannel implements [command.ChannelFollower].
func (b *backend) FollowChannel(ctx context.Context, c command.Caller, channelID, sessionID string) (command.ChannelStream, error) {
	return b.runtime.FollowChannel(ctx, c, channelID, sessionID)
}

// SubscribeAll implements [server.Backend].
func (b *backend) SubscribeAll(_ context.Context, c command.Caller) (command.Stream, error) {
	return &feedStream{b.runtime.SubscribeAll(c)}, nil
}

// Output implements [server.Backend].
func (b *backend) Output(ctx context.Context, c command.Caller, ref string) (*command.Output, error) {
	blob, mediaType, err := b.runtime.Output(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	info := blob.Info()
	return &command.Output{Content: blob, MediaType: mediaType, Size: info.Size, ETag: info.Ref}, nil
}

// Ready implements [server.Backend].
func (b *backend) Ready(context.Context) error {
	if err := b.runtime.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the store acknowledges nothing")
	}
	return nil
}

// runtimeStatus is what operators see of the runtime.
type runtimeStatus struct {
	RuntimeID string   `json:"runtimeId"`
	PID       int      `json:"pid"`
	Listen    string   `json:"listen"`
	Engine    string   `json:"engine"`
	Data      string   `json:"data"`
	Format    int      `json:"dataVersion"`
	Recovery  []string `json:"recovered"`
	Ready     bool     `json:"ready"`
	Problem   string   `json:"problem,omitempty"`
}

// Status implements [server.Backend].
func (b *backend) Status(ctx context.Context) any {
	s := runtimeStatus{RuntimeID: b.runtime.ID(), PID: os.Getpid(), Listen: b.listen, Ready: true, Recovery: []string{}}
	meta, err := b.store.Meta(ctx)
	if err == nil {
		s.Engine, s.Data, s.Format = meta.Engine, meta.Location, meta.Version
		s.Recovery = append(s.Recovery, meta.Recovery...)
		err = b.runtime.Err()
	}
	if err != nil {
		s.Ready, s.Problem = false, err.Error()
	}
	return s
}

func eventsOf(sessionID string, records []store.Record) []command.Delivered {
	out := make([]command.Delivered, len(records))
	for i, r := range records {
		out[i] = command.Delivered{SessionID: sessionID, Sequence: r.Sequence, Data: r.Data}
	}
	return out
}

// sessionStream is a subscription to one session.
type sessionStream struct {
	*session.Subscription
	id string
}

// Next implements [command.Stream].
func (s *sessionStream) Next(ctx context.Context) ([]command.Delivered, error) {
	records, err := s.Subscription.Next(ctx)
	return eventsOf(s.id, records), err
}

// feedStream is a subscription to all sessions.
type feedStream struct{ *session.Feed }

// Next implements [command.Stream].
func (s *feedStream) Next(ctx context.Context) ([]command.Delivered, error) {
	records, err := s.Feed.Next(ctx)
	out := make([]command.Delivered, len(records))
	for i, r := range records {
		out[i] = command.Delivered{SessionID: r.SessionID, Sequence: r.Sequence, Data: r.Data}
	}
	return out, err
}
