package a2a_test

import (
	"context"
	"strings"
	"testing"

	"agentd/command"
	"agentd/fault"
)

// TestNobodyTakesTheIDsOfPeers: the ids of a peer's session and channel follow from its
// account and its context, so anybody can compute them. Another account that tries to
// have them first, or afterwards, gets the same refusal, and the peer is not kept out.
func TestNobodyTakesTheIDsOfPeers(t *testing.T) {
	known := newKit(t)
	at := object{"contextId": "shared"}
	session := sessionOf(known.call(jsonRPC, "SendMessage", message("m1", "say Hello.", at)).task())
	channel := channels(known, session)[0].ChannelID

	k := newKit(t)
	squat := func(when string) {
		t.Helper()
		for id, p := range map[string]command.Params{
			session:        &command.CreateSession{SessionID: session},
			session + " ":  &command.SubmitTurn{SessionID: session, Create: true, Input: command.Text("say Mine.")},
			channel:        &command.ConnectChannel{ChannelID: channel, Transport: "sse", PeerRole: "client"},
			"chan_a2a_out": &command.ConnectChannel{ChannelID: "chan_a2a_out_0", Transport: "sse", PeerRole: "client"},
		} {
			_, err := k.runtime.Do(context.Background(), command.Caller{Account: "bob"}, p)
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "can't be used here; choose another one") {
				t.Errorf("%s the peer came, %s with %s: %v", when, p.Command(), strings.TrimSpace(id), err)
			}
		}
	}
	squat("before")
	task := k.call(jsonRPC, "SendMessage", message("m1", "say Hello.", at)).task()
	if sessionOf(task) != session || state(task) != "TASK_STATE_COMPLETED" {
		t.Errorf("the peer's task is %v", task)
	}
	squat("after")
	// Its own account goes on in the session as in any other.
	if _, err := k.runtime.Do(context.Background(), command.Caller{Account: "alice"}, &command.SubmitTurn{SessionID: session, Create: true, Input: command.Text("say More.")}); err != nil {
		t.Error(err)
	}
}
