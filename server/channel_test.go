package server_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"agentd/command"
)

// following is a backend that counts the streams which are tied to channels.
type following struct {
	*fake
	streams atomic.Int64
}

// FollowChannel implements [command.ChannelFollower].
func (f *following) FollowChannel(ctx context.Context, _ command.Caller, _, _ string) (command.ChannelStream, error) {
	f.streams.Add(1)
	return tied{ctx}, nil
}

type tied struct{ ctx context.Context }

func (t tied) Context() context.Context { return t.ctx }
func (tied) After() uint64              { return 0 }
func (tied) Left(string)                {}

// TestObserversFollowNoChannel: with its last stream a channel's peer is recorded as
// gone, so whoever may change nothing may not have one.
func TestObserversFollowNoChannel(t *testing.T) {
	f := &following{fake: newFake()}
	f.open("s", "a")
	r := runOn(t, f, nil)
	ask := func(token string) *http.Request {
		req := r.request(http.MethodGet, "/v1/sessions/s/events?channelId=chan_a", "")
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		return req
	}
	a := r.sendRequest(ask("observer-token"))
	if a.status != http.StatusForbidden || f.streams.Load() != 0 {
		t.Fatalf("an observer's stream: %d %s", a.status, a.body)
	}
	a.problem(t)
	ws := r.dial(t.Context(), "observer-token")
	defer hangUp(ws)
	wsSendf(t, ws, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","channelId":"chan_a"}}`)
	checkRPC(t, "an observer's subscription", wsRead(t, ws), -32000, "1")
	if n := f.streams.Load(); n != 0 {
		t.Errorf("%d streams of an observer are tied to a channel", n)
	}
	req := ask("client-token")
	req.Method = http.MethodHead // begins and ends
	if a := r.sendRequest(req); a.status != http.StatusOK || f.streams.Load() != 1 {
		t.Errorf("a client's stream: %d, %d tied", a.status, f.streams.Load())
	}
}
