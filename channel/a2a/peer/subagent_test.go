package peer_test

import (
	"context"
	"strings"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// spawn makes a child of the peer, in a session with a turn that is over.
func (k *kit) spawn(input string) *command.SpawnSubagentResult {
	k.t.Helper()
	turn := runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sess, Create: true, Input: command.Text("hello")})
	k.await(0, func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted })
	return runCommand[command.SpawnSubagentResult](k, &command.SpawnSubagent{
		SubagentID: "subagent_there", SessionID: sess, ThreadID: turn.ThreadID, Role: "counter", Input: command.Text(input), Peer: "theirs",
	})
}

func TestASubagentAtAPeer(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		child := k.spawn("Count the words.")
		k.stands("running")
		f.set("theirs-1", proto.TaskStateInputRequired, "Which words?")
		asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
		k.await(0, func(e *event.Event) bool {
			p, ok := e.Payload.(*event.SubagentStatus)
			return ok && p.Status == "waiting"
		})
		runCommand[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"All."`)})
		k.await(asked.Sequence, func(e *event.Event) bool {
			p, ok := e.Payload.(*event.PeerTaskUpdated)
			return ok && p.RemoteMessageID == "agentd-"+asked.ActionID
		})
		f.set("theirs-1", proto.TaskStateCompleted, "", text("report", "42 words"))
		said := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeSubagentOutput })
		if p := said.Payload.(*event.SubagentMessage); p.Text != "42 words" || said.SubagentID != child.SubagentID {
			t.Errorf("it said %+v", p)
		}
		k.await(0, func(e *event.Event) bool { return e.Type == event.TypeSubagentCompleted })
		if m := f.messages(); len(m) != 2 || m[0].Parts[0].Text() != "Count the words." {
			t.Errorf("sent: %s", mustJSON(m))
		}
		linked := k.facts(event.TypeChannelPeerTaskLinked)[0]
		if linked.SubagentID != child.SubagentID || linked.TaskID == "" {
			t.Errorf("the link is in %+v", linked.Scope)
		}
		if n := len(k.facts(event.TypeTurnSubmitted)); n != 1 {
			t.Errorf("%d turns: the child must not work here", n)
		}
	})
}

func TestASubagentThatFailsAtAPeer(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.spawn("Count the words.")
	k.stands("running")
	f.set("theirs-1", proto.TaskStateRejected, "I don't count")
	e := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeSubagentFailed })
	if p := e.Payload.(*event.SubagentEnded); p.Error == nil || p.Error.Message != "I don't count" {
		t.Errorf("the end is %+v", p)
	}
}

func TestASubagentAtAPeerIsClosed(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.spawn("Count the words.")
	k.stands("running")
	_, err := k.runtime.Do(context.Background(), command.Local(), &command.SendSubagentInput{SubagentID: "subagent_there", Input: command.Text("more")})
	if fault.KindOf(err) != fault.Conflict || err == nil {
		t.Errorf("more input: %v", err)
	}
	runCommand[command.SubagentResult](k, &command.CloseSubagent{SubagentID: "subagent_there"})
	k.await(0, func(e *event.Event) bool { return e.Type == event.TypeTaskCancelled })
	if got := f.task("theirs-1").Status.State; got != proto.TaskStateCanceled {
		t.Errorf("there it is %s", got)
	}
}

// TestAModelGivesWorkToAPeer: a model may name a peer of the configuration, and
// somebody is asked before its words go there.
func TestAModelGivesWorkToAPeer(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sess, Create: true, Input: command.Text("theirs: Count the words.")})
	asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	if p := asked.Payload.(*event.ActionRequired); p.ActionType != "tool_permission" || p.ToolName != "spawn_agent" || len(f.messages()) != 0 {
		t.Fatalf("asked %+v, sent %s", p, mustJSON(f.messages()))
	}
	runCommand[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "allow"})
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "", text("report", "42 words"))
	done := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeToolResult })
	if p := done.Payload.(*event.ToolResult); p.ToolName != "spawn_agent" || !strings.Contains(p.Preview, "42 words") {
		t.Errorf("the call gave %+v", p)
	}
	if m := f.messages(); len(m) != 1 || m[0].Parts[0].Text() != "Count the words." {
		t.Errorf("sent: %s", mustJSON(m))
	}
	k.await(0, func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted })
}

// TestAModelNamesNoPeerOfItsOwn: where words may go is the configuration's to say.
func TestAModelNamesNoPeerOfItsOwn(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sess, Create: true, Input: command.Text(f.srv.URL + ": Count the words.")})
	failed := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeToolFailed })
	if p := failed.Payload.(*event.ToolFailed); p.ErrorCategory != "invalid_input" || len(f.messages()) != 0 {
		t.Errorf("the call gave %+v, sent %s", p, mustJSON(f.messages()))
	}
}
