package a2a_test

import (
	"context"
	"io"
	"testing"

	"agentd/command"
	"agentd/event"
)

// channels are the connected channels of a session as list_channels shows them.
func channels(k *kit, sessionID string) []command.ChannelRecord {
	k.t.Helper()
	res, err := k.runtime.Do(context.Background(), command.Local(), &command.ListChannels{SessionID: sessionID})
	if err != nil {
		k.t.Fatal(err)
	}
	return res.(*command.ListChannelsResult).Channels
}

// Remote channels, "A2A alignment": streaming is channel.connected and so on. A channel
// that facts name is one that list_channels shows.
func TestPeersHaveAChannel(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "say Hello.")).task()
	session := sessionOf(task)
	list := channels(k, session)
	if len(list) != 1 || list[0].Status != "connected" || list[0].NativeProtocol != "a2a" || list[0].PeerRole != "peer_agent" {
		t.Fatalf("channels %+v", list)
	}
	if linked, connected := k.facts(session, event.TypeChannelPeerTaskLinked)[0], k.facts(session, event.TypeChannelConnected)[0]; linked.Sequence < connected.Sequence {
		t.Errorf("the task is linked at %d to a channel that is connected at %d", linked.Sequence, connected.Sequence)
	}
	for _, e := range k.facts(session) {
		if e.ChannelID != "" && e.ChannelID != list[0].ChannelID {
			t.Errorf("%s names the channel %s", e.Type, e.ChannelID)
		}
	}
	if p := k.facts(session, event.TypeTurnSubmitted)[0]; p.ChannelID != list[0].ChannelID || p.Payload.(*event.TurnSubmitted).Source != "channel" {
		t.Errorf("the turn came through %q", p.ChannelID)
	}
	k.call(httpJSON, "SendMessage", message("m2", "say More.", object{"contextId": task["contextId"]})).task()
	if n := len(k.facts(session, event.TypeChannelConnected)); n != 1 {
		t.Errorf("%d connections for a peer that was there", n)
	}
	k.restart()
	k.waitFor(session, event.TypeChannelDisconnected, nil)
	k.call(jsonRPC, "SendMessage", message("m3", "say Back.", object{"contextId": task["contextId"]})).task()
	k.waitFor(session, event.TypeChannelResumed, func(e *event.Event) bool {
		return e.Sequence > k.facts(session, event.TypeChannelDisconnected)[0].Sequence
	})
	other := k.as("bob", jsonRPC, "SendMessage", message("m1", "say Hello.")).task()
	if theirs := channels(k, sessionOf(other)); len(theirs) != 1 || theirs[0].ChannelID == list[0].ChannelID {
		t.Errorf("another account's channel: %+v", theirs)
	}
	// "Use artifact refs for durable output": what the task delivered can be read.
	a := k.waitFor(session, event.TypeArtifactChanged, nil).Payload.(*event.ArtifactChanged)
	if done, changed := k.facts(session, event.TypeTaskCompleted)[0], k.facts(session, event.TypeArtifactChanged)[0]; changed.Sequence > done.Sequence || changed.TaskID != done.TaskID {
		t.Errorf("the artifact of task %s is recorded at %d, the end of %s at %d", changed.TaskID, changed.Sequence, done.TaskID, done.Sequence)
	}
	out, err := k.runtime.Port().Output(t.Context(), command.Local(), a.ReadRef)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Content.Close()
	if text, err := io.ReadAll(out.Content); err != nil || string(text) != "Hello." || a.SizeBytes != 6 {
		t.Errorf("the artifact is %q with %d bytes: %v", text, a.SizeBytes, err)
	}
	k.verify()
}

// A peer that only reads follows without a channel: it may not open one.
func TestObserversFollowWithoutAChannel(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", now(message("m1", "hold"))).task()
	s := k.call(jsonRPC, "GetTask", object{"id": task["id"]}).task()
	if s["id"] != task["id"] {
		t.Errorf("%v", s)
	}
	k.as("eve", jsonRPC, "GetTask", object{"id": task["id"]}).task()
	k.agent.open(1)
	k.waitFor(sessionOf(task), event.TypeTurnCompleted, nil)
}

// Remote channels, "A2A alignment" and "Remote permission bridge": in-task authorization
// is forwarded and returned over the peer's channel, and the decision says who made it.
func TestPeersAnswerPermissionsOverTheirChannel(t *testing.T) {
	for _, c := range []struct{ word, decision string }{{"allow", "allow"}, {"deny", "deny"}} {
		t.Run(c.word, func(t *testing.T) {
			k := newKit(t)
			task := k.call(jsonRPC, "SendMessage", message("m1", "write f.txt")).task()
			session := sessionOf(task)
			if c.word == "deny" {
				k.restart() // the request outlives the process
			}
			k.call(jsonRPC, "SendMessage", message("m2", c.word, object{"taskId": task["id"]})).task()
			back := k.waitFor(session, event.TypeChannelPermissionReturned, nil)
			forwarded := k.facts(session, event.TypeChannelPermissionForwarded)
			resolved := k.facts(session, event.TypeActionResolved)[0]
			if len(forwarded) != 1 || forwarded[0].Sequence > resolved.Sequence || back.Sequence < resolved.Sequence {
				t.Fatalf("%d times forwarded; resolved at %d, returned at %d", len(forwarded), resolved.Sequence, back.Sequence)
			}
			if p := forwarded[0].Payload.(*event.ChannelPermissionForwarded); p.Target != "write_file" || p.FinalDecider != "remote" || p.RequestedBy == nil {
				t.Errorf("forwarded %+v", p)
			}
			if p := back.Payload.(*event.ChannelPermissionReturned); p.Decision != c.decision || p.AnswerSource != "peer" || p.FinalDecider != "remote" {
				t.Errorf("returned %+v", p)
			}
			if p := resolved.Payload.(*event.ActionResolved); p.DecisionSource != "peer" || resolved.ChannelID != forwarded[0].ChannelID {
				t.Errorf("resolved by %s through %q", p.DecisionSource, resolved.ChannelID)
			}
			if p := k.facts(session, event.TypePermissionResolved)[0].Payload.(*event.PermissionResolved); p.DecisionSource != "peer" || p.Decision != c.decision {
				t.Errorf("permission %+v", p)
			}
			k.verify()
		})
	}
}
