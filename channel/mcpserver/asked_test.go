package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/internal/adaptertest"
)

// asks begins a turn as a task and returns what it asks for, with the form as text.
func (k *kit) asks(input, mode string) (id, key, form string) {
	k.t.Helper()
	arguments := map[string]any{"input": input}
	if mode != "" {
		arguments["options"] = map[string]any{"permissionMode": mode}
	}
	a := k.send("ann", "tools/call", map[string]any{"name": "run_turn", "arguments": arguments}, withTasks())
	id, _ = a.Result["taskId"].(string)
	requests, _ := k.task("ann", id, "input_required").Result["inputRequests"].(map[string]any)
	for key, r := range requests {
		text, err := json.Marshal(r)
		if err != nil {
			k.t.Fatal(err)
		}
		return id, key, string(text)
	}
	k.t.Fatalf("%s asks nothing", id)
	return "", "", ""
}

func (k *kit) reply(id, key string, content map[string]any) *raw {
	k.t.Helper()
	return k.send("ann", "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{key: map[string]any{"action": "accept", "content": content}}}, withTasks())
}

// A plan is approved in a form that also asks for the mode; for how long an approval
// holds is no question about a plan.
func TestAPlanIsApprovedInAForm(t *testing.T) {
	k := newKit(t).start()
	id, key, form := k.asks("plan first", "plan")
	if !strings.Contains(form, `"permissionMode"`) || !strings.Contains(form, `"decision"`) || strings.Contains(form, `"scope"`) || !strings.Contains(form, "Write it down.") {
		t.Errorf("the form is %s", form)
	}
	if a := k.reply(id, key, map[string]any{"decision": "allow", "permissionMode": "plan"}); a.Error == nil {
		t.Errorf("a mode that isn't offered was taken: %s", a.Body)
	}
	if a := k.reply(id, key, map[string]any{"decision": "allow", "permissionMode": "auto"}); a.Error != nil {
		t.Fatal(a.Body)
	}
	done := k.task("ann", id, "completed")
	if !strings.Contains(done.Body, "It is carried out.") {
		t.Errorf("the task is %s", done.Body)
	}
	var modes []string
	for _, e := range k.events(strings.Split(id, "/")[0]) {
		if text, err := json.Marshal(e.Payload); err == nil && strings.Contains(string(text), `"permissionMode":"auto"`) {
			modes = append(modes, string(e.Type))
		}
	}
	if len(modes) == 0 {
		t.Error("no fact says that the mode is auto")
	}
}

// A credential is a choice from a list.
func TestACredentialIsChosenInAForm(t *testing.T) {
	k := newKit(t).start()
	id, key, form := k.asks("open the vault", "")
	if !strings.Contains(form, `"enum":["env:FIRST_KEY","env:SECOND_KEY"]`) || !strings.Contains(form, "the vault is locked") {
		t.Errorf("the form is %s", form)
	}
	if a := k.reply(id, key, map[string]any{"answer": "a password"}); a.Error == nil {
		t.Errorf("what is no reference was taken: %s", a.Body)
	}
	if a := k.reply(id, key, map[string]any{"answer": adaptertest.References()[1]}); a.Error != nil {
		t.Fatal(a.Body)
	}
	if done := k.task("ann", id, "completed"); !strings.Contains(done.Body, "It is open.") {
		t.Errorf("the task is %s", done.Body)
	}
}
