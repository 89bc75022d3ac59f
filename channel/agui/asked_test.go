package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/channel/agui"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// interruptIn is the only interrupt that a run ended with.
func interruptIn(t *testing.T, events []told) told {
	t.Helper()
	outcome, _ := events[len(events)-1]["outcome"].(told)
	list, _ := outcome["interrupts"].([]any)
	if len(list) != 1 {
		t.Fatalf("the run ended with %v", events[len(events)-1])
	}
	return list[0].(told)
}

func resume(threadID, runID string, interrupt any, payload string) string {
	id, _ := interrupt.(string)
	return `{"threadId":"` + threadID + `","runId":"` + runID + `","messages":[],"resume":[{"interruptId":"` + id + `","status":"resolved","payload":` + payload + `}]}`
}

// The answer to a plan may say in which mode it is carried out; the schema of the
// answer says so.
func TestAPlanIsAnInterrupt(t *testing.T) {
	for payload, want := range map[string]string{
		`{"approved":true,"permissionMode":"auto"}`: "auto",
		`true`: "default",
		`{"approved":false,"reason":"more detail"}`: "",
	} {
		rt := adaptertest.Open(t, adaptertest.Plans(), script.Answer{Text: "Carried out."})
		h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
		if _, err := rt.Do(t.Context(), command.Local(), &command.CreateSession{SessionID: "thread_p"}); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Do(t.Context(), command.Local(), &command.SetPolicy{SessionID: "thread_p", Mode: "plan"}); err != nil {
			t.Fatal(err)
		}
		events, _ := run(t, h, message("thread_p", "run_1", "plan first"))
		ask := interruptIn(t, events)
		schema, err := json.Marshal(ask["responseSchema"])
		if err != nil || ask["reason"] != "plan_approval" || !strings.Contains(string(schema), `"permissionMode"`) || strings.Contains(string(schema), `"scope"`) {
			t.Errorf("it asks %v: %s", ask, schema)
		}
		if text, _ := ask["message"].(string); !strings.Contains(text, "Write it down.") {
			t.Errorf("the plan isn't shown: %v", ask)
		}
		events, _ = run(t, h, resume("thread_p", "run_2", ask["id"], payload))
		mode := ""
		for _, e := range events {
			if e["type"] != "STATE_DELTA" {
				continue
			}
			for _, d := range e["delta"].([]any) {
				if d.(told)["path"] == "/agentd/permissionMode" {
					mode, _ = d.(told)["value"].(string)
				}
			}
		}
		if end := events[len(events)-1]; end["type"] != "RUN_FINISHED" || mode != want {
			t.Errorf("%s: the mode became %q, the end is %v", payload, mode, end)
		}
	}
}

func TestACredentialIsAnInterrupt(t *testing.T) {
	rt := adaptertest.Open(t, adaptertest.Unlocks(), script.Answer{Text: "Done."})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	events, _ := run(t, h, message("thread_c", "run_1", "open it"))
	ask := interruptIn(t, events)
	schema, err := json.Marshal(ask["responseSchema"])
	if err != nil || ask["reason"] != "credential" || !strings.Contains(string(schema), adaptertest.References()[0]) {
		t.Errorf("it asks %v: %s", ask, schema)
	}
	if _, status := run(t, h, resume("thread_c", "run_x", ask["id"], `"a password"`)); status != 400 {
		t.Errorf("what is no reference is answered with %d", status)
	}
	events, _ = run(t, h, resume("thread_c", "run_2", ask["id"], `"`+adaptertest.References()[0]+`"`))
	all, err := json.Marshal(events)
	if err != nil || !strings.Contains(string(all), "opened with "+adaptertest.References()[0]) {
		t.Errorf("%v: %s", err, all)
	}
}
