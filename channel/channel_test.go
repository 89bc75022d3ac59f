package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/state"
)

// channelIn opens a session with a turn and a channel that follows it.
func channelIn(k *runtimetest.Kit, sessionID, channelID string, change func(*command.ConnectChannel)) string {
	k.Helper()
	k.Completes(k.Submit(sessionID, "hello"))
	return connect(k, sessionID, channelID, change)
}

// connect opens a channel and returns its resume token.
func connect(k *runtimetest.Kit, sessionID, channelID string, change func(*command.ConnectChannel)) string {
	k.Helper()
	p := &command.ConnectChannel{ChannelID: channelID, Transport: "websocket", PeerRole: "client", SessionID: sessionID}
	if change != nil {
		change(p)
	}
	return runtimetest.Do[command.ConnectChannelResult](k, p).ResumeToken
}

// follow says that a stream goes to a channel.
func follow(k *runtimetest.Kit, channelID, sessionID string) command.ChannelStream {
	k.Helper()
	s, err := k.Runtime.FollowChannel(context.Background(), command.Local(), channelID, sessionID)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

// ofChannel returns the facts about a channel, in order.
func ofChannel(k *runtimetest.Kit, sessionID, channelID string) []*event.Event {
	k.Helper()
	return slices.DeleteFunc(k.Facts(sessionID), func(e *event.Event) bool { return e.ChannelID != channelID })
}

// listed returns the record of one channel.
func listed(k *runtimetest.Kit, channelID string) command.ChannelRecord {
	k.Helper()
	for _, c := range runtimetest.Do[command.ListChannelsResult](k, &command.ListChannels{}).Channels {
		if c.ChannelID == channelID {
			return c
		}
	}
	k.Fatalf("channel %s is not listed", channelID)
	return command.ChannelRecord{}
}

func TestChannelIsOpenedFollowedAndClosed(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_c", "chan_1", func(p *command.ConnectChannel) {
		p.Capabilities, p.NativeProtocol, p.AccountRef = []string{"streaming", "resume"}, "custom", "tenant 7"
	})
	facts := ofChannel(k, "sess_c", "chan_1")
	p := facts[0].Payload.(*event.ChannelConnected)
	if p.Transport != "websocket" || p.PeerRole != "client" || p.ConnectedBy == nil || p.EnrolledRole != "admin" || !slices.Equal(p.Sessions, []string{"sess_c"}) {
		t.Errorf("got %+v", p)
	}
	for _, e := range k.Facts("sess_c") {
		if b, _ := json.Marshal(e.Payload); strings.Contains(string(b), token) {
			t.Errorf("the token is in fact %d", e.Sequence)
		}
	}
	if len(token) < 43 || p.ResumeTokenRef == "" || strings.Contains(p.ResumeTokenRef, token) {
		t.Errorf("token %q, reference %q", token, p.ResumeTokenRef)
	}
	rec := listed(k, "chan_1")
	if rec.Status != "connected" || rec.NativeProtocol != "custom" || rec.AccountRef != "tenant 7" || rec.LastSeenAt.IsZero() || len(rec.Links) != 1 {
		t.Errorf("got %+v", rec)
	}
	got := runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_1", Reason: "the lid is closed"})
	if got.Status != "disconnected" {
		t.Errorf("got %+v", got)
	}
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_1"}) // twice is fine, and no fact
	facts = ofChannel(k, "sess_c", "chan_1")
	gone := facts[len(facts)-1].Payload.(*event.ChannelDisconnected)
	if len(facts) != 2 || gone.Reason != "closed" || gone.Detail != "the lid is closed" {
		t.Errorf("%d facts, the last %+v", len(facts), gone)
	}
	if rec := listed(k, "chan_1"); rec.Status != "disconnected" || rec.Links[0].Reason != "closed" {
		t.Errorf("got %+v", rec)
	}
}

func TestChannelWithoutASessionBelongsToTheRuntime(t *testing.T) {
	k := runtimetest.New(t)
	acme := runtimetest.ClientOf("acme")
	res := runtimetest.DoAs[command.ConnectChannelResult](k, acme, &command.ConnectChannel{Transport: "stdio", PeerRole: "worker"})
	if !strings.HasPrefix(res.ChannelID, "chan_") {
		t.Errorf("the id is %s", res.ChannelID)
	}
	if facts := ofChannel(k, event.RuntimeSession, res.ChannelID); len(facts) != 1 {
		t.Errorf("%d facts in the runtime's session", len(facts))
	}
	// Its owner sees the channel, but not the session that its facts are in.
	if got := runtimetest.DoAs[command.ListChannelsResult](k, acme, &command.ListChannels{}); len(got.Channels) != 1 || got.Total != 1 {
		t.Errorf("its owner sees %d channels", len(got.Channels))
	}
	runtimetest.RefusedAs(k, acme, &command.ListChannels{SessionID: event.RuntimeSession}, fault.NotFound)
	runtimetest.RefusedAs(k, acme, &command.ConnectChannel{Transport: "stdio", PeerRole: "worker", SessionID: event.RuntimeSession}, fault.NotFound)
	back := runtimetest.DoAs[command.ReconnectChannelResult](k, acme, &command.ReconnectChannel{ChannelID: res.ChannelID, ResumeToken: res.ResumeToken})
	if back.Snapshot != nil || back.RecoveryMode != "replay" {
		t.Errorf("got %+v", back)
	}
	// A session is added when the peer comes back with it.
	mine := runtimetest.DoAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	runtimetest.DoAs[command.ReconnectChannelResult](k, acme, &command.ReconnectChannel{ChannelID: res.ChannelID, ResumeToken: res.ResumeToken, SessionID: mine.SessionID})
	facts := ofChannel(k, mine.SessionID, res.ChannelID)
	if len(facts) != 2 || facts[0].Payload.(*event.ChannelConnected).HomeSession != event.RuntimeSession || facts[1].Type != event.TypeChannelResumed {
		t.Errorf("got %v", facts)
	}
	runtimetest.DoAs[command.ChannelResult](k, acme, &command.DisconnectChannel{ChannelID: res.ChannelID})
	for _, id := range []string{event.RuntimeSession, mine.SessionID} {
		if facts := ofChannel(k, id, res.ChannelID); facts[len(facts)-1].Type != event.TypeChannelDisconnected {
			t.Errorf("the channel is not disconnected in %s", id)
		}
	}
}

func TestChannelIsOpenedOnce(t *testing.T) {
	k := runtimetest.New(t)
	k.Completes(k.Submit("sess_o", "hello"))
	p := func() *command.ConnectChannel {
		return &command.ConnectChannel{ChannelID: "chan_o", Transport: "sse", PeerRole: "host", SessionID: "sess_o"}
	}
	first := runtimetest.Do[command.ConnectChannelResult](k, p())
	if again := runtimetest.Do[command.ConnectChannelResult](k, p()); *again != *first {
		t.Errorf("%+v became %+v", first, again)
	}
	keyed := &command.ConnectChannel{Transport: "sse", PeerRole: "host"}
	keyed.IdempotencyKey = "once"
	one := runtimetest.Do[command.ConnectChannelResult](k, keyed)
	k.Close()
	k.Open()
	if two := runtimetest.Do[command.ConnectChannelResult](k, keyed); *two != *one {
		t.Errorf("%+v became %+v after a restart", one, two)
	}
	other := p()
	other.Transport = "stdio"
	runtimetest.Refused(k, other, fault.Conflict)
	elsewhere := p()
	elsewhere.SessionID = ""
	runtimetest.Refused(k, elsewhere, fault.Conflict)
	runtimetest.RefusedAs(k, runtimetest.ClientOf("acme"), &command.ConnectChannel{ChannelID: "chan_o", Transport: "sse", PeerRole: "host"}, fault.Conflict)
	if n := k.CountFacts("sess_o", event.TypeChannelConnected); n != 1 {
		t.Errorf("%d channels were opened", n)
	}
}

func TestChannelCommandsRefuseWhatCannotBe(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_b", "chan_b", nil)
	seven := uint64(7)
	for _, p := range []command.Params{
		&command.ReconnectChannel{ChannelID: "chan_no", ResumeToken: "x"},
		&command.AckEvents{ChannelID: "chan_no", Sequence: 1},
		&command.DisconnectChannel{ChannelID: "chan_no"},
		&command.ListChannels{SessionID: "sess_no"},
		&command.ConnectChannel{Transport: "sse", PeerRole: "host", SessionID: "sess_no"},
		&command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: token, SessionID: "sess_no"},
		&command.AckEvents{ChannelID: "chan_b", SessionID: "sess_no", Sequence: 1},
	} {
		runtimetest.Refused(k, p, fault.NotFound)
	}
	runtimetest.Refused(k, &command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: token + "x"}, fault.Forbidden)
	runtimetest.Refused(k, &command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: "resume:" + strings.Repeat("0", 64), LastSequence: &seven}, fault.Forbidden)
	// The token is bound to the role and account that it was given to.
	runtimetest.RefusedAs(k, command.Caller{Admin: true, Account: "acme"}, &command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: token}, fault.Forbidden)
	runtimetest.RefusedAs(k, runtimetest.ClientOf(""), &command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: token}, fault.Forbidden)
	for _, p := range []command.Params{
		&command.ReconnectChannel{ChannelID: "chan_b", ResumeToken: token},
		&command.AckEvents{ChannelID: "chan_b", Sequence: 1},
		&command.DisconnectChannel{ChannelID: "chan_b"},
	} {
		runtimetest.RefusedAs(k, runtimetest.ClientOf("acme"), p, fault.NotFound)
	}
	if got := runtimetest.DoAs[command.ListChannelsResult](k, runtimetest.ClientOf("acme"), &command.ListChannels{}); len(got.Channels) != 0 {
		t.Errorf("another account sees %+v", got.Channels)
	}
	if _, err := k.Runtime.FollowChannel(context.Background(), runtimetest.ClientOf("acme"), "chan_b", "sess_b"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another account follows: %v", err)
	}
	if _, err := k.Runtime.FollowChannel(context.Background(), command.Local(), "chan_b", "sess_other"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a session that the channel doesn't follow: %v", err)
	}
	if rec := listed(k, "chan_b"); rec.Status != "connected" {
		t.Errorf("what was refused left %+v", rec)
	}
}

func TestAcknowledgementsNeverGoBack(t *testing.T) {
	k := runtimetest.New(t)
	channelIn(k, "sess_a", "chan_a", nil)
	ack := func(n uint64) *command.ChannelResult {
		return runtimetest.Do[command.ChannelResult](k, &command.AckEvents{ChannelID: "chan_a", Sequence: n})
	}
	if got := ack(5); got.LastAcknowledged != 5 || got.Status != "connected" {
		t.Errorf("got %+v", got)
	}
	if got := ack(3); got.LastAcknowledged != 5 {
		t.Errorf("it went back: %+v", got)
	}
	runtimetest.Refused(k, &command.AckEvents{ChannelID: "chan_a", Sequence: 10_000}, fault.Conflict)
	before := len(k.Facts("sess_a"))
	for n := uint64(6); n < uint64(before); n++ {
		ack(n)
	}
	if after := len(k.Facts("sess_a")); after != before {
		t.Errorf("acknowledging made %d events", after-before)
	}
	messages := runtimetest.Payloads[*event.ChannelMessage](k, "sess_a")
	if len(messages) != 1 || messages[0].Kind != "acknowledgement" || messages[0].Acknowledged != 5 {
		t.Errorf("got %+v", messages)
	}
	k.Close()
	k.Open() // a cursor is durable
	if rec := listed(k, "chan_a"); rec.LastAcknowledged != uint64(before)-1 {
		t.Errorf("the cursor is %d, want %d", rec.LastAcknowledged, before-1)
	}
	gone := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
	if gone.LastAcknowledged != uint64(before)-1 || gone.Reason != "runtime_restart" {
		t.Errorf("got %+v", gone)
	}
}

func TestOneChannelFollowsSeveralSessions(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_1", "chan_m", nil)
	k.Completes(k.Submit("sess_2", "hello"))
	k.Completes(k.Submit("sess_3", "hello"))
	runtimetest.Do[command.ChannelResult](k, &command.AckEvents{ChannelID: "chan_m", SessionID: "sess_2", Sequence: 4})
	back := runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_m", ResumeToken: token, SessionID: "sess_3"})
	if back.ReplayFrom != 1 {
		t.Errorf("a session that was added begins at %d", back.ReplayFrom)
	}
	runtimetest.Do[command.ChannelResult](k, &command.AckEvents{ChannelID: "chan_m", Sequence: 2})
	rec := listed(k, "chan_m")
	cursors := map[string]uint64{}
	for _, l := range rec.Links {
		cursors[l.SessionID] = l.LastAcknowledged
		if l.Status != "connected" {
			t.Errorf("got %+v", l)
		}
	}
	if fmt.Sprint(cursors) != "map[sess_1:2 sess_2:4 sess_3:0]" || rec.LastAcknowledged != 2 {
		t.Errorf("cursors %v, %+v", cursors, rec)
	}
	for _, id := range []string{"sess_1", "sess_2", "sess_3"} {
		if got := runtimetest.Do[command.ListChannelsResult](k, &command.ListChannels{SessionID: id}); len(got.Channels) != 1 {
			t.Errorf("%d channels follow %s", len(got.Channels), id)
		}
	}
	one, two := follow(k, "chan_m", "sess_1"), follow(k, "chan_m", "sess_2")
	one.Left("closed")
	if rec := listed(k, "chan_m"); rec.Status != "connected" {
		t.Errorf("one of two streams ended and the channel is %s", rec.Status)
	}
	two.Left("closed")
	for _, id := range []string{"sess_1", "sess_2", "sess_3"} {
		if n := k.CountFacts(id, event.TypeChannelDisconnected); n != 1 {
			t.Errorf("%d ends of the channel in %s", n, id)
		}
	}
}

func TestChannelEndsWithItsStreamAndWorkGoesOn(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("first"), runtimetest.Says("second"))
	token := channelIn(k, "sess_e", "chan_e", nil)
	s := follow(k, "chan_e", "sess_e")
	r := k.Submit("sess_e", "go on")
	s.Left("closed")
	k.Completes(r)
	gone := k.WaitFor("sess_e", runtimetest.FactIs(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
	if gone.Reason != "closed" {
		t.Errorf("got %+v", gone)
	}
	if _, err := k.Runtime.FollowChannel(context.Background(), command.Local(), "chan_e", "sess_e"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a channel that is gone is followed: %v", err)
	}
	runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_e", ResumeToken: token})
	// Whoever only stops to follow is still there.
	follow(k, "chan_e", "sess_e").Left("unsubscribed")
	if rec := listed(k, "chan_e"); rec.Status != "connected" {
		t.Errorf("got %+v", rec)
	}
	snap := sessionSnapshot(k, "sess_e")
	if snap.ChannelSummary.Connected != 1 || snap.ChannelSummary.Resumes != 1 || snap.ChannelSummary.Disconnects != 1 {
		t.Errorf("got %+v", snap.ChannelSummary)
	}
}

// sessionSnapshot returns a session's snapshot.
func sessionSnapshot(k *runtimetest.Kit, sessionID string) *state.SessionSnapshot {
	k.Helper()
	var snap *state.SessionSnapshot
	if err := k.Runtime.View(context.Background(), sessionID, func(s *state.Session) error {
		snap = s.Snapshot()
		return nil
	}); err != nil {
		k.Fatal(err)
	}
	return snap
}

func TestSilentPeerIsGone(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Channels.Silence = 20 * time.Millisecond })
	channelIn(k, "sess_s", "chan_s", nil)
	gone := k.WaitFor("sess_s", runtimetest.FactIs(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
	if gone.Reason != "heartbeat_timeout" {
		t.Errorf("got %+v", gone)
	}
	// An acknowledgement that comes late says that the peer has to come back.
	if got := runtimetest.Do[command.ChannelResult](k, &command.AckEvents{ChannelID: "chan_s", Sequence: 1}); got.Status != "disconnected" {
		t.Errorf("got %+v", got)
	}
}

func TestStreamKeepsAPeerAlive(t *testing.T) {
	runtimetest.InTime(t, 10*time.Millisecond, func(silence time.Duration) bool {
		k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Channels.Silence = silence })
		k.Completes(k.Submit("sess_k", "hello"))
		connect(k, "sess_k", "chan_k", nil)
		s, err := k.Runtime.FollowChannel(context.Background(), command.Local(), "chan_k", "sess_k")
		if err != nil {
			return false // it was silent before its stream came
		}
		defer s.Left("closed")
		// Another channel without a stream is found silent meanwhile, twice.
		for _, id := range []string{"chan_x", "chan_y"} {
			connect(k, "sess_k", id, nil)
			k.WaitFor("sess_k", func(e *event.Event) bool { return e.ChannelID == id && e.Type == event.TypeChannelDisconnected })
		}
		if n := k.CountFacts("sess_k", event.TypeChannelDisconnected); n != 2 {
			t.Errorf("%d ends, want 2", n)
		}
		return true
	})
}
