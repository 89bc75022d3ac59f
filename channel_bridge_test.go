package agentd_test

import (
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// asked is a peer that wants to be asked for permissions.
func asked(role string) func(*command.ConnectChannel) {
	return func(p *command.ConnectChannel) { p.PeerRole, p.Capabilities = role, []string{"permissions"} }
}

// wantsToWrite is a turn that asks for permission.
var wantsToWrite = wants("write_file", map[string]any{"path": "a.txt", "content": "x"})

// forwardedTo waits until a request was forwarded to a channel.
func (k *kit) forwardedTo(sessionID, channelID string) *event.Event {
	k.Helper()
	return k.until(sessionID, func(e *event.Event) bool {
		return e.Type == event.TypeChannelPermissionForwarded && e.ChannelID == channelID
	})
}

// returnedTo waits for the answer that a channel records.
func (k *kit) returnedTo(sessionID, channelID string) *event.ChannelPermissionReturned {
	k.Helper()
	return k.until(sessionID, func(e *event.Event) bool {
		return e.Type == event.TypeChannelPermissionReturned && e.ChannelID == channelID
	}).Payload.(*event.ChannelPermissionReturned)
}

func TestPermissionCrossesAChannel(t *testing.T) {
	k := newKit(t, says("hello"), wantsToWrite, says("done"))
	k.channelIn("sess_p", "chan_p", asked("client"))
	k.connect("sess_p", "chan_mute", nil)          // offers nothing
	k.connect("sess_p", "chan_w", asked("worker")) // nobody who decides
	k.connect("sess_p", "chan_h", asked("host"))
	r := k.submit("sess_p", "write")
	id, _ := k.required("sess_p", 1)
	e := k.forwardedTo("sess_p", "chan_p")
	k.forwardedTo("sess_p", "chan_h")
	f := e.Payload.(*event.ChannelPermissionForwarded)
	if f.ActionID != id || f.RequestedBy.Kind != "agent" || f.RequestedBy.ID != r.ThreadID || f.Target != "write_file" || f.FinalDecider != "remote" || f.ChannelOnly {
		t.Errorf("got %+v", f)
	}
	if e.ToolCallID == "" || e.TurnID != r.TurnID || e.ActionID != id {
		t.Errorf("the fact isn't joined to its call: %+v", e.Scope)
	}
	refused(k, &command.RespondAction{ActionID: id, Decision: "allow", ChannelID: "chan_no"}, fault.NotFound)
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow", ChannelID: "chan_p", Reason: "go"})
	k.completes(r)
	p := k.returnedTo("sess_p", "chan_p")
	if p.ActionID != id || p.Decision != "allow" || p.AnswerSource != "user" || p.FinalDecider != "remote" || p.DecidedBy == nil || p.Reason != "go" {
		t.Errorf("got %+v", p)
	}
	// The host was asked too, and learns that somebody else decided.
	if p := k.returnedTo("sess_p", "chan_h"); p.Decision != "allow" || p.FinalDecider != "local" {
		t.Errorf("got %+v", p)
	}
	if n := k.count("sess_p", event.TypeChannelPermissionForwarded); n != 2 {
		t.Errorf("%d peers were asked", n)
	}
	if s := sessionSnapshot(k, "sess_p").ChannelSummary; len(s.PermissionBridge) != 0 {
		t.Errorf("still open: %+v", s.PermissionBridge)
	}
}

func TestHostAnswersThroughItsChannel(t *testing.T) {
	k := newKit(t, says("hello"), wantsToWrite, says("done"))
	k.channelIn("sess_h", "chan_h", asked("host"))
	r := k.submit("sess_h", "write")
	id, _ := k.required("sess_h", 1)
	k.forwardedTo("sess_h", "chan_h")
	do[command.RespondActionResult](k, &command.ResolvePermission{ActionID: id, Decision: "deny", ChannelID: "chan_h", Reason: "not today"})
	k.completes(r)
	if p := k.returnedTo("sess_h", "chan_h"); p.Decision != "deny" || p.AnswerSource != "host" || p.FinalDecider != "remote" || p.Reason != "not today" {
		t.Errorf("got %+v", p)
	}
}

func TestForwardedPermissionSurvivesRestartAndTimesOut(t *testing.T) {
	inTime(t, 250*time.Millisecond, func(limit time.Duration) bool {
		k := newKitWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = limit }, says("hello"), wantsToWrite, says("done"))
		token := k.channelIn("sess_t", "chan_t", asked("client"))
		r := k.submit("sess_t", "write")
		k.forwardedTo("sess_t", "chan_t")
		k.close()
		k.open()
		gone := k.until("sess_t", is(event.TypeChannelDisconnected, ""))
		k.completes(r) // nobody answers
		if k.until("sess_t", is(event.TypeActionResolved, "")).Sequence < gone.Sequence {
			return false // it timed out before the restart
		}
		if p := gone.Payload.(*event.ChannelDisconnected); len(p.PendingPermissionIDs) != 1 {
			t.Errorf("got %+v", p)
		}
		if p := k.returnedTo("sess_t", "chan_t"); p.Decision != "timeout" || p.AnswerSource != "timeout" || p.FinalDecider != "local" {
			t.Errorf("got %+v", p)
		}
		do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_t", ResumeToken: token})
		if n := k.count("sess_t", event.TypeChannelPermissionForwarded); n != 1 {
			t.Errorf("%d times forwarded", n)
		}
		return true
	})
}

func TestPeerThatComesLateIsAsked(t *testing.T) {
	k := newKit(t, wantsToWrite, says("done"))
	r := k.submit("sess_l", "write")
	id, _ := k.required("sess_l", 1)
	token := k.connect("sess_l", "chan_l", asked("client"))
	k.forwardedTo("sess_l", "chan_l")
	for range 2 { // coming back asks nothing twice
		do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_l", ResumeToken: token})
	}
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow"}) // at another window
	k.completes(r)
	if p := k.returnedTo("sess_l", "chan_l"); p.Decision != "allow" || p.AnswerSource != "user" || p.FinalDecider != "local" {
		t.Errorf("got %+v", p)
	}
	if n := k.count("sess_l", event.TypeChannelPermissionForwarded); n != 1 {
		t.Errorf("%d times forwarded", n)
	}
}
