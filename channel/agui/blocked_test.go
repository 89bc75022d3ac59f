package agui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/channel/agui"
	"agentd/command"
	"agentd/event"
	"agentd/internal/adaptertest"
)

// recorded is a runtime whose only session has these facts.
type recorded struct {
	command.Runtime
	facts []command.Delivered
}

func record(facts ...event.Event) *recorded {
	r := &recorded{}
	for i, e := range facts {
		e.ID, e.SessionID, e.Sequence, e.RuntimeID, e.Time = "evt_"+string(rune('a'+i)), "thread_a", uint64(i+1), "runtime_a", time.Unix(1, 0).UTC()
		r.facts = append(r.facts, command.Delivered{SessionID: "thread_a", Sequence: e.Sequence, Data: event.AppendJSON(nil, &e)})
	}
	return r
}

func (r *recorded) Do(_ context.Context, _ command.Caller, p command.Params) (any, error) {
	if _, ok := p.(*command.GetSession); ok {
		return map[string]any{"threads": []map[string]any{{"threadId": "thread_main"}}}, nil
	}
	return &command.SubmitTurnResult{SessionID: "thread_a", ThreadID: "thread_main", TurnID: "run_a", Sequence: 1}, nil
}

func (r *recorded) Subscribe(context.Context, command.Caller, string, uint64) (command.Stream, error) {
	return &tape{r.facts}, nil
}

// tape tells all at once and then waits.
type tape struct{ left []command.Delivered }

func (s *tape) Close() {}

func (s *tape) Next(ctx context.Context) ([]command.Delivered, error) {
	if s.left == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	all := s.left
	s.left = nil
	return all, nil
}

func inThread(id, status string) event.Event {
	return event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: id}, Payload: &event.ThreadUpdated{Status: status, Reason: "a restart"}}
}

// TestARunWhoseThreadWasBlocked: only a block of the turn's own thread that stands
// ends a run.
func TestARunWhoseThreadWasBlocked(t *testing.T) {
	end := event.Event{
		Type: event.TypeTurnCompleted, Scope: event.Scope{ThreadID: "thread_main", TurnID: "run_a", TaskID: "task_a", RunID: "run_b"},
		Payload: &event.TurnCompleted{Status: "completed", Outcome: "end_turn"},
	}
	for name, c := range map[string]struct {
		facts []event.Event
		want  string
	}{
		"went on":        {[]event.Event{inThread("thread_main", "blocked"), inThread("thread_main", "resumed"), end}, `"RUN_FINISHED"`},
		"another thread": {[]event.Event{inThread("thread_other", "blocked"), end}, `"RUN_FINISHED"`},
		"stands":         {[]event.Event{inThread("thread_main", "blocked")}, `"code":"blocked"`},
	} {
		h := agui.New(agui.Options{Runtime: record(c.facts...), Caller: adaptertest.Caller})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agui",
			strings.NewReader(`{"threadId":"thread_a","runId":"run_a","messages":[{"id":"m","role":"user","content":"go"}]}`)))
		if !strings.Contains(w.Body.String(), c.want) || (c.want != `"code":"blocked"` && strings.Contains(w.Body.String(), "RUN_ERROR")) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
