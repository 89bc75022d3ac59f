package agui_test

import (
	"testing"

	"agentd/channel/agui"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// ours is agentd's part of the state that a run begins with.
func ours(t *testing.T, events []told) told {
	t.Helper()
	for _, e := range events {
		if e["type"] == "STATE_SNAPSHOT" {
			return e["snapshot"].(told)["agentd"].(told)
		}
	}
	t.Fatalf("no state in %v", events)
	return nil
}

func TestTheStateIsThatOfTheRun(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{Tools: []script.Tool{{Name: "update_plan", Arguments: map[string]any{"items": []any{map[string]any{"step": "Look.", "status": "pending"}}}}}},
		script.Answer{Text: "Planned."}, script.Answer{Text: "Again."}, adaptertest.Writes(), script.Answer{Text: "Written."})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	if _, err := rt.Do(t.Context(), command.Local(), &command.CreateSession{SessionID: "thread_s"}); err != nil {
		t.Fatal(err)
	}
	events, _ := run(t, h, message("thread_s", "run_1", "plan"))
	if s := ours(t, events); s["permissionMode"] != "default" || s["turnId"] != "run_1" || s["turnCount"] != 1.0 || s["status"] == "idle" {
		t.Errorf("the first run begins with %v", s)
	}
	events, _ = run(t, h, `{"threadId":"thread_s","runId":"run_2","messages":[{"id":"m2","role":"user","content":"again"}],
		"state":{"mine":1,"agentd":{"plan":[{"step":"Look."}]}},"forwardedProps":{"permissionMode":"never"}}`)
	if s := ours(t, events); s["permissionMode"] != "never" || s["turnCount"] != 2.0 || len(s["plan"].([]any)) != 1 {
		t.Errorf("the second run begins with %v", s)
	}
	events, _ = run(t, h, `{"threadId":"thread_s","runId":"run_3","messages":[]}`)
	if s := ours(t, events); s["permissionMode"] != "default" || s["plan"] == nil || s["plan"].([]any)[0].(told)["step"] != "Look." {
		t.Errorf("who comes back is told %v", s)
	}
	events, _ = run(t, h, message("thread_s", "run_4", "write"))
	ask := interruptIn(t, events)
	events, _ = run(t, h, resume("thread_s", "run_5", ask["id"], `{"approved":true}`))
	if s := ours(t, events); s["status"] == "blocked" {
		t.Errorf("the run that answered begins with %v", s)
	}
}
