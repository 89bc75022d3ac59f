package mcpserver_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// begin starts a turn as a task.
func (k *kit) begin(token, input, sessionID string) string {
	k.t.Helper()
	a := k.send(token, "tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": input, "sessionId": sessionID, "create": true}}, withTasks())
	id, _ := a.Result["taskId"].(string)
	if a.Result["resultType"] != "task" || id == "" || a.Result["status"] != "working" {
		k.t.Fatalf("no task: %s", a.Body)
	}
	if ttl, there := a.Result["ttlMs"]; !there || ttl != nil {
		k.t.Errorf("ttlMs is %v", ttl)
	}
	return id
}

func TestATurnIsATaskForAClientThatTakesTasks(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "say hello", "sess_t")
	done := k.task("ann", id, "completed")
	result := done.Result["result"].(map[string]any)
	if content := result["structuredContent"].(map[string]any); content["answer"] != "Hello to you." || done.Result["resultType"] != "complete" {
		t.Errorf("the task is %s", done.Body)
	}
	// A turn that fails is a tool that failed, not a task that did.
	failed := k.task("ann", k.begin("ann", "break", "sess_f"), "completed")
	if failed.Result["result"].(map[string]any)["isError"] != true {
		t.Errorf("the task is %s", failed.Body)
	}
}

func TestATaskAsksAndIsAnswered(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "write it", "sess_t")
	waiting := k.task("ann", id, "input_required")
	requests := waiting.Result["inputRequests"].(map[string]any)
	if len(requests) != 1 {
		t.Fatalf("it asks %v", requests)
	}
	for key, r := range requests {
		if r.(map[string]any)["method"] != "elicitation/create" {
			t.Errorf("it asks with %v", r)
		}
		update := func(token string, responses map[string]any) *raw {
			return k.send(token, "tasks/update", map[string]any{"taskId": id, "inputResponses": responses}, withTasks())
		}
		yes := map[string]any{"action": "accept", "content": map[string]any{"decision": "allow"}}
		if a := update("ann", map[string]any{"no_such_key": yes}); a.Error != nil {
			t.Errorf("an unknown key: %s", a.Body)
		}
		if a := update("bob", map[string]any{key: yes}); a.Error == nil {
			t.Errorf("another account answered: %s", a.Body)
		}
		if a := update("ann", map[string]any{key: map[string]any{"action": "accept", "content": map[string]any{"decision": "perhaps"}}}); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("an answer that isn't offered: %s", a.Body)
		}
		if a := update("ann", map[string]any{key: yes}); a.Error != nil || a.Result["resultType"] != "complete" || a.Result["taskId"] != nil {
			t.Errorf("the answer: %s", a.Body)
		}
	}
	k.task("ann", id, "completed")
}

func TestATaskIsCancelled(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "wait long", "sess_t")
	queued := k.begin("ann", "say hello", "sess_t")
	for _, task := range []string{queued, id} {
		for range 2 { // the second time it is over already, or nearly so
			if a := k.send("ann", "tasks/cancel", map[string]any{"taskId": task}, withTasks()); a.Error != nil || a.Result["resultType"] != "complete" {
				t.Errorf("the cancel: %s", a.Body)
			}
		}
		k.task("ann", task, "cancelled")
	}
}

func TestATaskSurvivesARestart(t *testing.T) {
	k := newKit(t).start()
	waiting := k.begin("ann", "write it", "sess_w")
	k.task("ann", waiting, "input_required")
	done := k.begin("ann", "say hello", "sess_d")
	k.task("ann", done, "completed")
	k.stop()
	k.start()
	k.task("ann", done, "completed")
	open := k.task("ann", waiting, "input_required")
	for key := range open.Result["inputRequests"].(map[string]any) {
		a := k.send("ann", "tasks/update", map[string]any{"taskId": waiting, "inputResponses": map[string]any{key: map[string]any{"action": "accept", "content": map[string]any{"decision": "allow"}}}}, withTasks())
		if a.Error != nil {
			t.Fatal(a.Body)
		}
	}
	end := k.task("ann", waiting, "completed")
	if content := end.Result["result"].(map[string]any)["structuredContent"].(map[string]any); content["answer"] != "It is written." {
		t.Errorf("the task is %s", end.Body)
	}
}

func TestTasksThatAreNotThere(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "say hello", "sess_t")
	k.task("ann", id, "completed")
	for _, c := range []struct{ token, id string }{
		{"ann", "nonsense"},
		{"ann", "sess_t/turn_none/3"},
		{"ann", "sess_none/turn_none/1"},
		{"ann", "sess_t/x/99999999999999999999"},
		{"ann", "sess_t/x/0"},
		{"ann", "../x/1"},
		{"ann", "fixture_1"},
		{"bob", id},
	} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			if a := k.send(c.token, method, map[string]any{"taskId": c.id}, withTasks()); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s of %s: %s", method, c.id, a.Body)
			}
		}
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		a := k.send("ann", method, map[string]any{"taskId": id}, map[string]any{})
		if a.Status != http.StatusBadRequest || a.Error == nil || a.Error.Code != -32021 {
			t.Errorf("%s without the extension: %s", method, a.Body)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if a := k.send("ann", method, nil, withTasks()); a.Status != http.StatusNotFound || a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("%s: %s", method, a.Body)
		}
	}
	r := k.newRequest(t.Context(), "ann", "tasks/get", map[string]any{"taskId": id}, withTasks())
	r.Header.Set("Mcp-Name", "other")
	if a := k.read(r); a.Status != http.StatusBadRequest || a.Error == nil || a.Error.Code != -32020 {
		t.Errorf("a header that says otherwise: %s", a.Body)
	}
	r = k.newRequest(t.Context(), "eve", "tasks/cancel", map[string]any{"taskId": id}, withTasks())
	if a := k.read(r); a.Error == nil {
		t.Errorf("an observer cancels: %s", a.Body)
	}
}

// A client of an older revision has no tasks, whatever it says.
func TestOlderClientsGetTheResult(t *testing.T) {
	k := newKit(t).start()
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension("io.modelcontextprotocol/tasks", nil)
	_, got := k.call(k.client("ann", older, &mcp.ClientOptions{Capabilities: caps}), "run_turn", map[string]any{"input": "say hello"})
	if got["answer"] != "Hello to you." {
		t.Errorf("the result is %v", got)
	}
}

func TestWaitTurnIsATaskToo(t *testing.T) {
	k := newKit(t).start()
	a := k.send("ann", "tools/call", map[string]any{"name": "submit_turn", "arguments": map[string]any{"input": "say hello", "sessionId": "sess_w", "create": true}}, withTasks())
	accepted, _ := a.Result["structuredContent"].(map[string]any)
	a = k.send("ann", "tools/call", map[string]any{"name": "wait_turn", "arguments": map[string]any{"sessionId": "sess_w", "turnId": accepted["turnId"]}}, withTasks())
	if id := fmt.Sprint(a.Result["taskId"]); id != fmt.Sprintf("sess_w/%v/%v", accepted["turnId"], accepted["sequence"]) {
		t.Fatalf("the task is %s: %s", id, a.Body)
	}
	k.task("ann", fmt.Sprint(a.Result["taskId"]), "completed")
}
