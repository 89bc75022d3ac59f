package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"agentd/command"
)

// TestChannelsOnTheWrongNode: a channel's stream goes to the node that has its session,
// whichever node is asked, also after the peer came back through another one.
func TestChannelsOnTheWrongNode(t *testing.T) {
	a, b := nodes(t)
	made := call[command.CreateSessionResult](a, &command.CreateSession{})
	opened := call[command.ConnectChannelResult](b, &command.ConnectChannel{
		Transport: "sse", PeerRole: "client", SessionID: made.SessionID,
	})
	for round, through := range []*process{b, a, b} {
		ctx, cancel := context.WithCancel(t.Context())
		status, body := through.stream(ctx, made.SessionID, "after=0&channelId="+opened.ChannelID)
		if status != http.StatusOK {
			t.Fatalf("round %d: the stream answers %d", round, status)
		}
		sse, socket := newReader("SSE"), newReader("WebSocket")
		var reading sync.WaitGroup
		reading.Go(func() { sse.overSSE(body, made.SessionID) })
		conn := through.subscribeAs(ctx, fmt.Sprintf(`"sessionId":%q,"channelId":%q`, made.SessionID, opened.ChannelID))
		reading.Go(func() { socket.overSocket(ctx, conn, made.SessionID) })
		turn := through.submitTo(made.SessionID)
		through.completed(turn)
		for _, r := range []*reader{sse, socket} {
			if _, err := r.until(turn.Sequence); err != nil {
				t.Fatalf("round %d: %s: %v", round, r.name, err)
			}
		}
		cancel()
		reading.Wait()
		through.until(made.SessionID, "channel.disconnected", round+1)
		call[command.ReconnectChannelResult](through, &command.ReconnectChannel{
			ChannelID: opened.ChannelID, ResumeToken: opened.ResumeToken, SessionID: made.SessionID,
		})
	}
}
