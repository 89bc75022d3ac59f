package peer_test

import (
	"context"
	"slices"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// ways runs a test with a peer that streams and with one that is asked again and
// again.
func ways(t *testing.T, test func(t *testing.T, f *fake)) {
	t.Helper()
	for _, streaming := range []bool{true, false} {
		name := "polling"
		if streaming {
			name = "streaming"
		}
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.streaming = streaming
			test(t, f)
		})
	}
}

func TestATaskIsDoneByAPeer(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		f.token = "t" + "1"
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		f.set("theirs-1", proto.TaskStateCompleted, "", text("report", "42 words"), &proto.Artifact{ID: "data", Parts: proto.ContentParts{proto.NewDataPart(object{"n": 42})}})
		done := k.becomes("completed").Payload.(*event.TaskCompleted)
		if done.Summary != "42 words" || len(done.Artifacts) != 2 || done.DeliveryState.Status != "delivered" {
			t.Errorf("the end is %+v", done)
		}
		checkLink(t, k, f)
		checkArtifacts(t, k)
		if m := f.messages(); len(m) != 1 || m[0].Parts[0].Text() != "Count the words." {
			t.Errorf("the peer was sent %v", m)
		}
	})
}

func checkLink(t *testing.T, k *kit, f *fake) {
	t.Helper()
	links := k.facts(event.TypeChannelPeerTaskLinked)
	if len(links) != 1 {
		t.Fatalf("%d links", len(links))
	}
	e, p := links[0], links[0].Payload.(*event.PeerTaskLinked)
	how := "polling"
	if f.streaming {
		how = "streaming"
	}
	want := event.PeerTaskLinked{
		NativeProtocol: "a2a", Direction: "outbound", RemoteTaskID: "theirs-1", RemoteContextID: "their-context", RemoteAgentRef: "theirs",
		AgentCardRef: p.AgentCardRef, DeliveryMechanism: how, RemoteMessageID: "agentd-" + e.RunID,
	}
	if p.AgentCardRef == "" || p.RemoteTaskID == e.TaskID || e.TaskID != taskID || e.RunID == "" || e.ChannelID == "" || mustJSON(p) != mustJSON(&want) {
		t.Errorf("the link is %s in %+v", mustJSON(p), e.Scope)
	}
	sent := k.facts(event.TypeTaskDelegated)
	if d := sent[0].Payload.(*event.TaskDelegated); len(sent) != 1 || d.To != "peer" || d.TargetID != "theirs" || sent[0].Sequence > e.Sequence {
		t.Errorf("delegated: %+v", d)
	}
}

func checkArtifacts(t *testing.T, k *kit) {
	t.Helper()
	var contents []string
	for _, e := range k.facts(event.TypeArtifactChanged) {
		contents = append(contents, k.output(e.Payload.(*event.ArtifactChanged).ReadRef))
	}
	if !slices.Equal(contents, []string{"42 words", `{"n":42}`}) {
		t.Errorf("stored: %q", contents)
	}
	got := runCommand[state.Task](k, &command.GetTask{TaskID: taskID})
	edges := 0
	for _, r := range got.Relationships {
		if r.Kind == "produced_artifact" {
			edges++
		}
	}
	if edges != 2 {
		t.Errorf("%d edges to artifacts", edges)
	}
	rec := runCommand[command.PeerTaskRecord](k, &command.GetPeerTask{PeerTaskKey: command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: "theirs-1", Direction: "outbound"}})
	if rec.TaskID != taskID || rec.Status != "completed" {
		t.Errorf("the record is %+v", rec)
	}
	ends := k.facts(event.TypeChannelPeerTaskUpdated)
	last := ends[len(ends)-1].Payload.(*event.PeerTaskUpdated)
	if !last.Settled || last.Status != "completed" {
		t.Errorf("the last update is %+v", last)
	}
	before := ends[len(ends)-2].Payload.(*event.PeerTaskUpdated)
	if before.Status != "completed_unreconciled" || len(before.RemoteArtifactRefs) != 2 {
		t.Errorf("the one before is %+v", before)
	}
}

// ends maps how a task ends at the peer to how it ends here.
func TestEndsAtThePeer(t *testing.T) {
	for remote, want := range map[proto.TaskState]struct{ status, category string }{
		proto.TaskStateFailed:   {"failed", "peer_failed"},
		proto.TaskStateRejected: {"failed", "peer_rejected"},
		proto.TaskStateCanceled: {"cancelled", ""},
	} {
		t.Run(string(remote), func(t *testing.T) {
			f := newFake(t)
			k := newKit(t, f)
			k.delegate()
			k.stands("running")
			f.set("theirs-1", remote, "because")
			p := k.becomes(want.status).Payload.(*event.TaskStatusChanged)
			if want.category != "" && (p.Error == nil || p.Error.Category != want.category || p.Error.Message != "because") {
				t.Errorf("the end is %+v, %+v", p, p.Error)
			}
		})
	}
}

func TestAQuestionOfThePeerIsAnAction(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		f.set("theirs-1", proto.TaskStateInputRequired, "Which language?")
		asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
		p := asked.Payload.(*event.ActionRequired)
		if p.ActionType != "structured_input" || p.Prompt != "Which language?" || asked.TaskID != taskID {
			t.Errorf("the action is %+v of %+v", p, asked.Scope)
		}
		if w := k.becomes("waiting_input").Payload.(*event.TaskStatusChanged); !slices.Equal(w.Blockers, []string{asked.ActionID}) {
			t.Errorf("it waits for %v", w.Blockers)
		}
		runCommand[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"Dutch"`)})
		answered := k.await(asked.Sequence, func(e *event.Event) bool {
			p, ok := e.Payload.(*event.PeerTaskUpdated)
			return ok && p.RemoteMessageID == "agentd-"+asked.ActionID
		})
		m := f.messages()
		if len(m) != 2 || m[1].TaskID != "theirs-1" || m[1].Parts[0].Text() != "Dutch" || m[1].ID != "agentd-"+asked.ActionID {
			t.Errorf("the peer was sent %s", mustJSON(m))
		}
		f.set("theirs-1", proto.TaskStateCompleted, "done")
		k.await(answered.Sequence, func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted })
		if n := len(k.facts(event.TypeActionRequired)); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestAPeerThatWaitsForAnAuthorization(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateAuthRequired, "Sign in at the office.")
	asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	if p := asked.Payload.(*event.ActionRequired); p.ActionType != "credential" {
		t.Errorf("the action is %+v", p)
	}
	k.becomes("waiting_permission")
	f.set("theirs-1", proto.TaskStateWorking, "")
	gone := k.await(asked.Sequence, func(e *event.Event) bool { return e.Type == event.TypeActionResolved }).Payload.(*event.ActionResolved)
	if gone.Status != "cancelled" || gone.DecisionSource != "runtime" {
		t.Errorf("the question that nobody asks any more is %+v", gone)
	}
	f.set("theirs-1", proto.TaskStateCompleted, "done")
	k.becomes("completed")
}

func TestCancellingReachesThePeer(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		res := runCommand[command.TaskResult](k, &command.CancelTask{TaskID: taskID, Reason: "not needed"})
		if res.Status != "cancelling" {
			t.Errorf("at first it is %s", res.Status)
		}
		end := k.becomes("cancelled")
		if got := f.task("theirs-1").Status.State; got != proto.TaskStateCanceled {
			t.Errorf("there it is %s", got)
		}
		for _, e := range k.facts(event.TypeChannelPeerTaskUpdated) {
			if p := e.Payload.(*event.PeerTaskUpdated); p.Status == "cancelled" && e.Sequence < end.Sequence {
				return
			}
		}
		t.Error("it settled before the peer's end was known")
	})
}

func TestATaskThatCanNotBeCancelledAnyMore(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f, func(o *peerOptions) { o.Poll, o.MaxPoll = hour, hour })
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
	runCommand[command.TaskResult](k, &command.CancelTask{TaskID: taskID})
	k.becomes("cancelled")
	if p := k.stands("completed"); !p.Settled {
		t.Errorf("the peer's end is %+v", p)
	}
}

func TestAnAttemptThatIsOverHereIsStoppedThere(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	runCommand[command.TaskResult](k, &command.FailTask{TaskID: taskID, Error: &event.Failure{Message: "enough"}})
	k.stands("cancelled")
	if got := f.task("theirs-1").Status.State; got != proto.TaskStateCanceled {
		t.Errorf("there it is %s", got)
	}
}

func TestAnUnknownPeerIsRefused(t *testing.T) {
	k := newKit(t, newFake(t))
	for _, peer := range []string{"nobody", "ftp://host/card", "https://user:pass@host/card"} {
		_, err := k.runtime.Do(context.Background(), command.Local(), &command.CreateTask{Objective: "x", Peer: peer})
		if fault.KindOf(err) != fault.InvalidParams || err == nil {
			t.Errorf("%s: %v", peer, err)
		}
	}
	runCommand[command.CreateSessionResult](k, &command.CreateSession{SessionID: sess})
}

func TestAnotherAttemptIsAnotherMessage(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateFailed, "broken")
	k.becomes("failed")
	runCommand[command.TaskRunResult](k, &command.RetryTask{TaskID: taskID})
	second := k.await(0, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskLinked)
		return ok && p.RemoteTaskID == "theirs-2"
	})
	f.set("theirs-2", proto.TaskStateCompleted, "done")
	k.becomes("completed")
	m := f.messages()
	if len(m) != 2 || m[0].ID == m[1].ID || m[1].ID != "agentd-"+second.RunID {
		t.Errorf("sent: %s", mustJSON(m))
	}
}
