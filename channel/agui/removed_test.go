package agui_test

import (
	"testing"

	"agentd/channel"
	"agentd/channel/agui"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
	"agentd/session"
)

// history posts a run without anything new and returns the messages and the state
// that it is told.
func history(t *testing.T, h *agui.Handler, threadID string) (messages []any, state told) {
	t.Helper()
	events, status := run(t, h, `{"threadId":"`+threadID+`","runId":"run_look","messages":[]}`)
	for _, e := range events {
		switch e["type"] {
		case "MESSAGES_SNAPSHOT":
			messages = e["messages"].([]any)
		case "STATE_SNAPSHOT":
			state = e["snapshot"].(told)["agentd"].(told)
		}
	}
	if messages == nil || state == nil {
		t.Fatalf("%d: %v", status, events)
	}
	return messages, state
}

// TestHistoryTellsWhatIsGone: the messages of a session without its first events
// begin with a word about them, and the state has the place.
func TestHistoryTellsWhatIsGone(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{When: &script.When{Contains: "first"}, Text: "one"},
		script.Answer{When: &script.When{Contains: "second"}, Text: "two"})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	run(t, h, message("thread_a", "run_1", "first"))
	messages, state := history(t, h, "thread_a")
	if len(messages) != 2 || state["removedThrough"] != nil {
		t.Errorf("the whole session: %v, %v", messages, state)
	}
	gone, err := rt.TrimSession(t.Context(), command.Local(), "thread_a", session.TrimOptions{})
	if err != nil || gone.Through == 0 {
		t.Fatal(gone, err)
	}
	messages, state = history(t, h, "thread_a")
	if len(messages) != 1 || messages[0].(told)["content"] != channel.RemovedNote(gone.Through) || state["removedThrough"] != float64(gone.Through) {
		t.Errorf("nothing is left: %v, %v", messages, state)
	}
	// A front end sends back what it was told: that isn't taken for something new.
	note := messages[0].(told)
	run(t, h, `{"threadId":"thread_a","runId":"run_2","messages":[{"id":"`+note["id"].(string)+`","role":"assistant","content":"gone"},{"id":"m","role":"user","content":"second"}]}`)
	messages, _ = history(t, h, "thread_a")
	if len(messages) != 3 || messages[1].(told)["content"] != "second" || messages[2].(told)["content"] != "two" {
		t.Errorf("after it went on: %v", messages)
	}
}
