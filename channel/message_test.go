package channel_test

import (
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/quota"
)

// Remote channels, "Remote session ingress": the source channel of an input is a fact.
func TestTurnsNameTheChannelTheyCameThrough(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("hello"), runtimetest.Says("again"))
	channelIn(k, "sess_s", "chan_s", nil)
	r := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_s", Input: runtimetest.Quoted("again"), ChannelID: "chan_s"})
	k.Completes(r)
	e := k.WaitFor("sess_s", runtimetest.FactIs(event.TypeTurnSubmitted, r.TurnID))
	if p := e.Payload.(*event.TurnSubmitted); e.ChannelID != "chan_s" || p.Source != "channel" {
		t.Errorf("channel %q, source %q", e.ChannelID, p.Source)
	}
	k.Close()
	k.Open()
	turns := k.Thread(r).Turns
	if last := turns[len(turns)-1]; last.ChannelID != "chan_s" || last.Source != "channel" {
		t.Errorf("the read model after a restart: %+v", last)
	}
	runtimetest.Refused(k, &command.SubmitTurn{SessionID: "sess_s", Input: runtimetest.Quoted("x"), ChannelID: "chan_none"}, fault.NotFound)
	foreign := &command.SubmitTurn{Input: runtimetest.Quoted("x"), ChannelID: "chan_s"}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("acme"), foreign, fault.NotFound)
}

// Remote channels, "Event classes": channel.message is a message or a status of the
// channel that is not a turn. A peer can send one.
func TestPeersSendMessages(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("hello"))
	channelIn(k, "sess_m", "chan_m", nil)
	before := len(k.Facts("sess_m"))
	p := &command.SendChannelMessage{ChannelID: "chan_m", Kind: "status", Text: "the build machine is back", NativeID: "m1", Mutation: command.Mutation{IdempotencyKey: "k"}}
	first := runtimetest.Do[command.SendChannelMessageResult](k, p)
	if again := runtimetest.Do[command.SendChannelMessageResult](k, p); *again != *first {
		t.Errorf("repeated: %+v, first %+v", again, first)
	}
	long := runtimetest.Do[command.SendChannelMessageResult](k, &command.SendChannelMessage{ChannelID: "chan_m", Text: strings.Repeat("ä", 5000)})
	facts := k.Facts("sess_m")
	if len(facts) != before+2 {
		t.Fatalf("%d facts more", len(facts)-before)
	}
	if m := facts[first.Sequence-1].Payload.(*event.ChannelMessage); m.Direction != "in" || m.Kind != "status" || m.Text != p.Text || m.NativeID != "m1" {
		t.Errorf("message %+v", m)
	}
	if m := facts[long.Sequence-1].Payload.(*event.ChannelMessage); len(m.Text) > 4096 || !strings.HasPrefix(m.Text, "ä") || k.ReadOutput(m.MessageRef) != strings.Repeat("ä", 5000) {
		t.Errorf("a long message has %d bytes in the fact, the rest is behind %q", len(m.Text), m.MessageRef)
	}
	runtimetest.Refused(k, &command.SendChannelMessage{ChannelID: "chan_m"}, fault.InvalidParams)
	runtimetest.Refused(k, &command.SendChannelMessage{ChannelID: "chan_none", Text: "x"}, fault.NotFound)
	runtimetest.RefusedAs(k, runtimetest.ClientOf("acme"), &command.SendChannelMessage{ChannelID: "chan_m", Text: "x"}, fault.NotFound)
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_m"})
	runtimetest.Refused(k, &command.SendChannelMessage{ChannelID: "chan_m", Text: "x"}, fault.Conflict)
}

// TestChannelsWithoutASessionCountForTheirAccount: they and their messages are in the
// runtime's own session, which has no quota. A client that has used up its storage can't
// go on there, and can leave.
func TestChannelsWithoutASessionCountForTheirAccount(t *testing.T) {
	limit := func(o *agentd.Options) { o.Quotas = quota.Policy{Accounts: quota.Limits{StoredBytes: 50_000}} }
	k := runtimetest.NewWith(t, limit)
	client := runtimetest.ClientOf("acme")
	stored := func(caller command.Caller) int64 {
		for _, q := range runtimetest.DoAs[command.GetQuotasResult](k, caller, &command.GetQuotas{}).Quotas {
			if q.Account == caller.Account && q.Quota == string(quota.StoredBytes) {
				return q.Used
			}
		}
		t.Fatal("no quota of stored bytes")
		return 0
	}
	open := &command.ConnectChannel{Transport: "websocket", PeerRole: "client", ChannelID: "chan_w"}
	runtimetest.DoAs[command.ConnectChannelResult](k, client, open)
	message := &command.SendChannelMessage{ChannelID: "chan_w", Text: strings.Repeat("word ", 8_000)}
	runtimetest.DoAs[command.SendChannelMessageResult](k, client, message)
	if n := stored(client); n < 40_000 {
		t.Fatalf("%d bytes are counted", n)
	}
	runtimetest.DoAs[command.SendChannelMessageResult](k, client, message)
	runtimetest.RefusedAs(k, client, message, fault.RateLimited)
	runtimetest.RefusedAs(k, client, &command.ConnectChannel{Transport: "websocket", PeerRole: "client"}, fault.RateLimited)
	other := runtimetest.ClientOf("other")
	if n := stored(other); n != 0 {
		t.Errorf("%d bytes are counted for another account", n)
	}
	runtimetest.DoAs[command.ConnectChannelResult](k, other, &command.ConnectChannel{Transport: "websocket", PeerRole: "client"})
	runtimetest.DoAs[command.ChannelResult](k, client, &command.DisconnectChannel{ChannelID: "chan_w"})
}
