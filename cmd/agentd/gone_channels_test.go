package main

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
)

// TestChannelsOfNodesThatAreGone: peers whose channel has no session end with their node, as
// facts and while other nodes live: those of its earlier process when it is back, and all of
// them when it is forgotten. Those of other nodes stay.
func TestChannelsOfNodesThatAreGone(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	first := f.placed("node-a", t.TempDir(), movedScript, "")
	a, b := first.node(dir), f.placed("node-b", t.TempDir(), movedScript, "").node(f.dir())
	connect := func(p *process) string {
		t.Helper()
		return call[command.ConnectChannelResult](p, &command.ConnectChannel{Transport: "sse", PeerRole: "client"}).ChannelID
	}
	ended := func(n int, id, detail string) {
		t.Helper()
		e := b.until(event.RuntimeSession, "channel.disconnected", n)
		if p := e.Payload.(*event.ChannelDisconnected); e.ChannelID != id || p.Reason != "runtime_restart" || !strings.Contains(p.Detail, detail) {
			t.Errorf("%s ended with %+v; want %s, %q", e.ChannelID, p, id, detail)
		}
	}
	stays, one := connect(b), connect(a)
	f.kill(a)
	a = first.node(dir)
	ended(1, one, "")
	two := connect(a)
	f.kill(a)
	call[command.ForgetNodeResult](b, &command.ForgetNode{NodeID: "node-a"})
	ended(2, two, "node-a is gone")
	for _, c := range call[command.ListChannelsResult](b, &command.ListChannels{}).Channels {
		if c.ChannelID == stays && c.Status != "connected" {
			t.Errorf("the channel of the node that lives: %+v", c)
		}
	}
}
