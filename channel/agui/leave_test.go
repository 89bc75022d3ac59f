package agui_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/channel/agui"
	"agentd/command"
	"agentd/event"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// leave posts a run, goes away as soon as it is told an event of the given type, and
// returns when the handler is done with it.
func leave(t *testing.T, h http.Handler, body, at string) {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"`+at+`"`) {
	}
	cancel()
	<-done
}

// TestWhoOnlyLookedOnEndsNothing: a page that was loaded anew and closed again leaves
// the turn to whoever began it; that one takes it along.
func TestWhoOnlyLookedOnEndsNothing(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	leave(t, h, `{"threadId":"thread_a","runId":"run_a","messages":[{"id":"m","role":"user","content":"go"}],"forwardedProps":{"onDisconnect":"continue"}}`, "STEP_STARTED")
	leave(t, h, `{"threadId":"thread_a","runId":"run_look","messages":[]}`, "MESSAGES_SNAPSHOT")
	if status, _ := adaptertest.Turn(t, rt, "thread_a"); status != "running" {
		t.Fatalf("somebody looked on and went, and the turn is %s", status)
	}
	leave(t, h, message("thread_a", "run_a", "go"), "STEP_STARTED")
	await(t, rt, "thread_a", "turn.failed")
	if status, category := adaptertest.Turn(t, rt, "thread_a"); status != "cancelled" || category != "interrupted" {
		t.Errorf("the turn of a client that went is %s, %s", status, category)
	}
}

// await returns when a session has a fact of a type.
func await(t *testing.T, rt runtime, sessionID, kind string) {
	t.Helper()
	s, err := rt.Subscribe(t.Context(), command.Local(), sessionID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		facts, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range facts {
			if strings.Contains(string(facts[i].Data), `"`+kind+`"`) {
				return
			}
		}
	}
}

// TestAnInterruptIsAnsweredOnce: one that is answered twice in a run answers nothing,
// and one that was answered is not open any more.
func TestAnInterruptIsAnsweredOnce(t *testing.T) {
	rt := adaptertest.Open(t, adaptertest.Writes(), script.Answer{Text: "Written."})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	events, _ := run(t, h, message("thread_a", "run_1", "write"))
	id := events[len(events)-1]["outcome"].(told)["interrupts"].([]any)[0].(told)["id"].(string)
	yes := `{"interruptId":"` + id + `","status":"resolved","payload":true}`
	no := `{"interruptId":"` + id + `","status":"cancelled"}`
	resume := func(runID string, answers ...string) ([]told, int) {
		return run(t, h, `{"threadId":"thread_a","runId":"`+runID+`","messages":[],"resume":[`+strings.Join(answers, ",")+`]}`)
	}
	for _, answers := range [][]string{{yes, yes}, {yes, no}, {no, yes}} {
		if _, status := resume("run_2", answers...); status != http.StatusBadRequest {
			t.Errorf("%v: %d", answers, status)
		}
		if status, _ := adaptertest.Turn(t, rt, "thread_a"); status != "blocked" {
			t.Fatalf("%v: the turn is %s", answers, status)
		}
	}
	if events, _ := resume("run_3", yes); events[len(events)-1]["outcome"].(told)["type"] != "success" {
		t.Errorf("%v", events[len(events)-1])
	}
	for _, late := range []string{yes, no} {
		if _, status := resume("run_4", late); status != http.StatusConflict {
			t.Errorf("again: %d", status)
		}
	}
	if status, _ := adaptertest.Turn(t, rt, "thread_a"); status != "completed" {
		t.Errorf("the turn is %s", status)
	}
}

// TestAForkTellsItsPast: a page that opens a fork gets what was said before it.
func TestAForkTellsItsPast(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{When: &script.When{Contains: "first"}, Text: "one"}, script.Answer{When: &script.When{Contains: "second"}, Text: "two"})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	run(t, h, message("thread_a", "run_1", "first"))
	facts, last, err := rt.Events(t.Context(), command.Local(), "thread_a", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	second, err := event.Decode(facts[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	made, err := rt.Do(t.Context(), command.Local(), &command.ForkThread{SessionID: "thread_a", ThreadID: second.ThreadID, AtSequence: last})
	if err != nil {
		t.Fatal(err)
	}
	id := made.(*command.ForkThreadResult).SessionID
	run(t, h, message(id, "run_2", "second"))
	events, _ := run(t, h, `{"threadId":"`+id+`","runId":"run_look","messages":[]}`)
	var said []string
	for _, e := range events {
		if e["type"] == "MESSAGES_SNAPSHOT" {
			for _, m := range e["messages"].([]any) {
				said = append(said, m.(told)["content"].(string))
			}
		}
	}
	if want := []string{"first", "one", "second", "two"}; !slices.Equal(said, want) {
		t.Errorf("told %q, want %q", said, want)
	}
}

// TestAClientThatLeavesWhileItIsAccepted takes its turn along, unless it wants it to
// continue.
func TestAClientThatLeavesWhileItIsAccepted(t *testing.T) {
	for name, onDisconnect := range map[string]string{"it ends": "interrupt", "by default": "", "it continues": "continue"} {
		t.Run(name, func(t *testing.T) {
			rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := agui.New(agui.Options{Runtime: &adaptertest.Leaving{Runtime: rt, Leave: cancel}, Caller: adaptertest.Caller})
			body := `{"threadId":"thread_a","runId":"run_a","messages":[{"id":"m","role":"user","content":"go"}],"forwardedProps":{"onDisconnect":"` + onDisconnect + `"}}`
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/agui", strings.NewReader(body)))
			want := "cancelled"
			if onDisconnect == "continue" {
				want = "running"
				await(t, rt, "thread_a", "model.requested")
			} else {
				await(t, rt, "thread_a", "turn.failed")
			}
			if status, _ := adaptertest.Turn(t, rt, "thread_a"); status != want {
				t.Errorf("the turn is %s, want %s", status, want)
			}
		})
	}
}
