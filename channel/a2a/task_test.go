package a2a_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

func TestSendMessageWaitsForTheEnd(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", message("m1", "say Hello.")).task()
		if state(task) != "TASK_STATE_COMPLETED" || str(task, "artifacts", 0, "parts", 0, "text") != "Hello." {
			t.Errorf("task %v", task)
		}
		if str(task, "history", 0, "parts", 0, "text") != "say Hello." || str(task, "history", 0, "role") != "ROLE_USER" {
			t.Errorf("history %v", task["history"])
		}
		if str(task, "id") == "" || str(task, "contextId") == "" || str(task, "status", "timestamp") == "" {
			t.Errorf("ids or time are missing: %v", task)
		}
		again := k.call(b, "GetTask", object{"id": task["id"]}).task()
		if fmt.Sprint(again) != fmt.Sprint(task) {
			t.Errorf("asked again:\n%v\n%v", task, again)
		}
	})
}

func TestEveryStepIsAFactWithBothIdentities(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "ask Which colour?", object{"contextId": "their-context"})).task()
	id, session := str(task, "id"), sessionOf(task)
	k.call(httpJSON, "SendMessage", message("m2", "red", object{"taskId": id})).task()
	settled := k.waitFor(session, event.TypeChannelPeerTaskUpdated, func(e *event.Event) bool { return e.Payload.(*event.PeerTaskUpdated).Settled })
	linked := k.facts(session, event.TypeChannelPeerTaskLinked)
	if len(linked) != 1 {
		t.Fatalf("%d links", len(linked))
	}
	p := linked[0].Payload.(*event.PeerTaskLinked)
	if p.RemoteTaskID != id || p.RemoteContextID != "their-context" || p.Direction != "inbound" || p.NativeProtocol != "a2a" || p.RemoteMessageID != "m1" {
		t.Errorf("link %+v", p)
	}
	if linked[0].TaskID != str(task, "metadata", "agentd", "taskId") || linked[0].TurnID == "" || linked[0].ChannelID == "" {
		t.Errorf("link's scope %+v", linked[0].Scope)
	}
	answered := k.facts(session, event.TypeChannelPeerTaskUpdated)[0].Payload.(*event.PeerTaskUpdated)
	if answered.RemoteMessageID != "m2" || answered.RemoteTaskID != id || answered.RemoteStatus != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("answer %+v", answered)
	}
	refs := settled.Payload.(*event.PeerTaskUpdated).RemoteArtifactRefs
	got := k.call(jsonRPC, "GetTask", object{"id": id}).task()
	if len(refs) != 1 || refs[0] != str(got, "artifacts", 0, "artifactId") {
		t.Errorf("the end has the artifacts %v, the task %v", refs, got["artifacts"])
	}
	res, err := k.runtime.Do(t.Context(), command.Local(), &command.GetTask{TaskID: linked[0].TaskID})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", res); !strings.Contains(text, "produced_artifact") {
		t.Errorf("the local task has no edge to the artifact: %s", text)
	}
	k.verify()
}

func TestReturnImmediately(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", now(message("m1", "hold"))).task()
		if s := state(task); s != "TASK_STATE_SUBMITTED" && s != "TASK_STATE_WORKING" {
			t.Errorf("state %s", s)
		}
		k.agent.open(1)
		k.waitFor(sessionOf(task), event.TypeTurnCompleted, nil)
		if s := state(k.call(b, "GetTask", object{"id": task["id"]}).task()); s != "TASK_STATE_COMPLETED" {
			t.Errorf("state %s", s)
		}
	})
}

func TestARepeatedMessageMakesNoSecondTurn(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		first := k.call(b, "SendMessage", message("m1", "say Once.")).task()
		second := k.call(b, "SendMessage", message("m1", "say Once.")).task()
		if first["id"] != second["id"] || first["contextId"] != second["contextId"] || k.agent.called() != 1 {
			t.Errorf("%v and %v, %d calls", first["id"], second["id"], k.agent.called())
		}
		if n := k.call(b, "ListTasks", object{}).ok().result["totalSize"]; n != float64(1) {
			t.Errorf("%v tasks", n)
		}
		k.call(b, "SendMessage", message("m1", "say Twice.")).fails("INVALID_PARAMS")
	})
}

func TestContexts(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		first := k.call(b, "SendMessage", message("m1", "say One.")).task()
		in := object{"contextId": first["contextId"]}
		second := k.call(b, "SendMessage", message("m2", "say Two.", in)).task()
		if second["contextId"] != first["contextId"] || second["id"] == first["id"] || sessionOf(second) != sessionOf(first) {
			t.Errorf("not the same conversation: %v %v", first, second)
		}
		own := k.call(b, "SendMessage", message("m3", "say Three.", object{"contextId": "my own/context 1"})).task()
		if own["contextId"] != "my own/context 1" {
			t.Errorf("the peer's context became %v", own["contextId"])
		}
		k.call(b, "SendMessage", message("m4", "say Four.", object{"taskId": first["id"], "contextId": "another"})).fails("INVALID_PARAMS")
		k.call(b, "SendMessage", message("m5", "say Five.", object{"taskId": "no-such-task"})).fails("TASK_NOT_FOUND")
	})
}

func TestAQuestionIsAskedAndAnswered(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", message("m1", "ask Which colour?")).task()
		if state(task) != "TASK_STATE_INPUT_REQUIRED" || str(task, "status", "message", "parts", 0, "text") != "Which colour?" {
			t.Fatalf("status %v", task["status"])
		}
		if str(task, "status", "message", "parts", 1, "data", "actionType") != "structured_input" {
			t.Errorf("the question has no data: %v", task["status"])
		}
		to := object{"taskId": task["id"]}
		done := k.call(b, "SendMessage", message("m2", "red", to)).task()
		if state(done) != "TASK_STATE_COMPLETED" || !strings.Contains(str(done, "artifacts", 0, "parts", 0, "text"), "red") {
			t.Errorf("done %v", done)
		}
		var said []string
		for _, m := range done["history"].([]any) {
			said = append(said, str(m, "role")+" "+str(m, "parts", 0, "text"))
		}
		if want := "[ROLE_USER ask Which colour? ROLE_AGENT Which colour? ROLE_USER red]"; fmt.Sprint(said) != want {
			t.Errorf("history %v", said)
		}
		again := k.call(b, "SendMessage", message("m2", "red", to)).task()
		if fmt.Sprint(again) != fmt.Sprint(done) {
			t.Errorf("the answer again changed the task: %v", again)
		}
		f := k.call(b, "SendMessage", message("m3", "blue", to)).fails("UNSUPPORTED_OPERATION")
		if b == jsonRPC && f.code != -32004 || b == httpJSON && f.status != 400 {
			t.Errorf("code %d, status %d", f.code, f.status)
		}
	})
}

func TestAnApprovalNeedsAClearWord(t *testing.T) {
	k := newKit(t)
	for i, c := range []struct {
		name  string
		part  object
		wants string
	}{
		{"a word", object{"text": "Deny."}, "got"},
		{"data", object{"data": object{"decision": "allow"}}, "got"},
		{"data with the action", object{"data": object{"actionId": "", "decision": "deny", "reason": "not now"}}, "got"},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := k.call(jsonRPC, "SendMessage", message(fmt.Sprint("m", i), fmt.Sprintf("write f%d.txt", i))).task()
			if state(task) != "TASK_STATE_INPUT_REQUIRED" {
				t.Fatalf("status %v", task["status"])
			}
			ask := valueAt(task, "status", "message", "parts", 1, "data")
			if str(ask, "actionType") != "tool_permission" || str(ask, "toolName") != "write_file" || len(valueAt(ask, "decisions").([]any)) == 0 {
				t.Errorf("ask %v", ask)
			}
			to := object{"taskId": task["id"]}
			k.call(jsonRPC, "SendMessage", message(fmt.Sprint("v", i), "perhaps, I don't know", to)).fails("INVALID_PARAMS")
			if data, ok := c.part["data"].(object); ok && data["actionId"] != nil {
				data["actionId"] = valueAt(ask, "actionId")
			}
			to["parts"] = []object{c.part}
			done := k.call(jsonRPC, "SendMessage", message(fmt.Sprint("a", i), "", to)).task()
			if state(done) != "TASK_STATE_COMPLETED" || !strings.Contains(str(done, "artifacts", 0, "parts", 0, "text"), c.wants) {
				t.Errorf("done %v", done)
			}
		})
	}
	k.call(jsonRPC, "SendMessage", message("w", "write g.txt", object{"contextId": "c"})).task()
	other := k.call(jsonRPC, "ListTasks", object{"contextId": "c"}).ok()
	bad := message("x", "", object{"taskId": valueAt(other.result, "tasks", 0, "id"), "parts": []object{{"data": object{"actionId": "action_other", "decision": "allow"}}}})
	k.call(jsonRPC, "SendMessage", bad).fails("INVALID_PARAMS")
}

func TestAMessageReachesAWorkingTask(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", now(message("m1", "hold"))).task()
	session := sessionOf(task)
	k.waitFor(session, event.TypeModelRequested, nil)
	k.call(jsonRPC, "SendMessage", now(message("m2", "say More.", object{"taskId": task["id"]}))).task()
	k.call(jsonRPC, "SendMessage", now(message("m2", "say More.", object{"taskId": task["id"]}))).task()
	k.agent.open(1)
	k.waitFor(session, event.TypeTurnCompleted, nil)
	done := k.call(jsonRPC, "GetTask", object{"id": task["id"]}).task()
	if str(done, "artifacts", 0, "parts", 0, "text") != "More." || len(done["history"].([]any)) != 2 {
		t.Errorf("done %v", done)
	}
	if n := len(k.facts(session, event.TypeTurnSteered)); n != 1 {
		t.Errorf("the message was taken %d times", n)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct{ words, state, says string }{
		{"refuse", "TASK_STATE_REJECTED", "I won't."},
		{"fail", "TASK_STATE_FAILED", "no such thing"},
	} {
		k := newKit(t)
		task := k.call(jsonRPC, "SendMessage", message("m", c.words)).task()
		if state(task) != c.state || !strings.Contains(str(task, "status", "message", "parts", 0, "text"), c.says) || task["artifacts"] != nil {
			t.Errorf("%s: %v", c.words, task)
		}
	}
}

func TestCancel(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		working := k.call(b, "SendMessage", now(message("m1", "hold"))).task()
		k.waitFor(sessionOf(working), event.TypeModelRequested, nil)
		if got := k.call(b, "CancelTask", object{"id": working["id"]}).task(); state(got) != "TASK_STATE_CANCELED" || got["id"] != working["id"] {
			t.Errorf("cancelled: %v", got)
		}
		f := k.call(b, "CancelTask", object{"id": working["id"]}).fails("TASK_NOT_CANCELABLE")
		if b == jsonRPC && f.code != -32002 || b == httpJSON && f.status != 400 {
			t.Errorf("code %d, status %d", f.code, f.status)
		}
		asking := k.call(b, "SendMessage", message("m2", "ask What?")).task()
		if got := k.call(b, "CancelTask", object{"id": asking["id"]}).task(); state(got) != "TASK_STATE_CANCELED" {
			t.Errorf("cancelled while it waited: %v", got)
		}
		done := k.call(b, "SendMessage", message("m3", "say Done.")).task()
		k.call(b, "CancelTask", object{"id": done["id"]}).fails("TASK_NOT_CANCELABLE")
		k.call(b, "CancelTask", object{"id": "no-such-task"}).fails("TASK_NOT_FOUND")
		steps := k.facts(sessionOf(working), event.TypeChannelPeerTaskUpdated)
		if len(steps) == 0 || steps[0].Payload.(*event.PeerTaskUpdated).Reason == "" {
			t.Error("the wish to stop is no fact of the peer's")
		}
	})
}

func TestAQueuedTaskIsSubmittedAndCanBeCancelled(t *testing.T) {
	k := newKit(t)
	in := object{"contextId": "c"}
	first := k.call(jsonRPC, "SendMessage", now(message("m1", "hold", in))).task()
	k.waitFor(sessionOf(first), event.TypeModelRequested, nil)
	second := k.call(jsonRPC, "SendMessage", now(message("m2", "say Later.", in))).task()
	if state(second) != "TASK_STATE_SUBMITTED" {
		t.Errorf("queued: %v", second["status"])
	}
	if got := k.call(jsonRPC, "CancelTask", object{"id": second["id"]}).task(); state(got) != "TASK_STATE_CANCELED" {
		t.Errorf("cancelled: %v", got["status"])
	}
	k.agent.open(1)
	k.waitFor(sessionOf(first), event.TypeTurnCompleted, nil)
	k.verify()
}

func TestHistoryLength(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", message("m1", "ask What?")).task()
		k.call(b, "SendMessage", message("m2", "that", object{"taskId": task["id"]})).task()
		for n, want := range map[int]string{0: "[]", 1: "[that]", 2: "[What? that]", 10: "[ask What? What? that]"} {
			got := []string{}
			list, _ := k.call(b, "GetTask", object{"id": task["id"], "historyLength": n}).task()["history"].([]any)
			for _, m := range list {
				got = append(got, str(m, "parts", 0, "text"))
			}
			if fmt.Sprint(got) != want {
				t.Errorf("history of %d: %v, expected %s", n, got, want)
			}
		}
		k.call(b, "GetTask", object{"id": task["id"], "historyLength": -1}).fails("INVALID_PARAMS")
		p := message("m3", "say x")
		p["configuration"] = object{"historyLength": 0}
		if got := k.call(b, "SendMessage", p).task(); got["history"] != nil {
			t.Errorf("history %v", got["history"])
		}
	})
}

func TestAccountsAreApart(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", message("m1", "ask What?", object{"contextId": "shared"})).task()
		id := task["id"]
		for _, name := range []string{"bob", "root"} {
			for method, params := range map[string]object{
				"GetTask": {"id": id}, "CancelTask": {"id": id}, "SubscribeToTask": {"id": id},
				"SendMessage":                      message("m9", "red", object{"taskId": id}),
				"SendStreamingMessage":             message("m9", "red", object{"taskId": id}),
				"CreateTaskPushNotificationConfig": {"taskId": id, "url": "https://peer.example/hook"},
				"ListTaskPushNotificationConfigs":  {"taskId": id},
				"GetTaskPushNotificationConfig":    {"taskId": id, "id": "x"},
				"DeleteTaskPushNotificationConfig": {"taskId": id, "id": "x"},
			} {
				if f := k.as(name, b, method, params); f.reason != "TASK_NOT_FOUND" {
					t.Errorf("%s can %s: %v %s", name, method, f.result, f.reason)
				}
			}
			if n := k.as(name, b, "ListTasks", object{}).ok().result["totalSize"]; n != float64(0) {
				t.Errorf("%s sees %v tasks", name, n)
			}
			// The same names of one's own lead elsewhere.
			own := k.as(name, b, "SendMessage", message("m1", "say Mine.", object{"contextId": "shared"})).task()
			if own["id"] == id || sessionOf(own) == sessionOf(task) {
				t.Errorf("%s got into another account's context", name)
			}
		}
		k.as("eve", b, "GetTask", object{"id": id}).ok()
		f := k.as("eve", b, "SendMessage", message("m2", "say x")).fails("PERMISSION_DENIED")
		if b == httpJSON && f.status != 403 {
			t.Errorf("status %d", f.status)
		}
		k.as("eve", b, "CancelTask", object{"id": id}).fails("PERMISSION_DENIED")
		k.as("nobody", b, "GetTask", object{"id": id}).fails("PERMISSION_DENIED")
	})
}

func TestNothingIsLostInARestart(t *testing.T) {
	k := newKit(t)
	done := k.call(jsonRPC, "SendMessage", message("m1", "say Done.")).task()
	asking := k.call(jsonRPC, "SendMessage", message("m2", "ask What?")).task()
	k.restart()
	if got := k.call(httpJSON, "GetTask", object{"id": done["id"]}).task(); fmt.Sprint(got) != fmt.Sprint(done) {
		t.Errorf("after the restart:\n%v\n%v", got, done)
	}
	if got := k.call(httpJSON, "GetTask", object{"id": asking["id"]}).task(); fmt.Sprint(got) != fmt.Sprint(asking) {
		t.Errorf("after the restart:\n%v\n%v", got, asking)
	}
	again := k.call(jsonRPC, "SendMessage", message("m1", "say Done.")).task()
	if again["id"] != done["id"] {
		t.Error("a repeated message made another task after the restart")
	}
	if got := k.call(jsonRPC, "SendMessage", message("m3", "this", object{"taskId": asking["id"]})).task(); state(got) != "TASK_STATE_COMPLETED" {
		t.Errorf("answered after the restart: %v", got)
	}
	k.verify()
}

// The end of a task that was not reconciled when the process died is reconciled by
// the next one.
func TestAnUnsettledEndIsSettledByTheNextStart(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", now(message("m1", "hold"))).task()
	k.waitFor(sessionOf(task), event.TypeModelRequested, nil)
	k.peers.Close() // the end isn't reconciled any more
	k.agent.open(1)
	k.waitFor(sessionOf(task), event.TypeTurnCompleted, nil)
	settled := func(e *event.Event) bool { return e.Payload.(*event.PeerTaskUpdated).Settled }
	if slices.ContainsFunc(k.facts(sessionOf(task), event.TypeChannelPeerTaskUpdated), settled) {
		t.Fatal("the end is reconciled already")
	}
	k.restart()
	k.waitFor(sessionOf(task), event.TypeChannelPeerTaskUpdated, settled)
	if n := len(k.facts(sessionOf(task), event.TypeArtifactChanged)); n != 1 {
		t.Errorf("the answer is %d artifacts", n) // the turn recorded it, before it ended
	}
	k.verify()
}

// What the adapter builds on, as any caller can ask for it.
func TestCommandsAboutPeers(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "ask What?")).task()
	alice := command.Caller{Account: "alice", Actor: event.Actor{Kind: "user"}}
	key := command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: str(task, "id")}
	do := func(c command.Caller, p command.Params) error {
		_, err := k.runtime.Do(t.Context(), c, p)
		return err
	}
	if err := do(alice, &command.ListPeerTasks{NativeProtocol: "a2a", All: true}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("the tasks of all accounts: %v", err)
	}
	if err := do(alice, &command.ListPeerPushes{NativeProtocol: "a2a", All: true}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("the wishes of all accounts: %v", err)
	}
	if err := do(command.Local(), &command.ListPeerTasks{NativeProtocol: "a2a", All: true}); err != nil {
		t.Error(err)
	}
	if err := do(command.Local(), &command.GetPeerTask{PeerTaskKey: key}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another account's task: %v", err)
	}
	if err := do(alice, &command.SettlePeerTask{PeerTaskKey: key, RemoteStatus: "TASK_STATE_COMPLETED"}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a task that hasn't ended was settled: %v", err)
	}
	for i := range 101 {
		err := do(alice, &command.SetPeerPush{PeerTaskKey: key, ConfigID: fmt.Sprint("c", i), Target: "x.example", Sealed: "x"})
		if (fault.KindOf(err) == fault.RateLimited && err != nil) != (i == 100) {
			t.Errorf("wish %d: %v", i, err)
		}
	}
	if err := do(alice, &command.SetPeerPush{PeerTaskKey: key, ConfigID: "c0", Target: "y.example", Sealed: "y"}); err != nil {
		t.Errorf("one that is replaced: %v", err)
	}
	k.verify()
}
