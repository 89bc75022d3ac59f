package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/adaptertest"
)

// A credential that a tool lacks is the protocol's authorization within a task: the
// peer names where it is read from, and the credential itself is sent nowhere.
func TestACredentialIsAskedForAsAuthorization(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		first, second := adaptertest.References()[0], adaptertest.References()[1]
		for i, c := range []struct {
			part  object
			wants string
		}{
			{object{"text": " " + first + "\n"}, "opened with " + first},
			{object{"data": object{"decision": "submit", "payload": second}}, "opened with"}, // the session has one already
			{object{"text": "Cancel."}, "opened with"},
		} {
			to := object{"contextId": fmt.Sprint("c", i)}
			task := k.call(b, "SendMessage", message(fmt.Sprint("m", i), "unlock", to)).task()
			if state(task) != "TASK_STATE_AUTH_REQUIRED" {
				t.Fatalf("the task is %v", task["status"])
			}
			ask := valueAt(task, "status", "message", "parts", 1, "data")
			if str(ask, "actionType") != "credential" || !strings.Contains(fmt.Sprint(valueAt(ask, "schema")), first) || str(task, "status", "message", "parts", 0, "text") == "" {
				t.Errorf("it asks %v", ask)
			}
			k.call(b, "SendMessage", message(fmt.Sprint("x", i), "my password is 1234", object{"taskId": task["id"]})).fails("INVALID_PARAMS")
			answer := object{"taskId": task["id"], "parts": []object{c.part}}
			done := k.call(b, "SendMessage", message(fmt.Sprint("a", i), "", answer)).task()
			if text := str(done, "artifacts", 0, "parts", 0, "text"); state(done) != "TASK_STATE_COMPLETED" || strings.Contains(text, c.wants) == strings.Contains(fmt.Sprint(c.part), "Cancel") {
				t.Errorf("%v: %v", c.part, done)
			}
		}
	})
}

// A plan is approved or sent back in a word, or in data that says in which mode it
// is carried out.
func TestAPlanIsApprovedByAPeer(t *testing.T) {
	k := newKit(t)
	session := sessionOf(k.call(jsonRPC, "SendMessage", message("m0", "say x", object{"contextId": "c"})).task())
	for i, c := range []struct {
		part object
		mode string
	}{
		{object{"text": "no"}, "plan"},
		{object{"data": object{"decision": "allow", "payload": object{"permissionMode": "auto"}}}, "auto"},
		{object{"text": "Approved."}, "default"},
	} {
		if _, err := k.runtime.Do(t.Context(), command.Local(), &command.SetPolicy{SessionID: session, Mode: "plan"}); err != nil {
			t.Fatal(err)
		}
		task := k.call(jsonRPC, "SendMessage", message(fmt.Sprint("m1", i), "plan Write it down.", object{"contextId": "c"})).task()
		ask := valueAt(task, "status", "message", "parts", 1, "data")
		if state(task) != "TASK_STATE_INPUT_REQUIRED" || str(ask, "actionType") != "plan_approval" || !strings.Contains(str(task, "status", "message", "parts", 0, "text"), "Write it down.") {
			t.Fatalf("it asks %v", task["status"])
		}
		done := k.call(jsonRPC, "SendMessage", message(fmt.Sprint("a1", i), "", object{"taskId": task["id"], "parts": []object{c.part}})).task()
		if state(done) != "TASK_STATE_COMPLETED" {
			t.Errorf("done %v", done["status"])
		}
		mode := "plan"
		for _, e := range k.facts(session, event.TypePolicyChanged) {
			mode = e.Payload.(*event.PolicyChanged).Mode
		}
		if mode != c.mode {
			t.Errorf("%v: the mode is %s", c.part, mode)
		}
	}
}

// What the protocol's later versions may add is passed over.
func TestFieldsThatNobodyKnowsArePassedOver(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		p := message("m1", "say x", object{"fromTheFuture": object{"a": 1}})
		p["alsoNew"] = true
		if task := k.call(b, "SendMessage", p).task(); state(task) != "TASK_STATE_COMPLETED" {
			t.Errorf("the task is %v", task["status"])
		}
	})
}
