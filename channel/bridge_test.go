package channel_test

import (
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// askedInRole is a peer that wants to be asked for permissions.
func askedInRole(role string) func(*command.ConnectChannel) {
	return func(p *command.ConnectChannel) { p.PeerRole, p.Capabilities = role, []string{"permissions"} }
}

// wantsToWrite is a turn that asks for permission.
var wantsToWrite = runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "x"})

// forwardedTo waits until a request was forwarded to a channel.
func forwardedTo(k *runtimetest.Kit, sessionID, channelID string) *event.Event {
	k.Helper()
	return k.WaitFor(sessionID, func(e *event.Event) bool {
		return e.Type == event.TypeChannelPermissionForwarded && e.ChannelID == channelID
	})
}

// returnedTo waits for the answer that a channel records.
func returnedTo(k *runtimetest.Kit, sessionID, channelID string) *event.ChannelPermissionReturned {
	k.Helper()
	return k.WaitFor(sessionID, func(e *event.Event) bool {
		return e.Type == event.TypeChannelPermissionReturned && e.ChannelID == channelID
	}).Payload.(*event.ChannelPermissionReturned)
}

func TestPermissionCrossesAChannel(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("hello"), wantsToWrite, runtimetest.Says("done"))
	channelIn(k, "sess_p", "chan_p", askedInRole("client"))
	connect(k, "sess_p", "chan_mute", nil)                // offers nothing
	connect(k, "sess_p", "chan_w", askedInRole("worker")) // a worker doesn't decide
	connect(k, "sess_p", "chan_h", askedInRole("host"))
	r := k.Submit("sess_p", "write")
	id, _ := k.WaitForAction("sess_p", 1)
	e := forwardedTo(k, "sess_p", "chan_p")
	forwardedTo(k, "sess_p", "chan_h")
	f := e.Payload.(*event.ChannelPermissionForwarded)
	if f.ActionID != id || f.RequestedBy.Kind != "agent" || f.RequestedBy.ID != r.ThreadID || f.Target != "write_file" || f.FinalDecider != "remote" || f.ChannelOnly {
		t.Errorf("got %+v", f)
	}
	if e.ToolCallID == "" || e.TurnID != r.TurnID || e.ActionID != id {
		t.Errorf("the fact isn't joined to its call: %+v", e.Scope)
	}
	runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "allow", ChannelID: "chan_no"}, fault.NotFound)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow", ChannelID: "chan_p", Reason: "go"})
	k.Completes(r)
	p := returnedTo(k, "sess_p", "chan_p")
	if p.ActionID != id || p.Decision != "allow" || p.AnswerSource != "user" || p.FinalDecider != "remote" || p.DecidedBy == nil || p.Reason != "go" {
		t.Errorf("got %+v", p)
	}
	// The host was asked too, and is told that the client decided.
	if p := returnedTo(k, "sess_p", "chan_h"); p.Decision != "allow" || p.FinalDecider != "local" {
		t.Errorf("got %+v", p)
	}
	if n := k.CountFacts("sess_p", event.TypeChannelPermissionForwarded); n != 2 {
		t.Errorf("%d peers were asked", n)
	}
	if s := sessionSnapshot(k, "sess_p").ChannelSummary; len(s.PermissionBridge) != 0 {
		t.Errorf("still open: %+v", s.PermissionBridge)
	}
}

func TestHostAnswersThroughItsChannel(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("hello"), wantsToWrite, runtimetest.Says("done"))
	channelIn(k, "sess_h", "chan_h", askedInRole("host"))
	r := k.Submit("sess_h", "write")
	id, _ := k.WaitForAction("sess_h", 1)
	forwardedTo(k, "sess_h", "chan_h")
	runtimetest.Do[command.RespondActionResult](k, &command.ResolvePermission{ActionID: id, Decision: "deny", ChannelID: "chan_h", Reason: "not today"})
	k.Completes(r)
	if p := returnedTo(k, "sess_h", "chan_h"); p.Decision != "deny" || p.AnswerSource != "host" || p.FinalDecider != "remote" || p.Reason != "not today" {
		t.Errorf("got %+v", p)
	}
}

func TestForwardedPermissionSurvivesRestartAndTimesOut(t *testing.T) {
	runtimetest.InTime(t, 250*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = limit }, runtimetest.Says("hello"), wantsToWrite, runtimetest.Says("done"))
		token := channelIn(k, "sess_t", "chan_t", askedInRole("client"))
		r := k.Submit("sess_t", "write")
		first := k.WaitFor("sess_t", func(e *event.Event) bool {
			return e.Type == event.TypeChannelPermissionForwarded || e.Type == event.TypeActionResolved
		})
		if first.Type == event.TypeActionResolved {
			k.Completes(r)
			return false // it timed out before it was forwarded
		}
		k.Close()
		k.Open()
		gone := k.WaitFor("sess_t", runtimetest.FactIs(event.TypeChannelDisconnected, ""))
		k.Completes(r) // nobody answers
		if k.WaitFor("sess_t", runtimetest.FactIs(event.TypeActionResolved, "")).Sequence < gone.Sequence {
			return false // it timed out before the restart
		}
		if p := gone.Payload.(*event.ChannelDisconnected); len(p.PendingPermissionIDs) != 1 {
			t.Errorf("got %+v", p)
		}
		if p := returnedTo(k, "sess_t", "chan_t"); p.Decision != "timeout" || p.AnswerSource != "timeout" || p.FinalDecider != "local" {
			t.Errorf("got %+v", p)
		}
		runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_t", ResumeToken: token})
		if n := k.CountFacts("sess_t", event.TypeChannelPermissionForwarded); n != 1 {
			t.Errorf("%d times forwarded", n)
		}
		return true
	})
}

func TestPeerThatComesLateIsAsked(t *testing.T) {
	k := runtimetest.New(t, wantsToWrite, runtimetest.Says("done"))
	r := k.Submit("sess_l", "write")
	id, _ := k.WaitForAction("sess_l", 1)
	token := connect(k, "sess_l", "chan_l", askedInRole("client"))
	forwardedTo(k, "sess_l", "chan_l")
	for range 2 { // coming back asks nothing twice
		runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_l", ResumeToken: token})
	}
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow"}) // at another window
	k.Completes(r)
	if p := returnedTo(k, "sess_l", "chan_l"); p.Decision != "allow" || p.AnswerSource != "user" || p.FinalDecider != "local" {
		t.Errorf("got %+v", p)
	}
	if n := k.CountFacts("sess_l", event.TypeChannelPermissionForwarded); n != 1 {
		t.Errorf("%d times forwarded", n)
	}
}
